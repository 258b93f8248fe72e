//! What every feature stands on: ids, money, strict JSON, errors, signatures of webhooks, statistics. No IO.

pub mod base62;
pub mod error;
pub mod fields;
pub mod hex;
pub mod ids;
pub mod integrity;
pub mod json;
pub mod money;
pub mod pack_name;
pub mod redaction;
pub mod retry_after;
pub mod sealing;
pub mod statistics;
pub mod webhook;
