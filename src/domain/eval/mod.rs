//! Evaluation: what a suite demands, how an output is matched, what the facts add up to, what a gate may conclude.

pub mod attempts;
pub mod comparison;
pub mod gate;
pub mod import;
pub mod matching;
pub mod report;
pub mod rubric;
pub mod safety;
#[cfg(test)]
mod sample;
pub mod scoring;
pub mod statistics;
pub mod suite_lint;
pub mod suite_rules;
