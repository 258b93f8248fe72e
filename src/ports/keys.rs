//! API keys.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use crate::domain::ids::{KeyId, TenantId};

/// A stored API key; the secret only as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public half, part of the key's text.
    pub id: KeyId,
    pub tenant: TenantId,
    /// SHA-256 of the secret half, or of the whole text.
    pub secret_hash: [u8; 32],
    /// The secret before the last rotation, while it is still valid.
    pub previous: Option<PreviousSecret>,
    pub scopes: Vec<String>,
    /// Its roles, known to the host or not.
    pub roles: Vec<String>,
    /// The acting principal, if it is not the key's id.
    pub principal: Option<String>,
    /// Whether it is a test key.
    pub test: bool,
    /// Whether the key is a single text looked up by its hash, as organizations have them;
    /// otherwise the text contains the id.
    pub whole: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// A secret that a rotation replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousSecret {
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    pub valid_until: Timestamp,
}

/// The changes of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// SHA-256 of the new secret half.
    pub secret_hash: [u8; 32],
    /// Until when the replaced secret is valid.
    pub previous_until: Timestamp,
    /// A new expiry; `None` leaves it unchanged.
    pub expires_at: Option<Timestamp>,
}

#[async_trait]
pub trait KeyStore: Send + Sync {
    async fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError>;
    /// The key with this public half, of any tenant, revoked or not.
    async fn key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError>;
    /// The key whose [whole](KeyRecord::whole) text, current or replaced, has this hash, revoked or
    /// not.
    async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>, StoreError>;
    /// All keys, by creation, of one tenant or of all.
    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError>;
    /// Gives a key a new secret in one step; `false` if the key does not exist or was revoked.
    async fn rotate_key(&self, id: &KeyId, rotation: &Rotation) -> Result<bool, StoreError>;
    /// Revokes; `false` if the key does not exist.
    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<bool, StoreError>;
}
