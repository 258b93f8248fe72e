pub mod blobs;
pub mod inventory;
