//! OpenWOP v1, one file per operation.

pub mod host;
