//! Reading the audit log and verifying its hash chain (OpenWOP audit-log-integrity).

pub mod checkpointer;
pub mod search;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::checkpoint::{Checkpoint, MAX_ENTRIES};
use crate::audit::{Anomaly, ChainHead, Walk};
use crate::ports::store::StoreError;
use crate::service::fault::internal;
use crate::store::database::Database;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::PublicKey;

const PAGE: u32 = 1000;

/// The result of verifying the chain (OpenWOP audit-verify-result).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerifyResult {
    /// The first entry of the range.
    pub from_seq: u64,
    /// The last entry of the range.
    pub to_seq: u64,
    /// Whether the chain has no break and every checkpoint matches.
    pub chain_valid: bool,
    /// Whether every checkpoint matches its entries and its signature; `None` without checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints_valid: Option<bool>,
    pub checkpoints: Vec<Checkpoint>,
    /// Every break in the chain.
    pub anomalies: Vec<Anomaly>,
}

pub struct Audit {
    store: Arc<Database>,
    key: PublicKey,
}

impl Audit {
    /// The use cases over their port. `key` verifies checkpoints.
    pub fn new(store: Arc<Database>, key: PublicKey) -> Self {
        Self { store, key }
    }

    /// Verifies the chain from one entry to another, both included, or to its end. A range that
    /// reaches the end is also compared with the stored head.
    ///
    /// # Errors
    /// `validation_error` for a range that runs backwards, or starts beyond the last entry.
    pub async fn verify(
        &self,
        tenant: &TenantId,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<AuditVerifyResult, Problem> {
        let fault = |cause: StoreError| internal(&cause);
        let from_seq = from.unwrap_or(0);
        if to.is_some_and(|to| to < from_seq) {
            return Err(Problem::validation(
                "toSeq",
                "`toSeq` must not be less than `fromSeq`",
            ));
        }
        let first = from_seq.max(1);
        let head = self.store.audit_head(tenant).await.map_err(fault)?;
        // Nothing is known about entries that do not exist.
        if first > head.sequence.max(1) {
            return Err(Problem::validation(
                "fromSeq",
                format!(
                    "`fromSeq` is beyond the end of the audit log, whose last entry is {}",
                    head.sequence
                ),
            ));
        }
        let before = match first {
            1 => None,
            _ => self
                .store
                .audit_entries(tenant, first - 2, 1)
                .await
                .map_err(fault)?
                .into_iter()
                .find(|link| link.sequence == first - 1),
        };
        let mut walk = Walk::behind(before.as_ref());
        let anomalies = if self
            .walk(tenant, &mut walk, first, to.unwrap_or(u64::MAX))
            .await
            .map_err(fault)?
        {
            let head = self.end(tenant, &mut walk).await.map_err(fault)?;
            walk.end(&head)
        } else {
            walk.found()
        };
        let to_seq = to.map_or(head.sequence, |to| to.min(head.sequence));
        let checkpoints = self.store.audit_checkpoints(tenant, first, to_seq);
        let checkpoints = checkpoints.await.map_err(fault)?;
        let fit = self.fit(tenant, first, &checkpoints).await.map_err(fault)?;
        Ok(AuditVerifyResult {
            from_seq,
            to_seq,
            chain_valid: anomalies.is_empty() && fit,
            checkpoints_valid: (!checkpoints.is_empty()).then_some(fit),
            checkpoints,
            anomalies,
        })
    }

    /// Whether checkpoints follow one another, and each matches its entries and its signature.
    async fn fit(
        &self,
        tenant: &TenantId,
        first: u64,
        checkpoints: &[Checkpoint],
    ) -> Result<bool, StoreError> {
        let mut reached = (first == 1).then_some(0);
        for checkpoint in checkpoints {
            let follows = reached.is_none_or(|reached| reached == checkpoint.after);
            let entries = u32::try_from(checkpoint.entries()).unwrap_or(u32::MAX);
            if !follows || entries > MAX_ENTRIES {
                return Ok(false);
            }
            let links = self.store.audit_entries(tenant, checkpoint.after, entries);
            if !checkpoint.holds(&links.await?, &self.key) {
                return Ok(false);
            }
            reached = Some(checkpoint.at_sequence);
        }
        Ok(true)
    }

    /// Walks from one entry to another; returns whether no entry follows.
    async fn walk(
        &self,
        tenant: &TenantId,
        walk: &mut Walk,
        first: u64,
        last: u64,
    ) -> Result<bool, StoreError> {
        let mut after = first - 1;
        loop {
            let page = self.store.audit_entries(tenant, after, PAGE).await?;
            let Some(end) = page.last() else {
                return Ok(true);
            };
            after = end.sequence;
            for link in &page {
                if link.sequence > last {
                    return Ok(false);
                }
                walk.step(link);
            }
        }
    }

    /// The stored head, read until it matches the walked entries; entries added meanwhile are
    /// walked too. Entry and head change in one transaction, so a head that stays ahead although no
    /// entry follows means that entries were lost.
    async fn end(&self, tenant: &TenantId, walk: &mut Walk) -> Result<ChainHead, StoreError> {
        loop {
            let head = self.store.audit_head(tenant).await?;
            let reached = walk.reached();
            if head.sequence > reached {
                self.walk(tenant, walk, reached + 1, u64::MAX).await?;
            }
            if walk.reached() == reached {
                return Ok(head);
            }
        }
    }

    /// Entries in order, each with its hash and whether the hash matches, and the head of the
    /// chain.
    ///
    /// # Errors
    /// An internal error.
    pub async fn entries(
        &self,
        tenant: &TenantId,
        from: u64,
        limit: u32,
    ) -> Result<Value, Problem> {
        let fault = |cause: StoreError| internal(&cause);
        let head = self.store.audit_head(tenant).await.map_err(fault)?;
        let links = self
            .store
            .audit_entries(tenant, from.saturating_sub(1), limit)
            .await
            .map_err(fault)?;
        let entries: Vec<Value> = links
            .iter()
            .map(|link| {
                json!({
                    "sequence": link.sequence,
                    "entry": serde_json::from_str::<Value>(&link.body).unwrap_or(Value::Null),
                    "hash": link.hash,
                    "intact": link.is_intact(),
                })
            })
            .collect();
        Ok(json!({
            "entries": entries,
            "head": {"sequence": head.sequence, "hash": head.hash},
        }))
    }
}
