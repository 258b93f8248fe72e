//! Runs: their rules, and the results computed from the event log.

pub mod cli;
pub mod config;
pub mod fixtures;
pub mod http;
pub mod ports;
pub mod render;
pub mod rules;
pub mod service;
pub mod storage;
pub mod store;
pub mod webhook_client;
