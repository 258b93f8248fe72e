//! API keys.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use crate::domain::ids::{KeyId, TenantId};

/// An API key as it is kept: the secret only as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public half, part of the key's text.
    pub id: KeyId,
    /// Whose key it is.
    pub tenant: TenantId,
    /// SHA-256 of the secret half, or of the whole text.
    pub secret_hash: [u8; 32],
    /// The secret before the last rotation, while it is still good.
    pub previous: Option<PreviousSecret>,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Roles it holds, known to the host or not.
    pub roles: Vec<String>,
    /// Who acts by it, if that is to be known by another name than the key's id.
    pub principal: Option<String>,
    /// Whether it is for tests only.
    pub test: bool,
    /// Whether the key is one text that is looked up by its hash, as organizations have them; else it says its id.
    pub whole: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A secret that a rotation replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousSecret {
    /// SHA-256 of it.
    pub hash: [u8; 32],
    /// Until when it is good.
    pub valid_until: Timestamp,
}

/// What a rotation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// SHA-256 of the new secret half.
    pub secret_hash: [u8; 32],
    /// Until when the replaced secret is good.
    pub previous_until: Timestamp,
    /// A new end of the key; `None` leaves it as it is.
    pub expires_at: Option<Timestamp>,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Adds a key.
    async fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError>;
    /// The key with this public half, of whatever tenant, revoked or not.
    async fn key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError>;
    /// The key of which this is the hash of the [whole](KeyRecord::whole) text, present or replaced, revoked or not.
    async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>, StoreError>;
    /// All keys, by creation, of one tenant or of all.
    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError>;
    /// Gives a key a new secret in one step; `false` if there is no such key or it was revoked.
    async fn rotate_key(&self, id: &KeyId, rotation: &Rotation) -> Result<bool, StoreError>;
    /// Revokes; `false` if there is no such key.
    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<bool, StoreError>;
}
