//! What several areas of the tests need.

pub mod postgres;
