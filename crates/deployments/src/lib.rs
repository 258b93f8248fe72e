//! Deployments: versions, channels, canary, rollback.

pub mod attestation;
pub mod cli;
pub mod described;
pub mod examination;
pub mod http;
pub mod ports;
pub mod promotion;
pub mod rules;
pub mod service;
pub mod store;
