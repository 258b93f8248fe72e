//! Wire documents: serde types, strict JSON, compiled schemas, the error envelope. No rules, no IO.

pub mod error;
pub mod in_toto;
pub mod json;
pub mod oasis;
pub mod openwop;
pub mod schema;
