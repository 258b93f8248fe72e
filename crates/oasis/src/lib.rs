//! OASIS: profiles, providers, verdicts and reports.

pub mod cli;
pub mod config;
pub mod executor;
pub mod gate;
pub mod http;
pub mod net;
pub mod ports;
pub mod render;
pub mod rules;
pub mod service;
pub mod wire;
