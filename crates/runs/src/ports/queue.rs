//! The run queue: which replica executes which run.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::rules::run::record::RunRecord;
use touchstone_host::ports::run_log::{Fence, Head};
use touchstone_kit::ids::{RunId, TenantId};

/// A run that this replica may execute until its lease ends.
#[derive(Clone, Debug)]
pub struct RunClaim {
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

/// Unfinished runs, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOverview {
    /// Under the lease of a replica.
    pub running: u64,
    pub paused: u64,
    /// For a worker, a person or a later time.
    pub waiting: u64,
    /// Those of the waiting ones that wait for a worker.
    pub queued: u64,
    /// The creation of the oldest run that waits for a worker.
    pub oldest: Option<Timestamp>,
    /// Since when a run waits for a worker without interruption. Runs that a person resumed are
    /// left out, because the time of that is not stored with them.
    pub ready_since: Option<Timestamp>,
}

/// The keys and runs of a tenant, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantWork {
    pub tenant: TenantId,
    /// Keys that can be used.
    pub keys: u64,
    pub runs: u64,
    /// Runs that have not ended.
    pub open: u64,
}

/// A run that a replica holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedRun {
    pub run: RunId,
    pub tenant: TenantId,
    /// The replica.
    pub holder: String,
    /// Time until the lease ends; negative if it has ended.
    pub remaining: SignedDuration,
}
