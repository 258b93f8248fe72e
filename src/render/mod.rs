//! Views of recorded facts: scorecard for a terminal, JUnit for CI, Markdown for a pull request.
//!
//! Pure functions over the eval report, which is folded from the log. No decisions are made here.

pub mod badge;
pub mod card;
pub mod comparison;
pub mod diff;
mod flips;
pub mod github;
mod ink;
pub mod junit;
pub mod live;
pub mod markdown;
pub mod oasis;
pub mod rating;
pub mod report;
pub mod scorecard;
pub mod statistics;
mod table;
mod words;

#[cfg(test)]
mod sample;

pub use ink::Ink;
pub use words::{harmless, harmless_json, plain, reason_of, said, usd};
