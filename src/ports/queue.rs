//! Which replica works on which run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Head, StoreError};
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::record::RunRecord;

/// Grows with every claim of a run; an append under an older one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// A run that this replica may work on until its lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The run.
    pub run: Arc<RunRecord>,
    /// The fencing token of this claim.
    pub fence: Fence,
    /// Where its log ends now.
    pub head: Head,
    /// How long the run was worked on or waited before this claim, by a clock that is not set. The time in which no process held
    /// it, because its host was down or busy, is not part of it.
    pub active: Duration,
}

/// A request to cancel, recorded beside the run until its owner appends `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequest {
    /// Principal of who asked.
    pub cancelled_by: String,
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a parked run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The moment from which it may be claimed again; `None`: when it is released or to be cancelled.
    pub until: Option<Timestamp>,
    /// The pause request beside it is known, and is no reason to claim it again.
    pub pause_known: bool,
}

/// Which runs a claim may take.
///
/// A run that a command was asked to execute is only claimed by name, unless it is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable<'a> {
    /// Any.
    All,
    /// Any but those of these tenants, who have their share already.
    Except(&'a [TenantId]),
    /// Only those that are to be cancelled: that takes a moment and no slot.
    Cancelled,
    /// Only these.
    Named(&'a [RunId]),
}

/// Which replica works on which run.
///
/// Leases begin and end by the store's one clock, so that replicas whose clocks differ agree on them; on SQLite it is one
/// that is never set, and leases of a process that has ended are released at once. Who may write is decided by the fence
/// alone.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Claims the oldest unfinished run whose lease is free or over, among those that `which` allows; one that is to be
    /// cancelled is always among them. Raises its fence. A run whose record cannot be read is reported, left under its new
    /// lease, and passed over.
    async fn claim(
        &self,
        owner: &str,
        which: Claimable<'_>,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Extends those leases of `owner` that are among `held` and have not run out; answers with them and a pending cancel
    /// for each. A lease that nobody works under (its claim's answer was lost, its run is broken) runs out.
    async fn renew(
        &self,
        owner: &str,
        held: &[(RunId, Fence)],
        ttl: Duration,
    ) -> Result<Vec<(RunId, Fence, Option<CancelRequest>)>, StoreError>;
    /// Claims one run of this tenant by name, also a parked one or a journal, unless somebody holds it. Raises its fence.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Gives a run back, for others to go on with at once.
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), StoreError>;
    /// Gives a run back that waits: nobody claims it before its time. A cancel or a pause that was asked for meanwhile counts.
    async fn park(&self, run: &RunId, fence: Fence, wait: Wait) -> Result<(), StoreError>;
    /// Records a cancel request for an unfinished run; the first request stands. A parked run may be claimed at once then.
    /// `false` if the run has ended.
    async fn request_cancel(
        &self,
        run: &RunId,
        request: &CancelRequest,
    ) -> Result<bool, StoreError>;
    /// The recorded cancel request of a run.
    async fn cancel_requested(&self, run: &RunId) -> Result<Option<CancelRequest>, StoreError>;
}
