//! When failed deliveries are attempted again, and for how long those that were given up are
//! listed.

/// Attempts of a delivery in all.
pub const MAX_ATTEMPTS: u32 = 5;
/// Days that a delivery that was given up is listed.
pub const DEAD_LETTER_DAYS: i64 = 30;
/// Most entries of a page of deliveries that were given up.
pub const MAX_DEAD_LETTERS: u64 = 100;
