//! A simulated user is a model too: its [`prompt`], and the parser of its [`reply`]. The agent's
//! words are quoted in the same way as for a judge, so that an agent cannot give orders to its
//! user.

pub mod prompt;
pub mod reply;

/// Zero, so that a user says the same twice.
pub const TEMPERATURE: f64 = 0.0;
/// Room for models that reason before they answer.
pub const MAX_TOKENS: u64 = 2048;
/// How often one reply is asked for before an invalid one is final.
pub const ASKED_AT_MOST: u32 = 2;
