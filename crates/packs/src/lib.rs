//! Packs: archives, signatures, lockfiles and contents.

pub mod cli;
pub mod config;
pub mod http;
pub mod ports;
pub mod registry;
pub mod rules;
pub mod service;
pub mod store;
