//! Sessions of the console: begin, recognise, rotate, end.
//!
//! A token's text is `<id>.<secret>`: the id is public and used for the lookup, the secret is 32
//! random bytes of which only the SHA-256 is stored. The rights of a session that a key began are
//! those of the key at each request, so that a revoked key ends its sessions at once, and a rotated
//! one when the secret that signed in ends. A session of an OpenID provider keeps what the claims gave
//! at sign-in.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::ports::sessions::{SessionOrigin, SessionRecord};
use crate::ports::store::StoreError;
use crate::rules::claims;
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::service::keys::{Keys, LOCAL_TENANT, secret_hash};
use crate::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex_prefix;
use touchstone_kit::ids::TenantId;

/// The action of the audit log's entry when a session is ended for somebody.
pub const END_SESSION: &str = "console:end-session";

/// A replaced token stays valid this long, for requests in progress.
const OVERLAP: SignedDuration = SignedDuration::from_secs(60);
/// The last use is written at most this often.
const USE_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// Longest id that is looked up; generated ids have 20 characters.
const MAX_ID: usize = 64;

/// How long sessions live.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Without a request.
    pub idle: SignedDuration,
    /// In all.
    pub absolute: SignedDuration,
    /// After this time, a request gets a new token.
    pub rotate: SignedDuration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            idle: SignedDuration::from_mins(30),
            absolute: SignedDuration::from_hours(12),
            rotate: SignedDuration::from_mins(15),
        }
    }
}

/// A session that a request belongs to.
#[derive(Debug)]
pub struct Session {
    pub record: SessionRecord,
    pub caller: Caller,
    /// The text of a new token that replaces the presented one.
    pub renewed: Option<SecretString>,
}

/// A new session, and the text of its token, which is available only here.
#[derive(Debug)]
pub struct NewSession {
    pub record: SessionRecord,
    pub token: SecretString,
}

pub struct Sessions {
    pub(super) store: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) keys: Arc<Keys>,
    pub(super) limits: SessionLimits,
    /// The digest of the settings of the OpenID provider whose people may have sessions.
    pub(super) trust: Option<String>,
    /// Whether people on the machine itself may have sessions on a host without keys.
    opens_locally: bool,
}

