//! Evaluation: suites, matching of outputs, scoring of facts, and gates.

pub mod assertions;
pub mod attempts;
pub mod comparison;
pub mod export;
pub mod flaky;
pub mod gate;
pub mod import;
pub mod judged;
pub mod matching;
pub mod matrix;
pub mod report;
pub mod rubric;
pub mod safety;
#[cfg(test)]
pub(crate) mod sample;
pub mod scoring;
pub mod scoring_document;
pub mod statistics;
pub mod suite_lint;
pub mod suite_rules;
pub mod tally;
pub mod task_details;
pub mod task_list;
pub mod unjudged_cause;
