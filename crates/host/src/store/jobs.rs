//! Periodic jobs of a host: when each was done, and which replica has its lease.

use std::time::Duration;

use jiff::Timestamp;

use crate::ports::store::StoreError;
use crate::store::convert::micros;
use crate::store::database::Database;
use crate::store::sql::query;

const KNOW: &str = "INSERT INTO job (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
/// Checked before anything is written: usually another replica has the job, or it is not due.
const DONE: &str = "SELECT EXISTS (SELECT 1 FROM job WHERE name = $1 AND done_at >= $2)";
const END: &str = "UPDATE job SET done_at = $3, lease_owner = NULL, lease_until = 0
    WHERE name = $1 AND lease_owner = $2";
const BEGIN_JOB: &str = "UPDATE job SET lease_owner = $2, lease_until = COALESCE($5, {now}) + $4 WHERE name = $1 AND lease_until <= COALESCE($5, {now}) AND (done_at IS NULL OR done_at < $3)";
const HOLD_JOB: &str =
    "UPDATE job SET lease_until = COALESCE($4, {now}) + $3 WHERE name = $1 AND lease_owner = $2";

async fn take_job(
    database: &Database,
    name: &str,
    owner: &str,
    before: Timestamp,
    ttl: Duration,
) -> Result<bool, StoreError> {
    let begun = query(BEGIN_JOB)
        .bind(name)
        .bind(database.holder(owner))
        .bind(before.as_microsecond())
        .bind(micros(ttl))
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await?;
    Ok(begun > 0)
}

/// Starts a job that has not been done since `before`, unless another replica holds its lease.
/// The store's clock decides.
pub async fn begin_job(
    database: &Database,
    name: &str,
    owner: &str,
    before: Timestamp,
    ttl: Duration,
) -> Result<bool, StoreError> {
    let done: bool = query(DONE)
        .bind(name)
        .bind(before.as_microsecond())
        .fetch_one(database.readers())
        .await?;
    if done {
        return Ok(false);
    }
    query(KNOW).bind(name).execute(database.writer()?).await?;
    Ok(take_job(database, name, owner, before, ttl).await?
        || (database.release_dead().await? && take_job(database, name, owner, before, ttl).await?))
}

/// Extends the lease to `ttl` from now; [`StoreError::Fenced`] if another replica has the job.
pub async fn hold_job(
    database: &Database,
    name: &str,
    owner: &str,
    ttl: Duration,
) -> Result<(), StoreError> {
    let held = query(HOLD_JOB)
        .bind(name)
        .bind(database.holder(owner))
        .bind(micros(ttl))
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await?;
    match held {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Marks the job as done.
pub async fn end_job(
    database: &Database,
    name: &str,
    owner: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    query(END)
        .bind(name)
        .bind(database.holder(owner))
        .bind(now.as_microsecond())
        .execute(database.writer()?)
        .await?;
    Ok(())
}
