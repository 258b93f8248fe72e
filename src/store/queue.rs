//! Which replica works on which run: leases, fences and cancel requests, one row update each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::convert::{NEVER, after, backend, column, head_of};
use super::{PostgresStore, SqliteStore};
use crate::domain::ids::{RunId, TenantId};
use crate::ports::{CancelRequest, Claim, Claimable, Fence, StoreError, WorkQueue};

const RECORD: &str = "SELECT record FROM run_record WHERE run_number = $1";
const RENEW: &str = "UPDATE run SET lease_until = $3
    WHERE run_id = $4 AND fence = $5 AND NOT ended AND lease_owner = $1 AND lease_until > $2
    RETURNING cancel";
const RELEASE: &str = "UPDATE run SET lease_owner = NULL, lease_until = 0
    WHERE run_id = $1 AND fence = $2";
const CLAIM_RUN: &str = "UPDATE run SET fence = fence + 1, lease_owner = $1, lease_until = $3
    WHERE run_id = $4 AND tenant = $5 AND NOT ended AND (lease_owner IS NULL OR lease_until <= $2)
    RETURNING number, fence, head, ended";
// Without an owner, `lease_until` says when a run may be claimed next.
const PARK: &str = "UPDATE run SET lease_owner = NULL,
    lease_until = CASE WHEN cancel IS NULL THEN $3 ELSE 0 END WHERE run_id = $1 AND fence = $2";
const CANCEL: &str = "UPDATE run SET cancel = COALESCE(cancel, $2),
    lease_until = CASE WHEN lease_owner IS NULL THEN 0 ELSE lease_until END
    WHERE run_id = $1 AND NOT ended";
const CANCEL_REQUESTED: &str = "SELECT cancel FROM run WHERE run_id = $1";

fn cancel_of(text: &str) -> Result<CancelRequest, StoreError> {
    column("run", "cancel").document(text)
}

macro_rules! work_queue {
    ($store:ty) => {
        #[async_trait]
        impl WorkQueue for $store {
            async fn claim(
                &self,
                owner: &str,
                which: Claimable,
                now: Timestamp,
                ttl: Duration,
            ) -> Result<Option<Claim>, StoreError> {
                let mut transaction = self.begin_write().await?;
                let claimed: Option<(i64, i64, i64, bool)> = sqlx::query_as(Self::CLAIM)
                    .bind(owner)
                    .bind(now.as_microsecond())
                    .bind(after(now, ttl))
                    .bind(which == Claimable::All)
                    .fetch_optional(&mut *transaction)
                    .await
                    .map_err(backend)?;
                let Some((number, fence, head, ended)) = claimed else {
                    return Ok(None);
                };
                let record: String = sqlx::query_scalar(RECORD)
                    .bind(number)
                    .fetch_one(&mut *transaction)
                    .await
                    .map_err(backend)?;
                transaction.commit().await.map_err(backend)?;
                Ok(Some(Claim {
                    run: Arc::new(column("run_record", "record").document(&record)?),
                    fence: Fence(fence),
                    head: head_of((head, ended))?,
                }))
            }

            async fn renew(
                &self,
                owner: &str,
                held: &[(RunId, Fence)],
                now: Timestamp,
                ttl: Duration,
            ) -> Result<Vec<(RunId, Fence, Option<CancelRequest>)>, StoreError> {
                let mut kept = Vec::with_capacity(held.len());
                let mut transaction = self.begin_write().await?;
                for (run, fence) in held {
                    let row: Option<Option<String>> = sqlx::query_scalar(RENEW)
                        .bind(owner)
                        .bind(now.as_microsecond())
                        .bind(after(now, ttl))
                        .bind(run.as_str())
                        .bind(fence.0)
                        .fetch_optional(&mut *transaction)
                        .await
                        .map_err(backend)?;
                    if let Some(cancel) = row {
                        let cancel = cancel.as_deref().map(cancel_of).transpose()?;
                        kept.push((run.clone(), *fence, cancel));
                    }
                }
                transaction.commit().await.map_err(backend)?;
                Ok(kept)
            }

            async fn claim_run(
                &self,
                tenant: &TenantId,
                run: &RunId,
                owner: &str,
                now: Timestamp,
                ttl: Duration,
            ) -> Result<Option<Claim>, StoreError> {
                let mut transaction = self.begin_write().await?;
                let claimed: Option<(i64, i64, i64, bool)> = sqlx::query_as(CLAIM_RUN)
                    .bind(owner)
                    .bind(now.as_microsecond())
                    .bind(after(now, ttl))
                    .bind(run.as_str())
                    .bind(tenant.as_str())
                    .fetch_optional(&mut *transaction)
                    .await
                    .map_err(backend)?;
                let Some((number, fence, head, ended)) = claimed else {
                    return Ok(None);
                };
                let record: String = sqlx::query_scalar(RECORD)
                    .bind(number)
                    .fetch_one(&mut *transaction)
                    .await
                    .map_err(backend)?;
                transaction.commit().await.map_err(backend)?;
                Ok(Some(Claim {
                    run: Arc::new(column("run_record", "record").document(&record)?),
                    fence: Fence(fence),
                    head: head_of((head, ended))?,
                }))
            }

            async fn park(
                &self,
                run: &RunId,
                fence: Fence,
                until: Option<Timestamp>,
            ) -> Result<(), StoreError> {
                let parked = sqlx::query(PARK)
                    .bind(run.as_str())
                    .bind(fence.0)
                    .bind(until.map_or(NEVER, Timestamp::as_microsecond))
                    .execute(self.writer())
                    .await
                    .map_err(backend)?;
                match parked.rows_affected() {
                    0 => Err(StoreError::Fenced),
                    _ => Ok(()),
                }
            }

            async fn release(&self, run: &RunId, fence: Fence) -> Result<(), StoreError> {
                let released = sqlx::query(RELEASE)
                    .bind(run.as_str())
                    .bind(fence.0)
                    .execute(self.writer())
                    .await
                    .map_err(backend)?;
                match released.rows_affected() {
                    0 => Err(StoreError::Fenced),
                    _ => Ok(()),
                }
            }

            async fn request_cancel(
                &self,
                run: &RunId,
                request: &CancelRequest,
            ) -> Result<bool, StoreError> {
                let recorded = sqlx::query(CANCEL)
                    .bind(run.as_str())
                    .bind(column("run", "cancel").text(request)?)
                    .execute(self.writer())
                    .await
                    .map_err(backend)?;
                let unfinished = recorded.rows_affected() > 0;
                if unfinished {
                    self.signal_cancel(run);
                }
                Ok(unfinished)
            }

            async fn cancel_requested(
                &self,
                run: &RunId,
            ) -> Result<Option<CancelRequest>, StoreError> {
                let cancel: Option<Option<String>> = sqlx::query_scalar(CANCEL_REQUESTED)
                    .bind(run.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                cancel.flatten().as_deref().map(cancel_of).transpose()
            }
        }
    };
}

work_queue!(SqliteStore);
work_queue!(PostgresStore);
