//! Views of recorded facts: scorecard for a terminal, JUnit for CI, Markdown for a pull request.
//!
//! Pure functions over the eval report. Whatever is shown here was folded from the log; nothing is decided here.

mod comparison;
pub mod diff;
pub mod github;
mod ink;
pub mod junit;
pub mod markdown;
pub mod scorecard;
pub mod statistics;
mod words;

#[cfg(test)]
mod sample;

pub use comparison::{Comparison, compare};
pub use ink::Ink;
pub use words::{reason_of, said, usd};
