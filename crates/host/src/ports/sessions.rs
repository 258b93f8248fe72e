//! Sessions of the console.

use jiff::Timestamp;

use touchstone_kit::ids::{KeyId, TenantId};

/// A stored session; its token only as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Public half, part of the token's text.
    pub id: String,
    pub tenant: TenantId,
    pub principal: String,
    pub origin: SessionOrigin,
    /// SHA-256 of the secret half of the token.
    pub token_hash: [u8; 32],
    pub previous: Option<ReplacedToken>,
    /// What a form must send back.
    pub csrf: [u8; 32],
    pub created_at: Timestamp,
    /// The last request, to within a minute.
    pub used_at: Timestamp,
    pub rotated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// How a session began, and where its rights come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOrigin {
    /// By an API key, whose rights are read at each request.
    Key(KeyId),
    /// On a host without keys, from the machine itself.
    Local,
}

impl SessionOrigin {
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Local => "local",
        }
    }
}

/// A token that a rotation replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedToken {
    /// SHA-256 of its secret half.
    pub hash: [u8; 32],
    pub valid_until: Timestamp,
}
