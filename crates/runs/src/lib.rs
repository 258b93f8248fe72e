//! Runs: the event log, its fold, and what is computed from it.

pub mod events;
pub mod rules;
