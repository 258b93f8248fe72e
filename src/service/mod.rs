//! Use cases over domain and ports.

pub mod projections;
pub mod run_writer;
