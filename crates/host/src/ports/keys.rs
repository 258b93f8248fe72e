//! API keys.

use jiff::Timestamp;

use touchstone_kit::ids::{KeyId, TenantId};

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
