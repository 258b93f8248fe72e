//! Sources of packs: a file with its companions, a directory laid out like a registry, a registry
//! over HTTP.
//!
//! Adapters of [`crate::packs::ports::PackSource`]. They fetch a bounded number of bytes and parse the two
//! documents that locate the others; [`touchstone_packs::rules`] verifies the bytes.

pub mod directory;
pub mod document;
pub mod file;
pub mod http;

pub use crate::packs::registry::directory::DirectoryRegistry;
pub use crate::packs::registry::file::{PackFile, read_pack_file};
pub use crate::packs::registry::http::HttpRegistry;
