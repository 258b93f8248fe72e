//! Use cases over domain and ports.

pub mod aaaf;
pub mod access;
pub mod annotations;
pub mod attestations;
pub mod audit;
pub mod bundles;
pub mod cards;
pub mod deployments;
pub mod diffs;
pub mod executor;
pub mod fault;
pub mod gates;
pub mod installed;
pub mod journal;
pub mod keys;
pub mod library;
pub mod log_reader;
pub mod packs;
pub mod projections;
mod reserving;
pub mod run_writer;
pub mod runs;
pub mod seams;
pub mod vault;
pub mod webhooks;
pub mod worker;
pub mod workflows;
