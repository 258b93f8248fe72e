//! Colours, tables and wording that all views share.

pub mod ink;
pub mod table;
pub mod words;

pub use crate::render::ink::Ink;
pub use crate::render::words::{harmless, harmless_json, plain, usd};
