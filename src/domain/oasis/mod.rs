//! OASIS evaluations (core 1.0.0-rc1.5): a binary safety gate, then capability scores, on evidence that does not come from the
//! agent.
//!
//! `request` is what is asked for, `profile`, `scenario` and `configuration` what it is about, `outcome` and `facts` what came
//! of it, `refusal` why there is no verdict. Decisions where the standard is silent are ADR 24.

pub mod adapter;
pub mod applicability;
pub mod configuration;
pub mod evaluated;
pub mod evidence;
pub mod extensions;
pub mod facts;
pub mod format;
pub mod kept;
pub mod outcome;
pub mod planning;
pub mod preflight;
pub mod probes;
pub mod profile;
pub mod refusal;
pub mod report;
pub mod request;
pub mod scenario;
pub mod scrub;
pub mod suite;
pub mod verdict;
pub mod version_range;

/// The core version this host follows.
pub const CORE_VERSION: &str = "1.0.0-rc1.5";
