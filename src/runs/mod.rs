pub mod cli;
pub mod fixtures;
pub mod http;
pub mod ports;
pub mod render;
pub mod service;
pub mod storage;
pub mod store;
