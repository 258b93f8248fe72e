//! Content-addressed octets.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;

/// Content-addressed octets: pack archives and suites. Never deleted, so that a run can always resume.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps `octets` under `digest` (`sha256-<base64>`); keeping the same again is no error.
    async fn put(&self, digest: &str, octets: &[u8]) -> Result<(), StoreError>;
    /// The octets.
    async fn get(&self, digest: &str) -> Result<Option<Bytes>, StoreError>;
}
