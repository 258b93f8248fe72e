pub mod download;
pub mod installed;
pub mod packs;
pub mod publications;
pub mod suite_upload;
