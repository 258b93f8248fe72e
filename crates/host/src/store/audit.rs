//! The audit log.

use crate::audit::checkpoint::Checkpoint;
use crate::audit::{ChainHead, Decision, GENESIS, Link};
use crate::ports::store::StoreError;
use crate::store::convert::{backend, column};
use crate::store::database::Database;
use crate::store::sql::{Transaction, query};
use touchstone_kit::ids::TenantId;

/// Reads the head of a chain and locks it until the transaction ends, so appends are serialized. A
/// missing head is created, so that it can be locked too.
const HOLD: &str = "INSERT INTO audit_head (tenant, sequence, hash) VALUES ($1, 0, $2)
    ON CONFLICT (tenant) DO UPDATE SET tenant = excluded.tenant RETURNING sequence, hash";
const ADD: &str = "INSERT INTO audit_entry (tenant, sequence, body, hash) VALUES ($1, $2, $3, $4)";
const MOVE: &str = "UPDATE audit_head SET sequence = $2, hash = $3 WHERE tenant = $1";
const ENTRIES: &str = "SELECT sequence, body, hash FROM audit_entry
    WHERE tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
const NEWEST: &str = "SELECT sequence, body, hash FROM audit_entry
    WHERE tenant = $1 AND sequence < $2 ORDER BY sequence DESC LIMIT $3";
const HEAD: &str = "SELECT sequence, hash FROM audit_head WHERE tenant = $1";
const UNANCHORED: &str = "SELECT tenant, anchored FROM audit_head
    WHERE sequence > anchored AND tenant > $1 ORDER BY tenant LIMIT $2";
const ANCHOR: &str = "UPDATE audit_head SET anchored = $3 WHERE tenant = $1 AND anchored = $2";
const ADD_CHECKPOINT: &str = "INSERT INTO audit_checkpoint
    (tenant, after_sequence, at_sequence, id, merkle_root, signature, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const CHECKPOINTS: &str =
    "SELECT id, after_sequence, at_sequence, merkle_root, signature, created_at
    FROM audit_checkpoint WHERE tenant = $1 AND at_sequence >= $2 AND at_sequence <= $3
    ORDER BY at_sequence";

fn head_of((sequence, hash): (i64, String)) -> Result<ChainHead, StoreError> {
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

fn sequence_of(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

type CheckpointRow = (String, i64, i64, String, String, i64);

fn checkpoint_of(row: CheckpointRow) -> Result<Checkpoint, StoreError> {
    let (id, after, at_sequence, merkle_root, signature, at) = row;
    Ok(Checkpoint {
        id,
        after: column("audit_checkpoint", "after_sequence").number(after)?,
        at_sequence: column("audit_checkpoint", "at_sequence").number(at_sequence)?,
        merkle_root,
        signature,
        at: column("audit_checkpoint", "created_at").time(at)?,
    })
}

/// Adds an entry in a transaction of its own.
pub async fn record_alone(
    database: &Database,
    tenant: &TenantId,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await
}

pub async fn record(
    transaction: &mut Transaction,
    tenant: &TenantId,
    decision: &Decision,
) -> Result<(), StoreError> {
    let head = query(HOLD)
        .bind(tenant.as_str())
        .bind(GENESIS)
        .fetch_one(&mut *transaction)
        .await?;
    let head = head_of(head)?;
    let link = head.extend(tenant, decision).map_err(backend)?;
    let sequence: i64 = column("audit_entry", "sequence").number(link.sequence)?;
    query(ADD)
        .bind(tenant.as_str())
        .bind(sequence)
        .bind(&link.body)
        .bind(&link.hash)
        .execute(&mut *transaction)
        .await?;
    query(MOVE)
        .bind(tenant.as_str())
        .bind(sequence)
        .bind(&link.hash)
        .execute(&mut *transaction)
        .await?;
    Ok(())
}

/// One chain of entries per tenant. Entries are added in the transaction of the decided change (see
/// the other ports); this port reads the chain.
impl Database {
    /// Up to `limit` entries with a sequence above `after`, in order, as stored.
    pub async fn audit_entries(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Link>, StoreError> {
        let rows: Vec<(i64, String, String)> = query(ENTRIES)
            .bind(tenant.as_str())
            .bind(sequence_of(after))
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await?;
        rows.into_iter().map(link_of).collect()
    }

    /// Up to `limit` entries with a sequence below `before`, newest first, as stored.
    pub async fn newest_audit_entries(
        &self,
        tenant: &TenantId,
        before: u64,
        limit: u32,
    ) -> Result<Vec<Link>, StoreError> {
        let rows: Vec<(i64, String, String)> = query(NEWEST)
            .bind(tenant.as_str())
            .bind(sequence_of(before))
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await?;
        rows.into_iter().map(link_of).collect()
    }

    /// The head of the chain.
    pub async fn audit_head(&self, tenant: &TenantId) -> Result<ChainHead, StoreError> {
        let row = query(HEAD)
            .bind(tenant.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map_or_else(|| Ok(ChainHead::default()), head_of)
    }

    /// Up to `limit` tenants that follow `after` by name and whose last entry is in no checkpoint,
    /// each with its last entry that is.
    pub async fn audit_unanchored(
        &self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(TenantId, u64)>, StoreError> {
        let rows: Vec<(String, i64)> = query(UNANCHORED)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await?;
        let place = column("audit_head", "anchored");
        rows.into_iter()
            .map(|(tenant, anchored)| Ok((tenant.into(), place.number(anchored)?)))
            .collect()
    }

    /// Adds a checkpoint after the last one; `false` if another one was added first.
    pub async fn add_audit_checkpoint(
        &self,
        tenant: &TenantId,
        checkpoint: &Checkpoint,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin_write().await?;
        let moved = query(ANCHOR)
            .bind(tenant.as_str())
            .bind(sequence_of(checkpoint.after))
            .bind(sequence_of(checkpoint.at_sequence))
            .execute(&mut transaction)
            .await?;
        if moved == 0 {
            return Ok(false);
        }
        query(ADD_CHECKPOINT)
            .bind(tenant.as_str())
            .bind(sequence_of(checkpoint.after))
            .bind(sequence_of(checkpoint.at_sequence))
            .bind(&checkpoint.id)
            .bind(&checkpoint.merkle_root)
            .bind(&checkpoint.signature)
            .bind(checkpoint.at.as_microsecond())
            .execute(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// The checkpoints whose last entry is from `first` to `last`, in order.
    pub async fn audit_checkpoints(
        &self,
        tenant: &TenantId,
        first: u64,
        last: u64,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let rows: Vec<CheckpointRow> = query(CHECKPOINTS)
            .bind(tenant.as_str())
            .bind(sequence_of(first))
            .bind(sequence_of(last))
            .fetch_all(self.readers())
            .await?;
        rows.into_iter().map(checkpoint_of).collect()
    }
}
