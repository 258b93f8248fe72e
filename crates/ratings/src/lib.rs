//! AAAF ratings: evidence, dimensions, tiers, badges, appeals and stress tests.

pub mod credential;
pub mod rules;
