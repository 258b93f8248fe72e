//! Views of recorded facts: scorecard for a terminal, JUnit for CI, Markdown for a pull request.
//!
//! Pure functions over the eval report, which is folded from the log. No decisions are made here.

pub mod ink;
pub mod table;
pub mod words;

pub use crate::host::render::ink::Ink;
pub use crate::host::render::words::{harmless, harmless_json, plain, reason_of, said, usd};
