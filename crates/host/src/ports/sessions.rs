//! Sessions of the console.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// The token that a form must send back.
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
    Key {
        id: KeyId,
        /// SHA-256 of the secret that signed in: the session ends with it.
        secret: [u8; 32],
    },
    /// On a host without keys, from the machine itself.
    Local,
    /// By an OpenID provider.
    Oidc(OidcGrant),
}

/// What an OpenID provider's claims gave at sign-in; its roles have the scopes that they have at
/// each request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcGrant {
    pub issuer: String,
    /// The digest of the settings under which it signed in: other settings end the session.
    pub settings: String,
    /// Wire names.
    pub scopes: Vec<String>,
    pub roles: Vec<String>,
}

/// A sign-in that went to an OpenID provider and has not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInAttempt {
    /// SHA-256 of the `state` that the provider sends back.
    pub state_hash: [u8; 32],
    /// SHA-256 of the secret in the browser's cookie. The nonce and the PKCE verifier come from
    /// that secret, so that the database holds neither.
    pub browser_hash: [u8; 32],
    /// The page to open after sign-in.
    pub to: String,
    /// The session that the browser had.
    pub session: Option<String>,
    pub expires_at: Timestamp,
}

impl SessionOrigin {
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Key { .. } => "key",
            Self::Local => "local",
            Self::Oidc(_) => "oidc",
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

/// Which open sessions of a tenant are wanted.
#[derive(Clone, Copy, Debug)]
pub struct OpenSessions<'a> {
    /// Of one principal, or of all.
    pub principal: Option<&'a str>,
    /// Older than the session that began then and has this id.
    pub before: Option<(Timestamp, &'a str)>,
    /// Sessions that were not used since, or began before, are over.
    pub used_after: Timestamp,
    pub begun_after: Timestamp,
    pub limit: u32,
}
