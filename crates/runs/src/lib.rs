//! Runs: their rules, and the results computed from the event log.

pub mod rules;
