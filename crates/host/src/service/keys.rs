//! API keys: create, list, rotate, revoke, authenticate.
//!
//! A key of an organization (AAAF S14) is `ak_` with 32 random bytes in base62, looked up by the
//! SHA-256 of the whole text. Any other key's text is `tsk_<id>_<secret>`, or
//! `hk_test_<id>_<secret>` for a test key: the id is public and used for the lookup, the secret is
//! 32 random bytes of which only the SHA-256 is stored (a slow hash would add nothing to full
//! entropy). The record is read at every request, so a revocation or a rotation takes effect at
//! once, on every replica.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::access::Scope;
use crate::access::{Grants, Roles};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::ports::keys::{KeyRecord, Rotation};
use crate::ports::store::StoreError;
use crate::service::access::Caller;
use crate::store::database::Database;
use touchstone_kit::base62;
use touchstone_kit::base62::base62;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex_prefix;
use touchstone_kit::ids::{KeyId, TenantId};

/// The tenant of commands that work on the data folder directly.
pub const LOCAL_TENANT: &str = "default";

const LIVE: &str = "tsk_";
/// Prefix of test keys, so that neither people nor scanners confuse them with live keys.
pub const TEST: &str = "hk_test_";
/// Prefix of keys of organizations.
pub const ORGANIZATION: &str = "ak_";
/// Longest id that is looked up; generated ids have 20 characters.
const MAX_ID: usize = 64;

/// A new key. Its text is available only here.
#[derive(Debug)]
pub struct NewKey {
    /// The public half.
    pub id: KeyId,
    /// The whole key.
    pub text: SecretString,
}

/// The properties of a new key.
#[derive(Clone, Debug)]
pub struct Issue {
    pub tenant: TenantId,
    pub scopes: Vec<Scope>,
    pub roles: Vec<String>,
    /// The acting principal, if not the key itself.
    pub principal: Option<String>,
    /// Whether it is a test key.
    pub test: bool,
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Active,
    /// Active, and so is the secret it replaced.
    Rotating,
    Expired,
    Revoked,
}

impl KeyState {
    /// The state of a key at a moment.
    pub fn of(key: &KeyRecord, now: Timestamp) -> Self {
        let rotating = |key: &KeyRecord| {
            key.previous
                .as_ref()
                .is_some_and(|previous| previous.valid_until > now)
        };
        match key {
            key if key.revoked_at.is_some() => Self::Revoked,
            key if key.expires_at.is_some_and(|end| end <= now) => Self::Expired,
            key if rotating(key) => Self::Rotating,
            _ => Self::Active,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Rotating => "rotating",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Whether the key authenticates.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Active | Self::Rotating)
    }
}

/// Why a key cannot be rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The key does not exist, or was revoked.
    #[error("no such key, or the key was revoked")]
    NoSuchKey,
    /// It would expire at once.
    #[error("the key has expired; set a new expiry")]
    Expired,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a key with a given text cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error(
        "is not `tsk_ID_SECRET`, with an id of 1 to 64 lower-case letters and digits and a secret of \
        43 to 128 letters, digits, `-` and `_`"
    )]
    Form,
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub struct Keys {
    pub(super) store: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    roles: Arc<Roles>,
    local: Option<KeyRecord>,
}

/// Id of the key for calls from within the process.
pub const LOCAL: &str = "local";

