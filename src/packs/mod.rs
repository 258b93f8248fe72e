pub mod cli;
pub mod config;
pub mod http;
pub mod ports;
pub mod registry;
pub mod service;
pub mod store;
