//! Rules without clock, files or network.

pub mod claims;
pub mod telemetry;