impl Keys {
    /// The use cases over their ports, on a host without roles.
    pub fn new(store: Arc<Database>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            store,
            clock,
            ids,
            roles: Arc::default(),
            local: None,
        }
    }

    /// Sets the roles of the host.
    #[must_use]
    pub fn with_roles(mut self, roles: Arc<Roles>) -> Self {
        self.roles = roles;
        self
    }

    /// The roles of the host.
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// Creates a key of every scope and role for calls from within this process. It is never stored
    /// and ends with the process.
    pub fn admit_local(&mut self, tenant: &TenantId) -> SecretString {
        let issue = Issue {
            tenant: tenant.clone(),
            scopes: Scope::ALL.to_vec(),
            roles: self.roles.iter().map(|(name, _)| name.to_owned()).collect(),
            principal: None,
            test: false,
            expires_at: None,
        };
        let (record, key) = self.make(LOCAL.into(), issue);
        self.local = Some(record);
        key.text
    }

    /// Creates a live key with these scopes for `tenant`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn create(
        &self,
        tenant: &TenantId,
        scopes: &[Scope],
        expires_at: Option<Timestamp>,
    ) -> Result<NewKey, StoreError> {
        self.issue(Issue {
            tenant: tenant.clone(),
            scopes: scopes.to_vec(),
            roles: Vec::new(),
            principal: None,
            test: false,
            expires_at,
        })
        .await
    }

    /// Creates a key.
    ///
    /// # Errors
    /// The store failed.
    pub async fn issue(&self, issue: Issue) -> Result<NewKey, StoreError> {
        let (record, key) = self.make(self.fresh_id(), issue);
        self.store.add_key(&record).await?;
        Ok(key)
    }

    /// Creates a key whose text the caller chose, such as one that a secret store generated. A key
    /// with the same id stays as it is, even if it was rotated or revoked, so that every start of a
    /// replica may call this. Returns the id, and whether the key was created.
    ///
    /// # Errors
    /// The text has another form, or the store failed.
    pub async fn adopt(
        &self,
        issue: Issue,
        text: &SecretString,
    ) -> Result<(KeyId, bool), AdoptError> {
        let presented = split(text.expose_secret())
            .filter(|presented| is_strong(presented.secret))
            .ok_or(AdoptError::Form)?;
        let id = KeyId::from(presented.id);
        if id.as_str() == LOCAL {
            return Err(AdoptError::Form);
        }
        if self.store.key(&id).await?.is_some() {
            return Ok((id, false));
        }
        let test = presented.test;
        let record = self.record(&id, hash(presented.secret), Issue { test, ..issue });
        self.store.add_key(&record).await?;
        Ok((id, true))
    }

    /// Creates a key of an organization, to be recorded together with it.
    pub fn of_organization(&self, tenant: &TenantId, scopes: Vec<String>) -> (KeyRecord, NewKey) {
        let id = self.fresh_id();
        let (secret_hash, text) = self.whole_secret();
        let record = KeyRecord {
            id: id.clone(),
            tenant: tenant.clone(),
            secret_hash,
            previous: None,
            scopes,
            roles: Vec::new(),
            principal: None,
            test: false,
            whole: true,
            created_at: self.clock.now(),
            expires_at: None,
            revoked_at: None,
        };
        (record, NewKey { id, text })
    }

    pub(super) fn fresh_id(&self) -> KeyId {
        KeyId::from(hex_prefix(&self.ids.secret(), 20))
    }

    pub(super) fn make(&self, id: KeyId, issue: Issue) -> (KeyRecord, NewKey) {
        let (secret_hash, text) = self.secret(&id, issue.test);
        (self.record(&id, secret_hash, issue), NewKey { id, text })
    }

    fn record(&self, id: &KeyId, secret_hash: [u8; 32], issue: Issue) -> KeyRecord {
        let mut scopes: Vec<String> = issue.scopes.iter().map(ToString::to_string).collect();
        scopes.sort_unstable();
        scopes.dedup();
        let mut roles = issue.roles;
        roles.sort_unstable();
        roles.dedup();
        KeyRecord {
            id: id.clone(),
            tenant: issue.tenant,
            secret_hash,
            previous: None,
            scopes,
            roles,
            principal: issue.principal,
            test: issue.test,
            whole: false,
            created_at: self.clock.now(),
            expires_at: issue.expires_at,
            revoked_at: None,
        }
    }

    /// A new secret: its hash, and the key's text that contains it.
    pub(super) fn secret(&self, id: &KeyId, test: bool) -> ([u8; 32], SecretString) {
        let secret = URL_SAFE_NO_PAD.encode(self.ids.secret());
        let prefix = if test { TEST } else { LIVE };
        let text = SecretString::from(format!("{prefix}{id}_{secret}"));
        (hash(&secret), text)
    }

    /// A new text that is entirely secret, with its hash.
    pub(super) fn whole_secret(&self) -> ([u8; 32], SecretString) {
        let text = format!("{ORGANIZATION}{}", base62(self.ids.secret()));
        (hash(&text), SecretString::from(text))
    }

    /// All keys of one tenant or of all, without their secrets.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError> {
        self.store.keys(tenant).await
    }

    /// The combined grants of a principal's active keys; empty if it has none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn grants_of(
        &self,
        tenant: &TenantId,
        principal: &str,
    ) -> Result<Grants, StoreError> {
        let now = self.clock.now();
        let mut held = Grants::default();
        for key in self.store.keys(Some(tenant)).await? {
            let acts = key.principal.as_deref().unwrap_or(key.id.as_str());
            if acts == principal && KeyState::of(&key, now).is_good() {
                let grants = self.roles.resolve(&key.scopes, &key.roles);
                held.scopes.extend(grants.scopes);
                held.roles.extend(grants.roles);
            }
        }
        Ok(held)
    }

    /// Gives a key a new secret. The replaced one stays valid until `previous_until`; one that an
    /// earlier rotation replaced ends at once, so that never more than two are valid.
    ///
    /// # Errors
    /// [`RotateError`].
    pub async fn rotate(
        &self,
        id: &KeyId,
        previous_until: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<NewKey, RotateError> {
        let key = self.store.key(id).await?.ok_or(RotateError::NoSuchKey)?;
        let ends = expires_at.or(key.expires_at);
        if ends.is_some_and(|end| end <= self.clock.now()) {
            return Err(RotateError::Expired);
        }
        let (secret_hash, text) = match key.whole {
            true => self.whole_secret(),
            false => self.secret(id, key.test),
        };
        let rotation = Rotation {
            secret_hash,
            previous_until,
            expires_at,
        };
        if !self.store.rotate_key(id, &rotation).await? {
            return Err(RotateError::NoSuchKey);
        }
        let id = id.clone();
        Ok(NewKey { id, text })
    }

    /// Revokes a key; `false` if no key has this id.
    ///
    /// # Errors
    /// The store failed.
    pub async fn revoke(&self, id: &KeyId) -> Result<bool, StoreError> {
        self.store.revoke_key(id, self.clock.now()).await
    }

    /// Authenticates a caller by its key.
    ///
    /// # Errors
    /// `unauthenticated`, `key_revoked`, `key_expired`; the last two only for a caller that knows a
    /// secret of the key.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, Problem> {
        if is_whole(key) {
            return self.authenticate_whole(key).await;
        }
        let presented = split(key).ok_or_else(unknown)?;
        let record = self.find(&KeyId::from(presented.id)).await?;
        // Hash and compare even if there is no such key, so that the response time reveals nothing.
        let (current, previous) = record.as_ref().map_or(([0; 32], [0; 32]), |record| {
            let previous = record.previous.as_ref();
            (
                record.secret_hash,
                previous.map_or([0; 32], |previous| previous.hash),
            )
        });
        let given = hash(presented.secret);
        let is_current = bool::from(given.ct_eq(&current));
        let is_previous = bool::from(given.ct_eq(&previous));
        match record {
            // Keys of organizations have another form.
            Some(record) if record.whole => Err(unknown()),
            Some(record) if record.test == presented.test && is_current => self.admit(record),
            Some(record) if record.test == presented.test && is_previous => {
                self.admit_replaced(record)
            }
            _ => Err(unknown()),
        }
    }

    /// Authenticates by a key that is looked up by its hash: a match proves knowledge of the key.
    async fn authenticate_whole(&self, key: &str) -> Result<Caller, Problem> {
        let given = hash(key);
        let found = self.store.key_by_hash(&given).await;
        match found.map_err(|cause| crate::service::fault::internal(&cause))? {
            None => Err(unknown()),
            Some(record) if record.secret_hash == given => self.admit(record),
            Some(record) => self.admit_replaced(record),
        }
    }

    /// The record of a key whose text [`Keys::authenticate`] refused as revoked or expired.
    ///
    /// # Errors
    /// The store failed.
    pub async fn presented(&self, text: &str) -> Result<Option<KeyRecord>, Problem> {
        if is_whole(text) {
            let found = self.store.key_by_hash(&hash(text)).await;
            return found.map_err(|cause| crate::service::fault::internal(&cause));
        }
        match split(text) {
            Some(presented) => self.find(&KeyId::from(presented.id)).await,
            None => Ok(None),
        }
    }

    /// Whether a caller authenticated earlier would still be: for streams that outlive their
    /// request.
    ///
    /// # Errors
    /// `key_revoked`, `key_expired`.
    pub async fn still_valid(&self, caller: &Caller) -> Result<(), Problem> {
        let record = self.find(&caller.key_id).await?.ok_or_else(unknown)?;
        self.admit(record).map(drop)
    }

    /// The caller of a key that was presented earlier, by its id and the hash of the secret that was
    /// presented.
    ///
    /// # Errors
    /// `unauthenticated`, `key_revoked`, `key_expired`; the last one also for a secret that a
    /// rotation replaced and that is no longer valid.
    pub async fn holder(&self, id: &KeyId, secret: &[u8; 32]) -> Result<Caller, Problem> {
        let record = self.find(id).await?.ok_or_else(unknown)?;
        match record.secret_hash == *secret {
            true => self.admit(record),
            false => self.admit_replaced_by(record, secret),
        }
    }

    /// Whether the host has a key of any tenant, also a revoked or expired one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn any(&self) -> Result<bool, Problem> {
        let keys = self.store.keys(None).await;
        let keys = keys.map_err(|cause| crate::service::fault::internal(&cause))?;
        Ok(!keys.is_empty())
    }

    /// The person on the machine itself: the rights of [`Keys::admit_local`] within its tenant.
    pub fn local_caller(&self) -> Option<Caller> {
        let record = self.local.clone()?;
        let mut caller = self.admit(record).ok()?;
        caller.grants.scopes.retain(|scope| !scope.is_operator());
        Some(caller)
    }

    async fn find(&self, id: &KeyId) -> Result<Option<KeyRecord>, Problem> {
        if let Some(local) = self.local.as_ref().filter(|local| local.id == *id) {
            return Ok(Some(local.clone()));
        }
        self.store
            .key(id)
            .await
            .map_err(|cause| crate::service::fault::internal(&cause))
    }

    /// Authenticates by the secret that the last rotation replaced.
    fn admit_replaced(&self, record: KeyRecord) -> Result<Caller, Problem> {
        let now = self.clock.now();
        let good = record
            .previous
            .as_ref()
            .is_some_and(|previous| previous.valid_until > now);
        if !good && record.revoked_at.is_none() {
            return Err(rotated());
        }
        self.admit(record)
    }

    fn admit_replaced_by(&self, record: KeyRecord, secret: &[u8; 32]) -> Result<Caller, Problem> {
        let previous = record.previous.as_ref();
        match previous.is_some_and(|previous| previous.hash == *secret) {
            true => self.admit_replaced(record),
            false => Err(rotated()),
        }
    }

    fn admit(&self, record: KeyRecord) -> Result<Caller, Problem> {
        match KeyState::of(&record, self.clock.now()) {
            KeyState::Revoked => Err(Problem::new(
                ErrorCode::KeyRevoked,
                "this key was revoked; use another one",
            )),
            KeyState::Expired => Err(Problem::new(
                ErrorCode::KeyExpired,
                "this key has expired; use another one",
            )),
            KeyState::Active | KeyState::Rotating => Ok(Caller {
                grants: self.roles.resolve(&record.scopes, &record.roles),
                tenant: record.tenant,
                principal: record.principal.unwrap_or_else(|| record.id.to_string()),
                key_id: record.id,
                test: record.test,
            }),
        }
    }
}

