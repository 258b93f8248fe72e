//! Idempotency records (OpenWOP idempotency, layer 1): a lock with a lease, then the answer.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::convert::{after, backend, column};
use super::{PostgresStore, SqliteStore};
use crate::ports::{
    Idempotency, IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion, StoreError,
};

/// A fresh key, or the compare-and-swap that takes over a lease which is over: of several that try, one changes the row
/// and the others no longer find the lease they saw.
const TAKE: &str = "INSERT INTO idempotency (tenant, endpoint, key_hash, digest, owner, lease_until, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant, endpoint, key_hash)
    DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until, created_at = excluded.created_at
    WHERE idempotency.status IS NULL AND idempotency.digest = excluded.digest
        AND idempotency.lease_until <= excluded.created_at";
const LOOK: &str = "SELECT digest, status, body FROM idempotency
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3";
pub(super) const COMPLETE: &str = "UPDATE idempotency SET status = $5, body = $6
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND owner = $4 AND status IS NULL";
const ABANDON: &str = "DELETE FROM idempotency
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND owner = $4 AND status IS NULL";
const EXPIRE: &str = "DELETE FROM idempotency WHERE created_at < $1 AND lease_until < $1";

type AnswerRow = (Vec<u8>, Option<i64>, Option<Vec<u8>>);

/// What the row of a key that could not be taken means. A row that went away meanwhile was abandoned: whoever held it is
/// done, but this request has lost the race and comes again.
fn judge(claim: &IdempotencyClaim, row: Option<AnswerRow>) -> Result<IdempotencyBegin, StoreError> {
    Ok(match row {
        Some((digest, ..)) if digest != claim.digest => IdempotencyBegin::Mismatch,
        Some((_, Some(status), Some(body))) => IdempotencyBegin::Replay {
            status: column("idempotency", "status").number(status)?,
            body: body.into(),
        },
        Some((_, None, _)) | None => IdempotencyBegin::InFlight,
        Some((_, Some(_), None)) => return Err(column("idempotency", "body").inconsistent()),
    })
}

macro_rules! idempotency {
    ($store:ty) => {
        #[async_trait]
        impl Idempotency for $store {
            async fn begin(
                &self,
                claim: &IdempotencyClaim,
                now: Timestamp,
                lease: Duration,
            ) -> Result<IdempotencyBegin, StoreError> {
                let taken = sqlx::query(TAKE)
                    .bind(claim.tenant.as_str())
                    .bind(&claim.endpoint)
                    .bind(claim.key_hash.as_slice())
                    .bind(claim.digest.as_slice())
                    .bind(&claim.owner)
                    .bind(after(now, lease))
                    .bind(now.as_microsecond())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                if taken.rows_affected() > 0 {
                    return Ok(IdempotencyBegin::Fresh);
                }
                let row = sqlx::query_as(LOOK)
                    .bind(claim.tenant.as_str())
                    .bind(&claim.endpoint)
                    .bind(claim.key_hash.as_slice())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                judge(claim, row)
            }

            async fn complete(&self, completion: &IdempotencyCompletion) -> Result<(), StoreError> {
                let mut transaction = self.begin_write().await?;
                complete!(transaction, completion)?;
                transaction.commit().await.map_err(backend)
            }

            async fn abandon(&self, claim: &IdempotencyClaim) -> Result<(), StoreError> {
                sqlx::query(ABANDON)
                    .bind(claim.tenant.as_str())
                    .bind(&claim.endpoint)
                    .bind(claim.key_hash.as_slice())
                    .bind(&claim.owner)
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(())
            }

            async fn expire(&self, older_than: Timestamp) -> Result<u64, StoreError> {
                let deleted = sqlx::query(EXPIRE)
                    .bind(older_than.as_microsecond())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(deleted.rows_affected())
            }
        }
    };
}

/// Keeps the answer within a transaction; [`StoreError::Fenced`] when somebody else holds the key by now.
macro_rules! complete {
    ($transaction:expr, $completion:expr) => {{
        let IdempotencyCompletion {
            claim,
            status,
            body,
        } = $completion;
        let kept = sqlx::query($crate::store::idempotency::COMPLETE)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(&claim.owner)
            .bind(i64::from(*status))
            .bind(body.as_ref())
            .execute(&mut *$transaction)
            .await
            .map_err(backend)?;
        match kept.rows_affected() {
            0 => Err(StoreError::Fenced),
            _ => Ok(()),
        }
    }};
}
pub(super) use complete;

idempotency!(SqliteStore);
idempotency!(PostgresStore);
