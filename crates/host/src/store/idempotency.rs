//! Idempotency records (OpenWOP idempotency, layer 1): first a lock with a lease, then the
//! response.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use crate::ports::host_secrets::IDEMPOTENCY_DIGESTS;
use crate::ports::idempotency::{IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion};
use crate::ports::store::StoreError;
use crate::store::convert::{column, micros};
use crate::store::database::Database;
use crate::store::secrets::Cipher;
use crate::store::sql::{Transaction, query};
use touchstone_kit::sealing::owner;

const COMPLETE: &str = "UPDATE idempotency SET status = $5, body = $6, sealed = TRUE
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND owner = $4 AND status IS NULL";
const ABANDON: &str = "DELETE FROM idempotency
    WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND owner = $4 AND status IS NULL";

/// Digest, status, body, whether the body is encrypted, and the remaining lease time.
type AnswerRow = (Vec<u8>, Option<i64>, Option<Vec<u8>>, bool, i64);

/// The owner that a claim's stored response is encrypted for.
fn owner_of(claim: &IdempotencyClaim) -> String {
    owner::idempotent_answer(claim.tenant.as_str(), &claim.endpoint, &claim.key_hash)
}

/// Decrypts a stored response. A response may contain a secret that is shown only once, so new ones
/// are never stored in plaintext.
fn opened(
    cipher: &Cipher,
    claim: &IdempotencyClaim,
    body: Vec<u8>,
    sealed: bool,
) -> Result<Bytes, StoreError> {
    if !sealed {
        return Ok(body.into());
    }
    let place = column("idempotency", "body");
    let text = String::from_utf8(body).map_err(|_| place.inconsistent())?;
    Ok(cipher.open("idempotency", &owner_of(claim), &text)?.into())
}

/// Interprets the row of a key that could not be taken. If the row has disappeared, the other
/// request abandoned the key; this request lost the race and must be retried.
fn judge(
    cipher: &Cipher,
    claim: &IdempotencyClaim,
    keyed: &[u8; 32],
    row: Option<AnswerRow>,
) -> Result<IdempotencyBegin, StoreError> {
    Ok(match row {
        // Earlier versions stored the digest without keying it.
        Some((digest, ..)) if digest != keyed && digest != claim.digest => {
            IdempotencyBegin::Mismatch
        }
        Some((_, Some(status), Some(body), sealed, _)) => IdempotencyBegin::Replay {
            status: column("idempotency", "status").number(status)?,
            body: opened(cipher, claim, body, sealed)?,
        },
        Some((_, None, _, _, left)) => IdempotencyBegin::InFlight {
            left: Duration::from_micros(u64::try_from(left).unwrap_or(0)),
        },
        None => IdempotencyBegin::InFlight {
            left: Duration::ZERO,
        },
        Some((_, Some(_), None, ..)) => return Err(column("idempotency", "body").inconsistent()),
    })
}

impl Database {
    /// Inserts a new key, or takes over an expired lease by compare-and-swap: of several concurrent
    /// requests, one changes the row and the others no longer find the lease that they saw.
    const TAKE: &str = "INSERT INTO idempotency (tenant, endpoint, key_hash, digest, owner, lease_until, created_at)
        VALUES ($1, $2, $3, $4, $5, COALESCE($8, {now}) + $6, $7)
        ON CONFLICT (tenant, endpoint, key_hash)
        DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until, created_at = excluded.created_at,
            digest = excluded.digest
        WHERE idempotency.status IS NULL AND idempotency.digest IN (excluded.digest, $9)
            AND idempotency.lease_until <= COALESCE($8, {now})";
    const LOOK: &str =
        "SELECT digest, status, body, sealed, lease_until - COALESCE($4, {now}) FROM idempotency
        WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3";
    const EXTEND: &str = "UPDATE idempotency SET lease_until = COALESCE($6, {now}) + $5
        WHERE tenant = $1 AND endpoint = $2 AND key_hash = $3 AND owner = $4 AND status IS NULL";
    const EXPIRE: &str = "DELETE FROM idempotency WHERE created_at < $1
            AND (status IS NOT NULL OR lease_until < COALESCE($2, {now}))";

    async fn take(
        &self,
        claim: &IdempotencyClaim,
        keyed: &[u8; 32],
        now: Timestamp,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let taken = query(Self::TAKE)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(keyed.as_slice())
            .bind(self.holder(&claim.owner))
            .bind(micros(lease))
            .bind(now.as_microsecond())
            .bind(self.lease_clock())
            .bind(claim.digest.as_slice())
            .execute(self.writer()?)
            .await?;
        Ok(taken > 0)
    }

    /// Stores the response within a transaction; [`StoreError::Fenced`] if another request holds
    /// the key.
    pub async fn complete_within(
        &self,
        transaction: &mut Transaction,
        completion: &IdempotencyCompletion,
    ) -> Result<(), StoreError> {
        let IdempotencyCompletion {
            claim,
            status,
            body,
        } = completion;
        let sealed = self.cipher().seal(&owner_of(claim), body)?;
        let kept = query(COMPLETE)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(self.holder(&claim.owner))
            .bind(i64::from(*status))
            .bind(sealed.as_bytes())
            .execute(transaction)
            .await?;
        match kept {
            0 => Err(StoreError::Fenced),
            _ => Ok(()),
        }
    }
}

/// Idempotency records, stored for at least 24 h.
impl Database {
    /// Locks the key, or returns its state. An expired lease, by the store's own clock, is taken
    /// over by compare-and-swap.
    pub async fn begin(
        &self,
        claim: &IdempotencyClaim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<IdempotencyBegin, StoreError> {
        let key = self.host_secret(IDEMPOTENCY_DIGESTS, rand::random());
        let keyed = self.cipher().keyed(&claim.digest, key).await?;
        if self.take(claim, &keyed, now, lease).await?
            || (self.release_dead().await? && self.take(claim, &keyed, now, lease).await?)
        {
            return Ok(IdempotencyBegin::Fresh);
        }
        let row = query(Self::LOOK)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(self.lease_clock())
            .fetch_optional(self.readers())
            .await?;
        judge(self.cipher(), claim, &keyed, row)
    }

    /// Renews the lock for `lease` from now.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the claim no longer holds the key.
    pub async fn extend(
        &self,
        claim: &IdempotencyClaim,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let extended = query(Self::EXTEND)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(self.holder(&claim.owner))
            .bind(micros(lease))
            .bind(self.lease_clock())
            .execute(self.writer()?)
            .await?;
        match extended {
            0 => Err(StoreError::Fenced),
            _ => Ok(()),
        }
    }

    /// Stores the response.
    pub async fn complete(&self, completion: &IdempotencyCompletion) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        self.complete_within(&mut transaction, completion).await?;
        transaction.commit().await
    }

    /// Frees the key, because the response must not be replayed.
    pub async fn abandon(&self, claim: &IdempotencyClaim) -> Result<(), StoreError> {
        query(ABANDON)
            .bind(claim.tenant.as_str())
            .bind(&claim.endpoint)
            .bind(claim.key_hash.as_slice())
            .bind(self.holder(&claim.owner))
            .execute(self.writer()?)
            .await?;
        Ok(())
    }

    /// Deletes records older than the retention.
    pub async fn expire(&self, older_than: Timestamp) -> Result<u64, StoreError> {
        let deleted = query(Self::EXPIRE)
            .bind(older_than.as_microsecond())
            .bind(self.lease_clock())
            .execute(self.writer()?)
            .await?;
        Ok(deleted)
    }
}
