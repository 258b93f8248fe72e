//! The run queue: which replica executes which run. Leases, fencing tokens and cancel requests are
//! one row update each.
//!
//! Leases start and end by the store's one clock, so that replicas whose clocks differ agree on
//! them; on SQLite it is a monotonic clock, and leases of a process that has ended are released at
//! once. The fencing token alone decides who may write.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tracing::error;

use crate::ports::queue::{CancelRequest, Claimable, RunClaim, Wait};
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, NEVER, column, head_of, micros};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TenantId};

const RECORD: &str = "SELECT record FROM run_record WHERE run_number = $1";
const CANCEL: &str = "UPDATE run SET cancel = COALESCE(cancel, $2),
    lease_until = CASE WHEN lease_owner IS NULL THEN 0 ELSE lease_until END
    WHERE run_id = $1 AND NOT ended";
const CANCEL_REQUESTED: &str = "SELECT cancel FROM run WHERE run_id = $1";

fn cancel_of(text: &str) -> Result<CancelRequest, StoreError> {
    column("run", "cancel").document(text)
}

/// The row that a claim returns: number, id, fence, head, ended, active time.
type ClaimedRow = (i64, String, i64, i64, bool, i64);

fn claim_of(row: ClaimedRow, record: Option<&str>) -> Result<RunClaim, StoreError> {
    const RECORD: Column = column("run_record", "record");

    let (_, _, fence, head, ended, active) = row;
    let record = record.ok_or_else(|| RECORD.inconsistent())?;
    Ok(RunClaim {
        run: Arc::new(RECORD.document(record)?),
        fence: Fence(fence),
        head: head_of((head, ended))?,
        active: Duration::from_micros(column("run", "active_us").number(active)?),
    })
}

/// The statement that claims the run of a condition.
macro_rules! claim_where {
    ($condition:literal) => {
        concat!(
            "UPDATE run SET fence = fence + 1, lease_owner = $1, lease_until = COALESCE($5, {now}) + $2,
        active_us = active_us + CASE WHEN lease_owner IS NULL THEN CASE WHEN active_since < COALESCE($5, {now})
            THEN COALESCE($5, {now}) - active_since ELSE 0 END ELSE 0 END,
        active_since = COALESCE($5, {now})
    WHERE ",
            $condition,
            " RETURNING number, run_id, fence, head, ended, active_us"
        )
    };
}

// Without an owner, `lease_until` is the wall-clock time at which the run can next be claimed.
const CLAIM: &str = claim_where!(
    "number = (SELECT number FROM run WHERE NOT ended
        AND lease_until <= CASE WHEN lease_owner IS NULL THEN {now}
            ELSE COALESCE($5, {now}) END
        AND (cancel IS NOT NULL OR (executor IS NULL AND $3 AND tenant NOT IN ({each $4})))
        ORDER BY number LIMIT 1 {skip locked})"
);
const CLAIM_NAMED: &str = claim_where!(
    "number = (SELECT number FROM run WHERE NOT ended
        AND lease_until <= CASE WHEN lease_owner IS NULL THEN {now}
            ELSE COALESCE($5, {now}) END
        AND $3 AND run_id IN ({each $4})
        ORDER BY number LIMIT 1 {skip locked})"
);
const CLAIM_RUN: &str = claim_where!(
    "run_id = $3 AND tenant = $4 AND NOT ended
        AND (lease_owner IS NULL OR lease_until <= COALESCE($5, {now}))"
);
const RENEW: &str = "UPDATE run SET lease_until = COALESCE($5, {now}) + $2,
        active_us = active_us + CASE WHEN active_since < COALESCE($5, {now})
            THEN COALESCE($5, {now}) - active_since ELSE 0 END,
        active_since = COALESCE($5, {now})
    WHERE run_id = $3 AND fence = $4 AND NOT ended
        AND lease_owner = $1 AND lease_until > COALESCE($5, {now})
    RETURNING cancel";
const RELEASE: &str = "UPDATE run SET lease_owner = NULL, lease_until = 0,
        active_us = active_us + CASE WHEN active_since < COALESCE($3, {now})
            THEN COALESCE($3, {now}) - active_since ELSE 0 END, active_since = NULL
    WHERE run_id = $1 AND fence = $2";
// Waiting counts as active time.
const PARK: &str = "UPDATE run SET lease_owner = NULL,
        lease_until = CASE WHEN cancel IS NULL AND (pause IS NULL OR $4) THEN $3 ELSE 0 END,
        active_us = active_us + CASE WHEN active_since < COALESCE($5, {now})
            THEN COALESCE($5, {now}) - active_since ELSE 0 END,
        active_since = COALESCE($5, {now})
    WHERE run_id = $1 AND fence = $2";

