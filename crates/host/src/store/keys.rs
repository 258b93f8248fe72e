//! API keys.

use jiff::Timestamp;

use crate::ports::keys::{KeyRecord, PreviousSecret, Rotation};
use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::sql::{Target, query};
use touchstone_kit::ids::{KeyId, TenantId};

const ADD: &str =
    "INSERT INTO api_key (id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at,
        roles, principal, test, previous_hash, previous_until, whole)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at,
                roles, principal, test, previous_hash, previous_until, whole FROM api_key ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE id = $1");
/// Two index lookups; a condition with OR would scan all keys.
const BY_HASH: &str = concat!(
    select!("WHERE whole AND secret_hash = $1"),
    " UNION ALL ",
    select!("WHERE whole AND previous_hash = $1")
);
const ALL: &str = select!("ORDER BY created_at, id");
const OF_TENANT: &str = select!("WHERE tenant = $1 ORDER BY created_at, id");
/// Moves the current secret within the statement, so that of two concurrent rotations neither loses
/// the other's secret.
const ROTATE: &str =
    "UPDATE api_key SET previous_hash = secret_hash, previous_until = $3, secret_hash = $2,
        expires_at = COALESCE($4, expires_at)
    WHERE id = $1 AND revoked_at IS NULL";
const REVOKE: &str = "UPDATE api_key SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1";

/// In the order of `select!`.
type KeyRow = (
    String,
    String,
    Vec<u8>,
    String,
    i64,
    Option<i64>,
    Option<i64>,
    String,
    Option<String>,
    bool,
    Option<Vec<u8>>,
    Option<i64>,
    bool,
);

fn key_of(row: KeyRow) -> Result<KeyRecord, StoreError> {
    let (id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at, ..) = row;
    let (.., roles, principal, test, previous_hash, previous_until, whole) = row;
    let time = |name| move |micros| column("api_key", name).time(micros);
    let previous = match (previous_hash, previous_until) {
        (Some(hash), Some(until)) => Some(PreviousSecret {
            hash: column("api_key", "previous_hash").number(hash)?,
            valid_until: column("api_key", "previous_until").time(until)?,
        }),
        (None, None) => None,
        _ => return Err(column("api_key", "previous_hash").inconsistent()),
    };
    Ok(KeyRecord {
        id: id.into(),
        tenant: tenant.into(),
        secret_hash: column("api_key", "secret_hash").number(secret_hash)?,
        previous,
        scopes: column("api_key", "scopes").document(&scopes)?,
        roles: column("api_key", "roles").document(&roles)?,
        principal,
        test,
        whole,
        created_at: column("api_key", "created_at").time(created_at)?,
        expires_at: expires_at.map(time("expires_at")).transpose()?,
        revoked_at: revoked_at.map(time("revoked_at")).transpose()?,
    })
}

/// Adds a key on a connection or within a transaction.
pub async fn add_key(on: impl Into<Target<'_>>, key: &KeyRecord) -> Result<(), StoreError> {
    let previous = key.previous.as_ref();
    let micros = Timestamp::as_microsecond;
    let added = query(ADD)
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(key.secret_hash.as_slice())
        .bind(column("api_key", "scopes").text(&key.scopes)?)
        .bind(micros(key.created_at))
        .bind(key.expires_at.map(micros))
        .bind(key.revoked_at.map(micros))
        .bind(column("api_key", "roles").text(&key.roles)?)
        .bind(key.principal.as_deref())
        .bind(key.test)
        .bind(previous.map(|previous| previous.hash.as_slice()))
        .bind(previous.map(|previous| micros(previous.valid_until)))
        .bind(key.whole)
        .execute(on)
        .await?;
    match added {
        0 => Err(StoreError::Exists("a key with this id")),
        _ => Ok(()),
    }
}

/// Gives a key a new secret, on a connection or within a transaction; `false` if the key does not
/// exist or was revoked.
pub async fn rotate_key(
    on: impl Into<Target<'_>>,
    id: &KeyId,
    rotation: &Rotation,
) -> Result<bool, StoreError> {
    let rotated = query(ROTATE)
        .bind(id.as_str())
        .bind(rotation.secret_hash.as_slice())
        .bind(rotation.previous_until.as_microsecond())
        .bind(rotation.expires_at.map(Timestamp::as_microsecond))
        .execute(on)
        .await?;
    Ok(rotated > 0)
}

/// Revokes a key, on a connection or within a transaction; `false` if the key does not exist.
pub async fn revoke_key(
    on: impl Into<Target<'_>>,
    id: &KeyId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let revoked = query(REVOKE)
        .bind(id.as_str())
        .bind(now.as_microsecond())
        .execute(on)
        .await?;
    Ok(revoked > 0)
}

impl Database {
    pub async fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        add_key(self.writer()?, key).await
    }

    /// The key with this public half, of any tenant, revoked or not.
    pub async fn key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let row = query(ONE)
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map(key_of).transpose()
    }

    /// The key whose [whole](KeyRecord::whole) text, current or replaced, has this hash, revoked or
    /// not.
    pub async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<KeyRecord>, StoreError> {
        let row = query(BY_HASH)
            .bind(hash.as_slice())
            .fetch_optional(self.readers())
            .await?;
        row.map(key_of).transpose()
    }

    /// All keys, by creation, of one tenant or of all.
    pub async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError> {
        let query = match tenant {
            Some(tenant) => query(OF_TENANT).bind(tenant.as_str()),
            None => query(ALL),
        };
        let rows = query.fetch_all(self.readers()).await?;
        rows.into_iter().map(key_of).collect()
    }

    /// Gives a key a new secret in one step; `false` if the key does not exist or was revoked.
    pub async fn rotate_key(&self, id: &KeyId, rotation: &Rotation) -> Result<bool, StoreError> {
        rotate_key(self.writer()?, id, rotation).await
    }

    /// Revokes; `false` if the key does not exist.
    pub async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<bool, StoreError> {
        revoke_key(self.writer()?, id, now).await
    }
}
