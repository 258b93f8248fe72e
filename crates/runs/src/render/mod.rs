//! Views of recorded facts: scorecard for a terminal, JUnit and SARIF for CI, Markdown for a pull
//! request.
//!
//! Pure functions over the eval report, which is folded from the log. No decisions are made here.

pub mod change;
pub mod comparison;
pub mod diff;
pub mod document;
pub mod flips;
pub mod github;
pub mod junit;
pub mod live;
pub mod markdown;
pub mod matrix;
pub mod matrix_page;
pub mod report_page;
pub mod run_list;
#[cfg(test)]
pub(crate) mod sample;
pub mod sarif;
pub mod scorecard;
pub mod statistics;
pub mod task;
pub mod words;