impl Sessions {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        keys: Arc<Keys>,
        limits: SessionLimits,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            keys,
            limits,
            trust: None,
            opens_locally: false,
        }
    }

    /// Accepts sessions of people whom an OpenID provider named under the settings of this digest.
    /// Sessions of other settings end, also if they began before.
    #[must_use]
    pub fn trusting(self, settings: Option<String>) -> Self {
        Self {
            trust: settings,
            ..self
        }
    }

    /// Accepts sessions of people on the machine itself, as long as the host has no key.
    #[must_use]
    pub fn opening_locally(self, opens_locally: bool) -> Self {
        Self {
            opens_locally,
            ..self
        }
    }

    pub fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Begins a session of the owner of a key, whose text was accepted just now.
    ///
    /// # Errors
    /// The store failed.
    pub async fn begin(&self, caller: &Caller, key: &str) -> Result<NewSession, Problem> {
        let origin = SessionOrigin::Key {
            id: caller.key_id.clone(),
            secret: secret_hash(key).ok_or_else(ended)?,
        };
        self.add(caller.tenant.clone(), caller.principal.clone(), origin)
            .await
    }

    /// Begins a session of a person on the machine itself.
    ///
    /// # Errors
    /// `unauthenticated` if the host has a key.
    pub async fn begin_local(&self) -> Result<NewSession, Problem> {
        self.local_caller().await?;
        let tenant = TenantId::from(LOCAL_TENANT);
        self.add(tenant, "local".to_owned(), SessionOrigin::Local)
            .await
    }

    pub(super) async fn add(
        &self,
        tenant: TenantId,
        principal: String,
        origin: SessionOrigin,
    ) -> Result<NewSession, Problem> {
        let id = hex_prefix(&self.ids.secret(), 20);
        let (token, token_hash) = self.token(&id);
        let now = self.clock.now();
        let record = SessionRecord {
            id,
            tenant,
            principal,
            origin,
            token_hash,
            previous: None,
            csrf: self.ids.secret(),
            created_at: now,
            used_at: now,
            rotated_at: now,
            ended_at: None,
        };
        let added = self.add_recorded(&record).await;
        added.map_err(|cause| internal(&cause))?;
        Ok(NewSession { record, token })
    }

    /// The text of a new token, and the hash of its secret.
    fn token(&self, id: &str) -> (SecretString, [u8; 32]) {
        let secret = URL_SAFE_NO_PAD.encode(self.ids.secret());
        let hash = hash(&secret);
        (SecretString::from(format!("{id}.{secret}")), hash)
    }

    /// The session of a token.
    ///
    /// # Errors
    /// `unauthenticated` for an unknown token and a session that has ended; `key_revoked` and
    /// `key_expired` if its key has.
    pub async fn recognise(&self, token: &str) -> Result<Session, Problem> {
        let (id, secret) = token.split_once('.').ok_or_else(ended)?;
        if !(1..=MAX_ID).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(ended());
        }
        let found = self.store.session(id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        // Hash and compare even if there is no such session, so that the response time reveals
        // nothing.
        let (current, previous) = found.as_ref().map_or(([0; 32], [0; 32]), |record| {
            let previous = record.previous.as_ref();
            (record.token_hash, previous.map_or([0; 32], |it| it.hash))
        });
        let given = hash(secret);
        let is_current = bool::from(given.ct_eq(&current));
        let is_previous = bool::from(given.ct_eq(&previous));
        let record = match found {
            Some(record) if is_current || is_previous => record,
            _ => return Err(ended()),
        };
        let now = self.clock.now();
        if !self.is_open(&record, now) {
            return Err(ended());
        }
        let replaced = record.previous.as_ref().filter(|_| is_previous);
        if replaced.is_some_and(|it| it.valid_until <= now) {
            // A token that its holder has replaced is still in use: it may be stolen.
            self.end_reused(&record).await?;
            return Err(ended());
        }
        let caller = self.caller(&record).await?;
        let renewed = match is_current {
            true => self.renew(&record, now).await?,
            false => None,
        };
        Ok(Session {
            record,
            caller,
            renewed,
        })
    }

    fn is_open(&self, record: &SessionRecord, now: Timestamp) -> bool {
        let age = |since: Timestamp| now.duration_since(since);
        record.ended_at.is_none()
            && age(record.used_at) < self.limits.idle
            && age(record.created_at) < self.limits.absolute
    }

    /// Notes the use of a session, and gives it a new token from time to time.
    async fn renew(
        &self,
        record: &SessionRecord,
        now: Timestamp,
    ) -> Result<Option<SecretString>, Problem> {
        if now.duration_since(record.rotated_at) >= self.limits.rotate {
            let (token, next) = self.token(&record.id);
            let until = now.saturating_add(OVERLAP).unwrap_or(now);
            let held = &record.token_hash;
            let rotated = self
                .store
                .rotate_session(&record.id, held, &next, now, until);
            let rotated = rotated.await.map_err(|cause| internal(&cause))?;
            return Ok(rotated.then_some(token));
        }
        if now.duration_since(record.used_at) >= USE_EVERY {
            let noted = self.store.use_session(&record.id, now).await;
            noted.map_err(|cause| internal(&cause))?;
        }
        Ok(None)
    }

    async fn caller(&self, record: &SessionRecord) -> Result<Caller, Problem> {
        let caller = match &record.origin {
            SessionOrigin::Key { id, secret } => self.keys.holder(id, secret).await?,
            SessionOrigin::Local => self.local_caller().await?,
            SessionOrigin::Oidc(grant) => {
                if self.trust.as_ref() != Some(&grant.settings) {
                    return Err(ended());
                }
                Caller {
                    tenant: record.tenant.clone(),
                    principal: record.principal.clone(),
                    key_id: Self::counted_as(record),
                    grants: claims::grants(self.keys.roles(), &grant.scopes, &grant.roles),
                    test: false,
                }
            }
        };
        if caller.tenant != record.tenant {
            return Err(ended());
        }
        Ok(caller)
    }

    /// The person on the machine itself, as long as no key exists.
    async fn local_caller(&self) -> Result<Caller, Problem> {
        match self.opens_locally().await? {
            true => self.keys.local_caller().ok_or_else(ended),
            false => Err(ended()),
        }
    }

    /// Whether the console opens without a key: the setting allows it and the host has none. A host
    /// whose keys were revoked or have expired stays closed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn opens_locally(&self) -> Result<bool, Problem> {
        let is_possible = self.opens_locally && self.keys.local_caller().is_some();
        Ok(is_possible && !self.keys.any().await?)
    }

    /// Whether a session still exists: for streams that outlive their request.
    ///
    /// # Errors
    /// As [`Sessions::recognise`].
    pub async fn still_valid(&self, id: &str) -> Result<(), Problem> {
        let found = self.store.session(id).await;
        let record = found.map_err(|cause| internal(&cause))?.ok_or_else(ended)?;
        let now = self.clock.now();
        // An open stream counts as use; only the absolute limit ends it.
        if record.ended_at.is_some()
            || now.duration_since(record.created_at) >= self.limits.absolute
        {
            return Err(ended());
        }
        self.caller(&record).await.map(drop)
    }

    /// Deletes sessions whose absolute limit is over, and sign-ins that never came back.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        self.forget_attempts(now).await?;
        match now.saturating_sub(self.limits.absolute) {
            Ok(before) => self.store.forget_sessions(before).await,
            Err(_) => Ok(0),
        }
    }
}

/// The same error for every token that is not one of an open session.
pub(super) fn ended() -> Problem {
    Problem::new(
        ErrorCode::Unauthenticated,
        "this session does not exist or has ended; sign in again",
    )
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
