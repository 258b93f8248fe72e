//! The basis of every feature of a host: the database, leased and periodic jobs, keys, the audit
//! log, the guarded HTTP client, and the parts that routes and commands share.

pub mod access;
pub mod audit;
pub mod background;
pub mod backup;
pub mod cli;
pub mod config;
pub mod http;
pub mod net;
pub mod objects;
pub mod otlp;
pub mod ports;
pub mod render;
pub mod rules;
pub mod service;
pub mod store;
pub mod system;
pub mod telemetry;
