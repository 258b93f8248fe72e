//! Agent cards: compliance, trust and availability.

pub mod rules;
