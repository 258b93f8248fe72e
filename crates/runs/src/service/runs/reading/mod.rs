//! Reading runs: lists, reports, comparisons.

pub mod comparisons;
mod effects;
pub mod experiments;
pub mod flaky;
pub mod list;
pub mod moment;
pub mod results;
pub mod task_details;
mod verdicts;
pub mod views;
