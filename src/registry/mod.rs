//! Where packs come from: a file with its companions, a directory laid out like a registry, a registry over HTTP.
//!
//! Adapters of [`crate::ports::PackSource`]. They fetch bounded octets and parse the two documents that say where the
//! others are; what the octets are worth is decided in [`crate::domain::pack`].

mod directory;
mod document;
mod file;
mod http;

pub use directory::DirectoryRegistry;
pub use file::{PackFile, read_pack_file};
pub use http::HttpRegistry;
