//! Deployments of agents, and the policies of their gates.

use crate::rules::Lifecycle;
use touchstone_host::audit::Decision;
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_kit::ids::AgentId;
use touchstone_runs::rules::run::record::RunRecord;

use touchstone_packs::ports::inventory::Revision;

/// The outcome of a transition request, granted or not: its run with the whole log, the new
/// deployments, the audit entry and the response. Recorded all or nothing.
pub struct DeploymentCommit<'a> {
    /// The run that holds the events; it has ended.
    pub run: &'a RunRecord,
    /// Its log, from the first event to the terminal one.
    pub events: &'a [StoredEvent],
    pub agent: &'a AgentId,
    /// The new deployments, and the revision they were decided on; `None` if nothing changes.
    pub after: Option<(&'a Lifecycle, Revision)>,
    /// The digest of the requested version's pack, if the version is in service afterwards. A
    /// concurrent removal of the pack then waits, or the commit is stale.
    pub serves: Option<&'a str>,
    /// Runs created with it, to be executed by workers.
    pub opens: &'a [RunRecord],
    /// The audit entry.
    pub decision: &'a Decision,
    /// The idempotency record it completes.
    pub completes: Option<&'a IdempotencyCompletion>,
}