/// Claims the oldest unfinished run whose lease is free or expired, among those that `which`
/// allows; a run to be cancelled is always among them. Increases its fence. A run whose record
/// cannot be read is reported, left under its new lease, and passed over.
pub async fn claim(
    database: &Database,
    owner: &str,
    which: Claimable<'_>,
    ttl: Duration,
) -> Result<Option<RunClaim>, StoreError> {
    let (statement, members) = match which {
        Claimable::Except(tenants) => (CLAIM, json!(tenants)),
        Claimable::All | Claimable::Cancelled => (CLAIM, json!([])),
        Claimable::Named(runs) => (CLAIM_NAMED, json!(runs)),
    };
    // Each iteration leases another run before it reads the record, so the loop ends.
    loop {
        // Fetch all rows, here and wherever a single statement writes: the database commits
        // after the last row, and a failed commit must not look like a claim.
        let claimed: Option<ClaimedRow> = query(statement)
            .bind(database.holder(owner))
            .bind(micros(ttl))
            .bind(which != Claimable::Cancelled)
            .bind(members.to_string())
            .bind(database.lease_clock())
            .fetch_all(database.writer()?)
            .await?
            .pop();
        let Some(row) = claimed else {
            match database.release_dead().await? {
                true => continue,
                false => return Ok(None),
            }
        };
        let run_id = row.1.clone();
        let record: Option<String> = query(RECORD)
            .bind(row.0)
            .fetch_optional(database.readers())
            .await?;
        match claim_of(row, record.as_deref()) {
            Ok(claim) => return Ok(Some(claim)),
            Err(cause) => {
                error!(run_id, %cause, "could not read a run; it is skipped until its lease expires");
            }
        }
    }
}

/// Extends those leases of `owner` that are among `held` and have not expired; returns them
/// with a pending cancel for each. A lease without a worker (its claim's response was lost, its
/// run is broken) expires.
pub async fn renew(
    database: &Database,
    owner: &str,
    held: &[(RunId, Fence)],
    ttl: Duration,
) -> Result<Vec<(RunId, Fence, Option<CancelRequest>)>, StoreError> {
    let mut kept = Vec::with_capacity(held.len());
    let mut transaction = database.begin_write().await?;
    for (run, fence) in held {
        let row: Option<Option<String>> = query(RENEW)
            .bind(database.holder(owner))
            .bind(micros(ttl))
            .bind(run.as_str())
            .bind(fence.0)
            .bind(database.lease_clock())
            .fetch_optional(&mut transaction)
            .await?;
        if let Some(cancel) = row {
            // One unreadable request must not cost the other leases.
            let cancel = cancel.as_deref().map(cancel_of).transpose();
            let cancel = cancel.unwrap_or_else(|cause| {
                error!(run_id = %run, %cause, "could not read a cancel request");
                None
            });
            kept.push((run.clone(), *fence, cancel));
        }
    }
    transaction.commit().await?;
    Ok(kept)
}

/// Claims one run of this tenant by name, also a parked one or a journal, unless another
/// process holds it. Increases its fence.
pub async fn claim_run(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
    owner: &str,
    ttl: Duration,
) -> Result<Option<RunClaim>, StoreError> {
    let mut transaction = database.begin_write().await?;
    let claimed: Option<ClaimedRow> = query(CLAIM_RUN)
        .bind(database.holder(owner))
        .bind(micros(ttl))
        .bind(run.as_str())
        .bind(tenant.as_str())
        .bind(database.lease_clock())
        .fetch_optional(&mut transaction)
        .await?;
    let Some(row) = claimed else {
        drop(transaction);
        database.release_dead().await?;
        return Ok(None);
    };
    let record: Option<String> = query(RECORD)
        .bind(row.0)
        .fetch_optional(&mut transaction)
        .await?;
    // On an error the transaction rolls back, so an unreadable run is not left claimed.
    let claim = claim_of(row, record.as_deref())?;
    transaction.commit().await?;
    Ok(Some(claim))
}

/// Gives back a run that waits: it is not claimed before its time. A cancel or a pause that was
/// requested meanwhile counts.
pub async fn park(
    database: &Database,
    run: &RunId,
    fence: Fence,
    wait: Wait,
) -> Result<(), StoreError> {
    let parked = query(PARK)
        .bind(run.as_str())
        .bind(fence.0)
        .bind(wait.until.map_or(NEVER, Timestamp::as_microsecond))
        .bind(wait.pause_known)
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await?;
    match parked {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Gives a run back; others may continue it at once.
pub async fn release(database: &Database, run: &RunId, fence: Fence) -> Result<(), StoreError> {
    let released = query(RELEASE)
        .bind(run.as_str())
        .bind(fence.0)
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await?;
    match released {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Records a cancel request for an unfinished run; the first request wins. A parked run may
/// then be claimed at once. `false` if the run has ended.
pub async fn request_cancel(
    database: &Database,
    run: &RunId,
    request: &CancelRequest,
) -> Result<bool, StoreError> {
    let recorded = query(CANCEL)
        .bind(run.as_str())
        .bind(column("run", "cancel").text(request)?)
        .execute(database.writer()?)
        .await?;
    let unfinished = recorded > 0;
    if unfinished {
        database.signal_cancel(run);
    }
    Ok(unfinished)
}

/// The recorded cancel request of a run.
pub async fn cancel_requested(
    database: &Database,
    run: &RunId,
) -> Result<Option<CancelRequest>, StoreError> {
    let cancel: Option<Option<String>> = query(CANCEL_REQUESTED)
        .bind(run.as_str())
        .fetch_optional(database.readers())
        .await?;
    cancel.flatten().as_deref().map(cancel_of).transpose()
}
