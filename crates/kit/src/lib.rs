//! Shared foundations: ids, money, strict JSON, errors, keys, webhook signatures, statistics. No
//! IO.

pub mod base62;
pub mod error;
pub mod fields;
pub mod headers;
pub mod hex;
pub mod ids;
pub mod integrity;
pub mod json;
pub mod json_place;
pub mod keys;
pub mod money;
pub mod near;
pub mod network;
pub mod pack_name;
pub mod redaction;
pub mod sealing;
pub mod statistics;
pub mod webhook;
