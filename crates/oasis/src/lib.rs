//! OASIS: profiles, providers, verdicts and reports.

pub mod rules;
pub mod wire;
