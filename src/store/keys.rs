//! API keys.

use async_trait::async_trait;
use jiff::Timestamp;

use super::convert::{backend, column};
use super::{PostgresStore, SqliteStore};
use crate::domain::ids::{KeyId, TenantId};
use crate::ports::{KeyRecord, KeyStore, StoreError};

const ADD: &str =
    "INSERT INTO api_key (id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING";
const ONE: &str = "SELECT id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at
    FROM api_key WHERE id = $1";
const ALL: &str = "SELECT id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at
    FROM api_key ORDER BY created_at, id";
const OF_TENANT: &str = "SELECT id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at
    FROM api_key WHERE tenant = $1 ORDER BY created_at, id";
const REVOKE: &str = "UPDATE api_key SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1";

type KeyRow = (
    String,
    String,
    Vec<u8>,
    String,
    i64,
    Option<i64>,
    Option<i64>,
);

fn key_of(row: KeyRow) -> Result<KeyRecord, StoreError> {
    let (id, tenant, secret_hash, scopes, created_at, expires_at, revoked_at) = row;
    let time = |name| move |micros| column("api_key", name).time(micros);
    Ok(KeyRecord {
        id: id.into(),
        tenant: tenant.into(),
        secret_hash: column("api_key", "secret_hash").number(secret_hash)?,
        scopes: column("api_key", "scopes").document(&scopes)?,
        created_at: column("api_key", "created_at").time(created_at)?,
        expires_at: expires_at.map(time("expires_at")).transpose()?,
        revoked_at: revoked_at.map(time("revoked_at")).transpose()?,
    })
}

macro_rules! key_store {
    ($store:ty) => {
        #[async_trait]
        impl KeyStore for $store {
            async fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
                let added = sqlx::query(ADD)
                    .bind(key.id.as_str())
                    .bind(key.tenant.as_str())
                    .bind(key.secret_hash.as_slice())
                    .bind(column("api_key", "scopes").text(&key.scopes)?)
                    .bind(key.created_at.as_microsecond())
                    .bind(key.expires_at.map(Timestamp::as_microsecond))
                    .bind(key.revoked_at.map(Timestamp::as_microsecond))
                    .execute(self.writer())
                    .await
                    .map_err(backend)?;
                match added.rows_affected() {
                    0 => Err(StoreError::Exists("a key with this id")),
                    _ => Ok(()),
                }
            }

            async fn key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
                let row = sqlx::query_as(ONE)
                    .bind(id.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                row.map(key_of).transpose()
            }

            async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError> {
                let query = match tenant {
                    Some(tenant) => sqlx::query_as(OF_TENANT).bind(tenant.as_str()),
                    None => sqlx::query_as(ALL),
                };
                let rows = query.fetch_all(self.readers()).await.map_err(backend)?;
                rows.into_iter().map(key_of).collect()
            }

            async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<bool, StoreError> {
                let revoked = sqlx::query(REVOKE)
                    .bind(id.as_str())
                    .bind(now.as_microsecond())
                    .execute(self.writer())
                    .await
                    .map_err(backend)?;
                Ok(revoked.rows_affected() > 0)
            }
        }
    };
}

key_store!(SqliteStore);
key_store!(PostgresStore);
