pub mod cli;
pub mod executor;
pub mod gate;
pub mod http;
pub mod net;
pub mod ports;
pub mod render;
pub mod service;
