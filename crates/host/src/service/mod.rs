//! Use cases over domain and ports.

pub mod access;
pub mod audit;
pub mod fault;
pub mod gauges;
pub mod health;
pub mod jobs;
pub mod key_management;
pub mod keys;
pub mod lease;
pub mod open_sessions;
pub mod sessions;
pub mod sign_in;
pub mod vault;
