//! Use cases over domain and ports.

pub mod executor;
pub mod fault;
pub mod library;
pub mod packs;
pub mod projections;
pub mod run_writer;
pub mod worker;
