//! The rules, as pure functions over plain types: no IO, no clock, no randomness.

pub mod aaaf;
pub mod access;
pub mod agent;
pub mod attestation;
pub mod audit;
pub mod base62;
pub mod budget;
pub mod card;
pub mod credential;
pub mod deployment;
pub mod eval;
pub mod fields;
pub mod hex;
pub mod ids;
pub mod money;
pub mod oasis;
pub mod pack;
pub mod promotion;
pub mod redaction;
pub mod retry_after;
pub mod run;
pub mod sealing;
pub mod statistics;
pub mod storage;
pub mod webhook;
pub mod workflow;
