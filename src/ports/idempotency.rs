//! Idempotency records (OpenWOP idempotency, layer 1).

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

use super::StoreError;
use crate::domain::ids::TenantId;

/// Who asks for what under an `Idempotency-Key` (OpenWOP idempotency, layer 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// Authenticated tenant.
    pub tenant: TenantId,
    /// Canonical endpoint, such as `POST /v1/runs`.
    pub endpoint: String,
    /// SHA-256 of the key; raw keys are never kept.
    pub key_hash: [u8; 32],
    /// SHA-256 of the canonical body. Stores keep it keyed with a secret of the host.
    pub digest: [u8; 32],
    /// Who carries it out, for the lease.
    pub owner: String,
}

impl IdempotencyClaim {
    /// A name space for ids that the operation makes: should it be carried out twice because its answer was lost, it makes the
    /// same ones again.
    pub fn names(&self) -> Uuid {
        let (tenant, endpoint) = (self.tenant.as_str(), self.endpoint.as_str());
        let mut name = format!("{tenant}\0{endpoint}\0").into_bytes();
        name.extend(self.key_hash.iter().chain(&self.digest));
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &name)
    }
}

/// What the layer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyBegin {
    /// First request: carry it out, then complete or abandon.
    Fresh,
    /// The same request was answered before.
    Replay {
        /// HTTP status of then.
        status: u16,
        /// Body of then.
        body: Bytes,
    },
    /// The same key came with another body.
    Mismatch,
    /// The first request is still under way.
    InFlight {
        /// How long it may still hold the key without being heard of.
        left: Duration,
    },
}

/// The answer to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyCompletion {
    /// The claim it completes.
    pub claim: IdempotencyClaim,
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Bytes,
}

/// Idempotency records, kept for at least 24 h.
#[async_trait]
pub trait Idempotency: Send + Sync {
    /// Takes the lock or says why not. A lease that is over, by the store's own clock, is taken by compare-and-swap.
    async fn begin(
        &self,
        claim: &IdempotencyClaim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<IdempotencyBegin, StoreError>;
    /// Holds the lock for `lease` from now on.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the claim no longer holds the key.
    async fn extend(&self, claim: &IdempotencyClaim, lease: Duration) -> Result<(), StoreError>;
    /// Keeps the answer.
    async fn complete(&self, completion: &IdempotencyCompletion) -> Result<(), StoreError>;
    /// Frees the key: the answer is one that must not be replayed.
    async fn abandon(&self, claim: &IdempotencyClaim) -> Result<(), StoreError>;
    /// Deletes records older than the retention.
    async fn expire(&self, older_than: Timestamp) -> Result<u64, StoreError>;
}
