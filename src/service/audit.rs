//! Reading the audit log, and walking its chain (OpenWOP audit-log-integrity).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::fault::internal;
use crate::domain::audit::{Anomaly, ChainHead, Walk};
use crate::domain::ids::TenantId;
use crate::ports::{Store, StoreError};
use crate::protocol::error::Problem;

const PAGE: u32 = 1000;

/// What walking the chain came to (OpenWOP audit-verify-result).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerifyResult {
    /// The first entry asked about.
    pub from_seq: u64,
    /// The last.
    pub to_seq: u64,
    /// Whether no break was found.
    pub chain_valid: bool,
    /// Signed checkpoints; this host makes none.
    pub checkpoints: Vec<Value>,
    /// Every break.
    pub anomalies: Vec<Anomaly>,
}

/// The use cases of the audit log.
pub struct Audit {
    store: Arc<dyn Store>,
}

impl Audit {
    /// The use cases over their port.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Walks the chain from one entry to another, both included; to its end if no end is named. A range that reaches the
    /// end is also held against what is kept of the end.
    ///
    /// # Errors
    /// `validation_error` for a range that runs backwards, or begins where the log has no entry yet.
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
        // Nothing can be said of entries that are not there.
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
        Ok(AuditVerifyResult {
            from_seq,
            to_seq,
            chain_valid: anomalies.is_empty(),
            checkpoints: Vec::new(),
            anomalies,
        })
    }

    /// Walks from one entry to another; whether there is none behind it.
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

    /// The end that is kept, read until it belongs to what was walked: decisions of the meantime are walked too. Entry and
    /// end change together, so an end that stays ahead when no entry follows has lost its entries.
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

    /// Entries in order, each with its hash and whether it still has it, and where the chain ends.
    ///
    /// # Errors
    /// A fault of ours.
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
