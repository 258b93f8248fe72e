//! Sources of packs: a file with its companions, a directory laid out like a registry, a registry
//! over HTTP.
//!
//! Adapters of [`crate::ports::PackSource`]. They fetch a bounded number of bytes and parse the two
//! documents that locate the others; [`crate::rules`] verifies the bytes.

pub mod directory;
pub mod document;
pub mod file;
pub mod http;

pub use crate::registry::directory::DirectoryRegistry;
pub use crate::registry::file::{PackFile, read_pack_file};
pub use crate::registry::http::HttpRegistry;
