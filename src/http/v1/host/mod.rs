//! This host's own API beyond OpenWOP, under `/v1/host/touchstone/`.

pub mod agent_cards;
pub mod attestation;
pub mod audit;
pub mod comparison;
pub mod gates;
pub mod judge;
pub mod oasis;
pub mod packs;
pub mod report;
pub mod retry;
pub mod statistics;
pub mod storage;
pub mod suites;
pub mod void;
pub mod webhooks;
