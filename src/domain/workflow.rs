//! Workflows: the rules, and the host's own for conformance.

pub mod fixtures;

pub use touchstone_runs::rules::workflow::*;
