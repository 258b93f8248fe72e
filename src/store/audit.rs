//! The audit log.

use async_trait::async_trait;

use super::convert::{backend, column};
use super::{PostgresStore, SqliteStore};
use crate::domain::audit::{ChainHead, Link};
use crate::domain::ids::TenantId;
use crate::ports::{AuditLog, StoreError};

/// Reads the end of a chain and holds it until the transaction ends, also when there was none: whoever appends comes one
/// after the other.
pub(super) const HOLD: &str = "INSERT INTO audit_head (tenant, sequence, hash) VALUES ($1, 0, $2)
    ON CONFLICT (tenant) DO UPDATE SET tenant = excluded.tenant RETURNING sequence, hash";
pub(super) const ADD: &str =
    "INSERT INTO audit_entry (tenant, sequence, body, hash) VALUES ($1, $2, $3, $4)";
pub(super) const MOVE: &str = "UPDATE audit_head SET sequence = $2, hash = $3 WHERE tenant = $1";
const ENTRIES: &str = "SELECT sequence, body, hash FROM audit_entry
    WHERE tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
const HEAD: &str = "SELECT sequence, hash FROM audit_head WHERE tenant = $1";

pub(super) fn head_of((sequence, hash): (i64, String)) -> Result<ChainHead, StoreError> {
    Ok(ChainHead {
        sequence: column("audit_head", "sequence").number(sequence)?,
        hash,
    })
}

fn link_of((sequence, body, hash): (i64, String, String)) -> Result<Link, StoreError> {
    Ok(Link {
        sequence: column("audit_entry", "sequence").number(sequence)?,
        body,
        hash,
    })
}

/// Adds a decision within a transaction.
macro_rules! record {
    ($transaction:expr, $tenant:expr, $decision:expr) => {{
        let head = sqlx::query_as(crate::store::audit::HOLD)
            .bind($tenant.as_str())
            .bind(crate::domain::audit::GENESIS)
            .fetch_one(&mut *$transaction)
            .await
            .map_err(backend)?;
        let head = crate::store::audit::head_of(head)?;
        let link = head.extend($tenant, $decision).map_err(backend)?;
        let sequence: i64 = column("audit_entry", "sequence").number(link.sequence)?;
        sqlx::query(crate::store::audit::ADD)
            .bind($tenant.as_str())
            .bind(sequence)
            .bind(&link.body)
            .bind(&link.hash)
            .execute(&mut *$transaction)
            .await
            .map_err(backend)?;
        sqlx::query(crate::store::audit::MOVE)
            .bind($tenant.as_str())
            .bind(sequence)
            .bind(&link.hash)
            .execute(&mut *$transaction)
            .await
            .map_err(backend)?;
    }};
}
pub(super) use record;

macro_rules! audit_log {
    ($store:ty) => {
        #[async_trait]
        impl AuditLog for $store {
            async fn audit_entries(
                &self,
                tenant: &TenantId,
                after: u64,
                limit: u32,
            ) -> Result<Vec<Link>, StoreError> {
                let rows: Vec<(i64, String, String)> = sqlx::query_as(ENTRIES)
                    .bind(tenant.as_str())
                    .bind(i64::try_from(after).unwrap_or(i64::MAX))
                    .bind(i64::from(limit))
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                rows.into_iter().map(link_of).collect()
            }

            async fn audit_head(&self, tenant: &TenantId) -> Result<ChainHead, StoreError> {
                let row = sqlx::query_as(HEAD)
                    .bind(tenant.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                row.map_or_else(|| Ok(ChainHead::default()), head_of)
            }
        }
    };
}

audit_log!(SqliteStore);
audit_log!(PostgresStore);
