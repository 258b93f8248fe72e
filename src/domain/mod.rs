//! The rules, as plain functions over plain types: no IO, no clock, no randomness.

pub mod access;
pub mod attestation;
pub mod audit;
pub mod promotion;
pub mod storage;
pub mod workflow;

pub use touchstone_agent_cards::rules as card;
pub use touchstone_agents::{budget, rules as agent};
pub use touchstone_deployments::rules as deployment;
pub use touchstone_kit::{
    base62, fields, hex, ids, money, redaction, retry_after, sealing, statistics, webhook,
};
pub use touchstone_oasis::rules as oasis;
pub use touchstone_packs::rules as pack;
pub use touchstone_ratings::{credential, rules as aaaf};
pub use touchstone_runs::rules::{eval, kind, run};

/// The evaluation kinds of this host.
pub const KINDS: kind::Kinds = kind::Kinds::new(&[&oasis::run::kind::OasisKind]);
