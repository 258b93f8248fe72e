//! The wire of major 2.

pub mod names;
pub mod subject;
