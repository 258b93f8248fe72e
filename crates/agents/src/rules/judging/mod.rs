//! A judge is a model too: its [`prompt`], the parser of its [`verdict`], and its parameters. Of
//! everything that it reads or writes, its decisions and its reasons are recorded.
//!
//! A rubric is asked about criterion by criterion. Assertions of a scoring document ask with other
//! [`form`]s.

pub mod form;
pub mod lists;
pub mod prompt;
pub mod verdict;

/// Zero, so that a judge gives the same verdict twice.
pub const TEMPERATURE: f64 = 0.0;
/// Room for models that reason before they answer; a verdict itself takes a few dozen tokens.
pub const MAX_TOKENS: u64 = 1024;
/// How often one criterion is asked before an invalid answer is final.
pub const ASKED_AT_MOST: u32 = 2;
