//! Sources of packs: a file with its companions, a directory laid out like a registry, a registry
//! over HTTP.
//!
//! Adapters of [`crate::ports::PackSource`]. They fetch a bounded number of bytes and parse the two
//! documents that locate the others; [`crate::domain::pack`] verifies the bytes.

mod directory;
mod document;
mod file;
mod http;

pub use directory::DirectoryRegistry;
pub use file::{PackFile, read_pack_file};
pub use http::HttpRegistry;
