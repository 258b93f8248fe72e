//! Keeps secrets at rest: what others must be able to use again is sealed before it is stored.
//!
//! The key is the operator's, or in a file beside the database. A host that has neither, because its database is elsewhere and
//! nobody gave it a key, keeps one in the database: then whoever reads all of the database reads the secrets too.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::domain::sealing::{Sealed, SealingKey};
use crate::ports::{Ids, NoSigningKey, SigningKey, Store, StoreError};

/// What the key in the database is called.
const IN_DATABASE: &str = "sealing";

/// A secret cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is no key.
    #[error("the key that secrets are sealed with cannot be used")]
    Key(#[source] NoSigningKey),
    /// The database has it, and does not answer.
    #[error("the key that secrets are sealed with cannot be read")]
    Store(#[from] StoreError),
    /// It cannot be opened.
    #[error("a sealed secret cannot be opened")]
    Sealed(#[from] Sealed),
    /// The cipher refused.
    #[error("a secret cannot be sealed")]
    Unsealable,
}

/// Seals and opens.
pub struct Vault {
    store: Arc<dyn Store>,
    ids: Arc<dyn Ids>,
    file: Option<Arc<dyn SigningKey>>,
    of_file: OnceCell<SealingKey>,
    of_database: OnceCell<SealingKey>,
}

impl Vault {
    /// One with the key of a file; of the database without one.
    pub fn new(
        store: Arc<dyn Store>,
        ids: Arc<dyn Ids>,
        file: Option<Arc<dyn SigningKey>>,
    ) -> Self {
        Self {
            store,
            ids,
            file,
            of_file: OnceCell::new(),
            of_database: OnceCell::new(),
        }
    }

    /// Seals what is a secret of `owner`, such as `webhook:<id>`; it opens for the same owner only.
    ///
    /// # Errors
    /// [`VaultError`].
    pub async fn seal(&self, owner: &str, secret: &[u8]) -> Result<String, VaultError> {
        let fresh = self.ids.secret();
        let nonce = fresh.first_chunk().ok_or(VaultError::Unsealable)?;
        let sealed = self.key().await?.seal(*nonce, owner, secret);
        sealed.ok_or(VaultError::Unsealable)
    }

    /// Opens what was sealed as a secret of `owner`; also under the key of the database, which a host may have had before it
    /// was given one.
    ///
    /// # Errors
    /// [`VaultError`].
    pub async fn open(&self, owner: &str, sealed: &str) -> Result<Vec<u8>, VaultError> {
        match self.key().await?.open(owner, sealed) {
            Err(Sealed::OtherKey) if self.file.is_some() => {
                Ok(self.key_of_database().await?.open(owner, sealed)?)
            }
            opened => Ok(opened?),
        }
    }

    async fn key(&self) -> Result<&SealingKey, VaultError> {
        let Some(file) = self.file.clone() else {
            return self.key_of_database().await;
        };
        let read = || async move {
            // A file is read, and perhaps made.
            let key = tokio::task::spawn_blocking(move || file.key())
                .await
                .map_err(|_| VaultError::Unsealable)?
                .map_err(VaultError::Key)?;
            SealingKey::of(&key.to_octets()).ok_or(VaultError::Unsealable)
        };
        self.of_file.get_or_try_init(read).await
    }

    async fn key_of_database(&self) -> Result<&SealingKey, VaultError> {
        let read = || async {
            let kept = self.store.host_secret(IN_DATABASE, self.ids.secret());
            SealingKey::of(&kept.await?).ok_or(VaultError::Unsealable)
        };
        self.of_database.get_or_try_init(read).await
    }
}
