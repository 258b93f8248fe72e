//! Idempotency records (OpenWOP idempotency, layer 1).

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use touchstone_kit::ids::TenantId;

/// The owner and content of a request with an `Idempotency-Key` (OpenWOP idempotency, layer 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// Authenticated tenant.
    pub tenant: TenantId,
    /// Canonical endpoint, such as `POST /v1/runs`.
    pub endpoint: String,
    /// SHA-256 of the key; raw keys are never stored.
    pub key_hash: [u8; 32],
    /// SHA-256 of the canonical body. Stores key it with a secret of the host.
    pub digest: [u8; 32],
    /// The process that executes the request; holds the lease.
    pub owner: String,
}

impl IdempotencyClaim {
    /// A namespace for ids that the operation creates: if it is executed twice because its response
    /// was lost, it creates the same ids again.
    pub fn names(&self) -> Uuid {
        let (tenant, endpoint) = (self.tenant.as_str(), self.endpoint.as_str());
        let mut name = format!("{tenant}\0{endpoint}\0").into_bytes();
        name.extend(self.key_hash.iter().chain(&self.digest));
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &name)
    }
}

/// The state of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyBegin {
    /// First request: execute it, then complete or abandon.
    Fresh,
    /// The same request was answered before.
    Replay { status: u16, body: Bytes },
    /// The key was used with another body.
    Mismatch,
    /// The first request is still in progress.
    InFlight {
        /// How long it may still hold the key without a heartbeat.
        left: Duration,
    },
}

/// The response to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyCompletion {
    /// The claim it completes.
    pub claim: IdempotencyClaim,
    pub status: u16,
    pub body: Bytes,
}
