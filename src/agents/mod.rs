pub mod ports;
pub mod runtime;
