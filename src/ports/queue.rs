//! The run queue: which replica executes which run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Head, StoreError};
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::record::RunRecord;

/// Fencing token: increases with every claim of a run; an append with an older one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// A run that this replica may execute until its lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    pub run: Arc<RunRecord>,
    /// The fencing token of this claim.
    pub fence: Fence,
    /// The current head of its log.
    pub head: Head,
    /// How long the run was executed or waited before this claim, by a monotonic clock. Excludes
    /// the time in which no process held it because its host was down or busy.
    pub active: Duration,
}

/// A request to cancel, stored next to the run until its owner appends `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequest {
    pub cancelled_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The condition that wakes a parked run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The moment from which it may be claimed again; `None`: only when it is released or to be
    /// cancelled.
    pub until: Option<Timestamp>,
    /// The pause request next to it is known, and is not a reason to claim it again.
    pub pause_known: bool,
}

/// Which runs a claim may take.
///
/// A run that a command was asked to execute is only claimed by name, unless it is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable<'a> {
    All,
    /// Any except those of these tenants, who have used up their share.
    Except(&'a [TenantId]),
    /// Only those to be cancelled: that takes a moment and no slot.
    Cancelled,
    /// Only these.
    Named(&'a [RunId]),
}

/// The run queue: which replica executes which run.
///
/// Leases start and end by the store's one clock, so that replicas whose clocks differ agree on
/// them; on SQLite it is a monotonic clock, and leases of a process that has ended are released at
/// once. The fencing token alone decides who may write.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Claims the oldest unfinished run whose lease is free or expired, among those that `which`
    /// allows; a run to be cancelled is always among them. Increases its fence. A run whose record
    /// cannot be read is reported, left under its new lease, and passed over.
    async fn claim(
        &self,
        owner: &str,
        which: Claimable<'_>,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Extends those leases of `owner` that are among `held` and have not expired; returns them
    /// with a pending cancel for each. A lease without a worker (its claim's response was lost, its
    /// run is broken) expires.
    async fn renew(
        &self,
        owner: &str,
        held: &[(RunId, Fence)],
        ttl: Duration,
    ) -> Result<Vec<(RunId, Fence, Option<CancelRequest>)>, StoreError>;
    /// Claims one run of this tenant by name, also a parked one or a journal, unless another
    /// process holds it. Increases its fence.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Gives a run back; others may continue it at once.
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), StoreError>;
    /// Gives back a run that waits: it is not claimed before its time. A cancel or a pause that was
    /// requested meanwhile counts.
    async fn park(&self, run: &RunId, fence: Fence, wait: Wait) -> Result<(), StoreError>;
    /// Records a cancel request for an unfinished run; the first request wins. A parked run may
    /// then be claimed at once. `false` if the run has ended.
    async fn request_cancel(
        &self,
        run: &RunId,
        request: &CancelRequest,
    ) -> Result<bool, StoreError>;
    /// The recorded cancel request of a run.
    async fn cancel_requested(&self, run: &RunId) -> Result<Option<CancelRequest>, StoreError>;
}