/// The same error for everything that is not a key of this host.
pub fn unknown() -> Problem {
    Problem::new(
        ErrorCode::Unauthenticated,
        "send `Authorization: Bearer <key>` with a valid API key of this host",
    )
}

fn rotated() -> Problem {
    Problem::new(
        ErrorCode::KeyExpired,
        "this key was rotated; use its new secret",
    )
}

/// The hash of the secret in a key's text, as the key's record holds it.
pub(super) fn secret_hash(key: &str) -> Option<[u8; 32]> {
    match is_whole(key) {
        true => Some(hash(key)),
        false => split(key).map(|presented| hash(presented.secret)),
    }
}

/// A key's text, split into its parts.
struct Presented<'a> {
    test: bool,
    id: &'a str,
    secret: &'a str,
}

fn split(key: &str) -> Option<Presented<'_>> {
    let (test, rest) = match key.strip_prefix(TEST) {
        Some(rest) => (true, rest),
        None => (false, key.strip_prefix(LIVE)?),
    };
    let (id, secret) = rest.split_once('_')?;
    let sound = (1..=MAX_ID).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && !secret.is_empty();
    sound.then_some(Presented { test, id, secret })
}

/// Whether a secret can hold the 32 random bytes that generated ones have, in base64url.
fn is_strong(secret: &str) -> bool {
    (43..=128).contains(&secret.len())
        && secret
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn is_whole(key: &str) -> bool {
    key.strip_prefix(ORGANIZATION).is_some_and(|digits| {
        digits.len() == base62::LENGTH && digits.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
