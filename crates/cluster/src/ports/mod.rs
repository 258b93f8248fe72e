//! Interfaces to what is outside.

pub mod bus;
