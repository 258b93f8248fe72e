//! Content-addressed bytes.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;

/// Content-addressed bytes: pack archives and suites. Never deleted, so that a run can always
/// resume.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores `octets` under `digest` (`sha256-<base64>`); storing the same bytes again is not an
    /// error.
    async fn put(&self, digest: &str, octets: &[u8]) -> Result<(), StoreError>;
    async fn get(&self, digest: &str) -> Result<Option<Bytes>, StoreError>;
}
