//! The key a host signs its verdicts with.

use std::sync::Arc;

use crate::domain::pack::keys::SecretKey;

/// Where the key of this host is.
pub trait SigningKey: Send + Sync {
    /// The key; made on the way if this host makes its own.
    ///
    /// # Errors
    /// [`NoSigningKey`].
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey>;
}

/// Nothing can be signed.
#[derive(Debug, thiserror::Error)]
pub enum NoSigningKey {
    /// Nobody gave this host a key, and it has no folder to keep one in.
    #[error("this host has no key to sign with")]
    NotConfigured,
    /// It cannot be read or made.
    #[error("the signing key cannot be used: {0}")]
    Unusable(String),
}
