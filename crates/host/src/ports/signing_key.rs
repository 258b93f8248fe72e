//! The key that signs this host's verdicts.

use std::sync::Arc;

use touchstone_kit::keys::SecretKey;

pub trait SigningKey: Send + Sync {
    /// The key; generated first if this host generates its own.
    ///
    /// # Errors
    /// [`NoSigningKey`].
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey>;
}

/// Why the key is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum NoSigningKey {
    /// No key is configured, and the host has no folder for a generated one.
    #[error("this host has no signing key")]
    NotConfigured,
    /// The key cannot be read or generated.
    #[error("the signing key cannot be used: {0}")]
    Unusable(String),
}
