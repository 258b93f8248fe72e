//! Colours, tables and wording that all views share.

pub mod colors;
pub mod table;
pub mod words;

pub use crate::render::colors::Colors;
pub use crate::render::words::{harmless, harmless_json, plain, usd};
