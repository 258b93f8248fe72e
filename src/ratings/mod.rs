pub mod cli;
pub mod config;
pub mod gate;
pub mod http;
pub mod ports;
pub mod render;
pub mod service;
pub mod store;
