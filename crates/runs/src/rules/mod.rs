//! The rules, as plain functions over plain types: no IO, no clock, no randomness.

pub mod archive;
pub mod eval;
pub mod kind;
pub mod review;
pub mod run;
pub mod workflow;
