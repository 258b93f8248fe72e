//! The wire of major 2.

pub mod event;
pub mod names;
pub mod payload;
pub mod subject;
