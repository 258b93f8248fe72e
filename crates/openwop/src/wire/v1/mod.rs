//! The wire of major 1.

pub mod event;
