//! Encrypts secrets that must be readable later, before they are stored.

use std::sync::Arc;

use crate::ports::host_keys::HostKeys;
use crate::ports::ids::Ids;
use crate::ports::signing_key::NoSigningKey;
use touchstone_kit::sealing::Sealed;

/// A secret cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("the host key cannot be used")]
    Key(#[from] NoSigningKey),
    #[error("a stored secret cannot be decrypted with this host's key")]
    Sealed(#[from] Sealed),
    #[error("a secret cannot be encrypted")]
    Unsealable,
}

/// Encrypts and decrypts with the host's key.
pub struct Vault {
    keys: Arc<dyn HostKeys>,
    ids: Arc<dyn Ids>,
}

impl Vault {
    pub fn new(keys: Arc<dyn HostKeys>, ids: Arc<dyn Ids>) -> Self {
        Self { keys, ids }
    }

    /// Encrypts a secret of `owner` (see [`touchstone_kit::sealing::owner`]); only the same owner
    /// can decrypt it.
    ///
    /// # Errors
    /// [`VaultError`].
    pub fn seal(&self, owner: &str, secret: &[u8]) -> Result<String, VaultError> {
        let fresh = self.ids.secret();
        let nonce = fresh.first_chunk().ok_or(VaultError::Unsealable)?;
        let sealed = self.keys.ring()?.seal(*nonce, owner, secret);
        sealed.ok_or(VaultError::Unsealable)
    }

    /// Decrypts a secret of `owner`.
    ///
    /// # Errors
    /// [`VaultError`].
    pub fn open(&self, owner: &str, sealed: &str) -> Result<Vec<u8>, VaultError> {
        Ok(self.keys.ring()?.open(owner, sealed)?)
    }
}
