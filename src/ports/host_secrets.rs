//! The secrets a host makes for itself.

use async_trait::async_trait;

use super::StoreError;

/// Secrets of the host itself.
#[async_trait]
pub trait HostSecrets: Send + Sync {
    /// The secret of this name; `fresh` becomes it if there is none yet. All replicas get the same one.
    async fn host_secret(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError>;
}
