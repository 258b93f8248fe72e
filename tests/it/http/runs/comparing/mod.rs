//! Comparing runs.

mod comparison;
mod diff;
