//! Runs: the event log, its fold, and the results computed from them.

pub mod events;
pub mod rules;
