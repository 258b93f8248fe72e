//! What several areas of the tests need.

pub mod line;
pub mod postgres;
pub mod reference;
