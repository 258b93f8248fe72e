//! OASIS evaluations (core 1.0.0-rc1.5): a binary safety gate, then capability scores, based on
//! evidence that is independent of the agent.
//!
//! `request` holds the request; `profile`, `scenario` and `configuration` describe its subject;
//! `outcome` holds the results; `refusal` explains why there is no verdict; `run` implements the
//! evaluation kind of the core. ADR 24 records the decisions where the standard is silent.

pub mod adapter;
pub mod applicability;
pub mod configuration;
pub mod evaluated;
pub mod evidence;
pub mod format;
pub mod outcome;
pub mod pack;
pub mod planning;
pub mod preflight;
pub mod probes;
pub mod profile;
pub mod refusal;
pub mod report;
pub mod request;
pub mod run;
pub mod scenario;
pub mod scrub;
pub mod stored;
pub mod suite;
pub mod verdict;
pub mod version_range;

/// The OASIS core version that this host implements.
pub const CORE_VERSION: &str = "1.0.0-rc1.5";
