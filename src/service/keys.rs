//! API keys: made, listed, revoked, and recognised.
//!
//! A key's text is `tsk_<id>_<secret>`: the id is public and looks the record up, the secret is 32 random octets of which
//! only the SHA-256 is kept (a slow hash would add nothing to full entropy). The record is read at every request, so a
//! revocation acts at once, on every replica.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::access::{Caller, Scope};
use crate::domain::ids::{KeyId, TenantId};
use crate::ports::{Clock, Ids, KeyRecord, Store, StoreError};
use crate::protocol::error::{ErrorCode, Problem};

const PREFIX: &str = "tsk_";
/// Longest id that is looked up; ours have 20 characters.
const MAX_ID: usize = 64;

/// A key that was just made: the only time its text is known.
#[derive(Debug)]
pub struct NewKey {
    /// The public half.
    pub id: KeyId,
    /// The whole key.
    pub text: SecretString,
}

/// The use cases of keys.
pub struct Keys {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    local: Option<KeyRecord>,
}

/// Id of the key for calls from within the process.
const LOCAL: &str = "local";

impl Keys {
    /// The use cases over their ports.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            store,
            clock,
            ids,
            local: None,
        }
    }

    /// Makes a key of every scope for calls from within this process. It is never stored and ends with the process.
    pub fn admit_local(&mut self, tenant: &TenantId) -> SecretString {
        let scopes = Scope::ALL;
        let (record, key) = self.make(LOCAL.into(), tenant, scopes, None);
        self.local = Some(record);
        key.text
    }

    /// Makes a key for `tenant`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn create(
        &self,
        tenant: &TenantId,
        scopes: &[Scope],
        expires_at: Option<Timestamp>,
    ) -> Result<NewKey, StoreError> {
        let id = KeyId::from(hex(self.ids.secret().iter().take(10)));
        let (record, key) = self.make(id, tenant, scopes, expires_at);
        self.store.add_key(&record).await?;
        Ok(key)
    }

    fn make(
        &self,
        id: KeyId,
        tenant: &TenantId,
        scopes: &[Scope],
        expires_at: Option<Timestamp>,
    ) -> (KeyRecord, NewKey) {
        let secret = URL_SAFE_NO_PAD.encode(self.ids.secret());
        let mut scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        scopes.sort_unstable();
        scopes.dedup();
        let text = SecretString::from(format!("{PREFIX}{id}_{secret}"));
        let record = KeyRecord {
            id: id.clone(),
            tenant: tenant.clone(),
            secret_hash: hash(&secret),
            scopes,
            created_at: self.clock.now(),
            expires_at,
            revoked_at: None,
        };
        (record, NewKey { id, text })
    }

    /// All keys of one tenant or of all, without their secrets.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError> {
        self.store.keys(tenant).await
    }

    /// Revokes a key; `false` if there is none with this id.
    ///
    /// # Errors
    /// The store failed.
    pub async fn revoke(&self, id: &KeyId) -> Result<bool, StoreError> {
        self.store.revoke_key(id, self.clock.now()).await
    }

    /// Recognises a caller by the key it presents.
    ///
    /// # Errors
    /// `unauthenticated`, `key_revoked`, `key_expired`; the last two only to who knows the secret.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, Problem> {
        let (id, secret) = split(key).ok_or_else(unknown)?;
        let id = KeyId::from(id);
        let record = self.find(&id).await?;
        // Hashed and compared also when there is no such key, so that the time taken tells nothing.
        let expected = record.as_ref().map_or([0; 32], |record| record.secret_hash);
        let matches = bool::from(hash(secret).ct_eq(&expected));
        match record {
            Some(record) if matches => self.admit(record),
            _ => Err(unknown()),
        }
    }

    /// Whether a caller that was recognised earlier would still be: for streams that outlive their request.
    ///
    /// # Errors
    /// `key_revoked`, `key_expired`.
    pub async fn still_valid(&self, caller: &Caller) -> Result<(), Problem> {
        let record = self.find(&caller.key_id).await?.ok_or_else(unknown)?;
        self.admit(record).map(drop)
    }

    async fn find(&self, id: &KeyId) -> Result<Option<KeyRecord>, Problem> {
        if let Some(local) = self.local.as_ref().filter(|local| local.id == *id) {
            return Ok(Some(local.clone()));
        }
        self.store
            .key(id)
            .await
            .map_err(|cause| super::fault::internal(&cause))
    }

    fn admit(&self, record: KeyRecord) -> Result<Caller, Problem> {
        if record.revoked_at.is_some() {
            return Err(Problem::new(
                ErrorCode::KeyRevoked,
                "this key was revoked; use another one",
            ));
        }
        if record.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(Problem::new(
                ErrorCode::KeyExpired,
                "this key has expired; use another one",
            ));
        }
        Ok(Caller {
            tenant: record.tenant,
            key_id: record.id,
            // A scope this version does not know grants nothing.
            scopes: record
                .scopes
                .iter()
                .filter_map(|name| Scope::parse(name))
                .collect(),
        })
    }
}

/// The one answer to everything that is no key of ours.
pub fn unknown() -> Problem {
    Problem::new(
        ErrorCode::Unauthenticated,
        "send `Authorization: Bearer <key>` with a valid API key of this host",
    )
}

fn split(key: &str) -> Option<(&str, &str)> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let sound = (1..=MAX_ID).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && !secret.is_empty();
    sound.then_some((id, secret))
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex<'a>(octets: impl Iterator<Item = &'a u8>) -> String {
    octets.map(|octet| format!("{octet:02x}")).collect()
}
