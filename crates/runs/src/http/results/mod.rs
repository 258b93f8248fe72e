//! Results of a run, computed from its log.

pub mod comparison;
pub mod debug_bundle;
pub mod diff;
pub mod eval_summary;
pub mod not_offered;
pub mod report;
pub mod statistics;
