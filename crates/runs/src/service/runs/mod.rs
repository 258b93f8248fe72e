//! Creating and reading runs.
//!
//! Every lookup includes the caller's tenant; another tenant's run gets exactly the same answer as
//! one that does not exist.

pub mod agents;
pub mod attempts;
pub mod calibrations;
pub mod conversations;
pub mod create;
pub mod fork;
pub mod interrupts;
pub mod judges;
pub mod pause;
pub mod plan;
pub mod questions;
pub mod reading;
pub mod retry;
pub mod shared;
pub mod work;

use std::sync::Arc;

use moka::future::Cache;
use moka::policy::EvictionPolicy;

use crate::ports::queue::CancelRequest;
use crate::rules::eval::attempts::Attempt;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::rules::run::request::HostLimits;
use crate::rules::run::snapshot::visible_status;
use crate::service::command::Command;
use crate::service::journal::Journal;
use crate::service::library::suites::SuiteIndex;
use crate::service::library::{self, Library};
use crate::service::projections::Projections;
pub use crate::service::runs::calibrations::Comparison;
use crate::service::runs::calibrations::work::Attempts;
pub use crate::service::runs::create::{Created, Dedup};
use crate::service::runs::interrupts::needs_approver;
pub use crate::service::runs::interrupts::{GATE_NODE, GateDecision};
pub use crate::service::runs::plan::{KindPlanner, RemoteAgent};
pub use crate::service::runs::shared::Assessed;
use crate::service::runs::shared::Reports;
use crate::service::storage::Storage;
use crate::service::webhooks::Webhooks;
use crate::service::workflows::Workflows;
use crate::store;
use touchstone_agents::ports::model::Models;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::suite::{AgentEvalSuite, Thresholds};
use touchstone_openwop::wire::version::Majors;
use touchstone_openwop::workflow::WorkflowDefinition;
use touchstone_packs::ports::host::AgentDeployments;

/// The workflows, limits and services this host offers to runs.
pub struct RunServices {
    pub workflows: Workflows,
    pub limits: HostLimits,
    /// Delivers callbacks.
    pub webhooks: Arc<Webhooks>,
    /// Resolves channels to versions of agents.
    pub deployments: Arc<dyn AgentDeployments>,
    /// Plan the runs of evaluation kinds.
    pub planners: Vec<Arc<dyn KindPlanner>>,
    /// Enforces the quotas of tenants.
    pub storage: Arc<Storage>,
    /// The command this process runs; `None` for a host.
    pub command: Option<Arc<Command>>,
    /// The majors of the protocol that links are for.
    pub majors: Majors,
}

/// What a request to cancel a run has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The run is to be cancelled, or has been by now.
    Requested(RunStatus),
    /// The run had ended before, so nothing has changed.
    Ended(RunStatus),
}

impl Cancellation {
    /// The status of the run, as major 1 answers it in both cases.
    pub const fn status(self) -> RunStatus {
        match self {
            Self::Requested(status) | Self::Ended(status) => status,
        }
    }

    /// The status of a run that is cancelled.
    ///
    /// # Errors
    /// `run_terminal` if it had ended before, as major 2 answers it.
    pub fn requested(self) -> Result<RunStatus, Problem> {
        match self {
            Self::Requested(status) => Ok(status),
            Self::Ended(status) => Err(Problem::new(
                ErrorCode::RunTerminal,
                format!("the run has ended: {}", status.as_str()),
            )
            .with("runStatus", status.as_str())),
        }
    }
}

pub struct Runs {
    pub store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    pub library: Arc<Library>,
    models: Arc<dyn Models>,
    projections: Arc<Projections>,
    workflows: Workflows,
    journal: Journal,
    limits: HostLimits,
    webhooks: Arc<Webhooks>,
    attempts: Attempts,
    deployments: Arc<dyn AgentDeployments>,
    planners: Vec<Arc<dyn KindPlanner>>,
    storage: Arc<Storage>,
    finished_attempts: Cache<RunId, Arc<Attempt>>,
    reports: Reports,
    command: Option<Arc<Command>>,
    majors: Majors,
}

/// Size of the cache of finished attempts in bytes, and the estimated size of one without tasks.
const CACHED_ATTEMPTS: u64 = 16 * 1024 * 1024;
const ATTEMPT_BYTES: usize = 512;

impl Runs {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        library: Arc<Library>,
        models: Arc<dyn Models>,
        projections: Arc<Projections>,
        services: RunServices,
    ) -> Self {
        let owner = ids.mint("service");
        let journal = Journal::new(store.clone(), clock.clone(), ids.clone(), owner);
        Self {
            store,
            clock,
            ids,
            library,
            models,
            projections,
            workflows: services.workflows,
            journal,
            limits: services.limits,
            webhooks: services.webhooks,
            attempts: Attempts::default(),
            deployments: services.deployments,
            planners: services.planners,
            storage: services.storage,
            finished_attempts: Cache::builder()
                .max_capacity(CACHED_ATTEMPTS)
                .weigher(|_, attempt: &Arc<Attempt>| {
                    // A larger one is kept alone.
                    let bytes = (ATTEMPT_BYTES + attempt.tasks.bytes()) as u64;
                    u32::try_from(bytes.min(CACHED_ATTEMPTS)).unwrap_or(u32::MAX)
                })
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            reports: Reports::default(),
            command: services.command,
            majors: services.majors,
        }
    }

    /// Whether callers' budgets are only reported and stop nothing.
    pub fn has_advisory_budgets(&self) -> bool {
        self.limits.advisory_budgets
    }

    /// The command this process runs; `None` for a host.
    pub fn command(&self) -> Option<&Arc<Command>> {
        self.command.as_ref()
    }

    /// The record of a run of this tenant.
    ///
    /// # Errors
    /// `not_found`, with the same message for every reason.
    pub async fn record(&self, tenant: &TenantId, run: &RunId) -> Result<Arc<RunRecord>, Problem> {
        let record = self
            .projections
            .record(tenant, run)
            .await
            .map_err(|cause| internal(&cause))?;
        record.ok_or_else(not_found)
    }

    /// The definition of a workflow of this host.
    ///
    /// # Errors
    /// `not_found`.
    pub fn workflow(&self, id: &str) -> Result<WorkflowDefinition, Problem> {
        self.workflows.definition(id).ok_or_else(|| {
            Problem::new(
                ErrorCode::NotFound,
                "no such workflow; leave it out for an eval run",
            )
        })
    }

    /// The record of an eval run of this tenant.
    pub async fn eval_record(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(Arc<RunRecord>, Arc<EvalSpec>), Problem> {
        let record = self.record(tenant, run).await?;
        let eval = record.spec.eval().cloned();
        let eval =
            eval.ok_or_else(|| Problem::new(ErrorCode::NotFound, "this run is not an eval run"))?;
        Ok((record, eval))
    }

    /// Requests a run's cancellation; a finished run keeps its status, and nothing is requested.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a record the host keeps, and for an approval gate: the right to
    /// cancel runs is not the right to decide for the approvers.
    pub async fn cancel(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: Option<String>,
    ) -> Result<Cancellation, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        if !record.spec.work.is_claimable() {
            let status = self.with_state(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(Cancellation::Ended(status));
            }
            return Err(Problem::new(
                ErrorCode::RunStateConflict,
                "this run records a decision of the host and is not executed, so it cannot be \
                 cancelled",
            )
            .with("runStatus", status.as_str()));
        }
        if record.is_approval_gate() {
            let status = self.with_state(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(Cancellation::Ended(status));
            }
            return Err(needs_approver(run, "cancelled").with("runStatus", status.as_str()));
        }
        let request = CancelRequest {
            cancelled_by: caller.principal.clone(),
            reason,
        };
        let accepted = store::queue::request_cancel(&self.store, run, &request)
            .await
            .map_err(|cause| internal(&cause))?;
        if accepted {
            if let Some(command) = &self.command {
                command.add_run(run.clone());
            }
            self.store.notify_work().await;
        }
        let status = self
            .with_state(run, |state| visible_status(state, accepted))
            .await?;
        // A run may end on its own before the request reaches it.
        Ok(match status {
            RunStatus::Completed | RunStatus::Failed => Cancellation::Ended(status),
            _ if accepted => Cancellation::Requested(status),
            _ => Cancellation::Ended(status),
        })
    }

    /// The run's suite with all its tasks.
    ///
    /// # Errors
    /// `payload_too_large` for a suite that is too large to be read as a whole.
    pub async fn suite_of(&self, eval: &EvalSpec) -> Result<Arc<AgentEvalSuite>, Problem> {
        let suite = self.library.suite(&eval.suite_digest).await;
        suite.map_err(unreadable_suite)?.ok_or_else(lost_suite)
    }

    /// The run's suite, of which tasks are read one by one.
    ///
    /// # Errors
    /// An internal error.
    pub async fn suite_index(&self, eval: &EvalSpec) -> Result<Arc<SuiteIndex>, Problem> {
        let suite = self.library.suite_index(&eval.suite_digest).await;
        suite.map_err(unreadable_suite)?.ok_or_else(lost_suite)
    }

    /// The scoring document of the run's suite, if it has one.
    pub(super) async fn scoring_of(
        &self,
        eval: &EvalSpec,
    ) -> Result<Option<Arc<ScoringDocument>>, Problem> {
        match &eval.scoring_digest {
            None => Ok(None),
            Some(digest) => {
                let scoring = self.library.scoring(digest).await;
                scoring.map(Some).map_err(|cause| internal(&cause))
            }
        }
    }

    async fn thresholds(&self, eval: &EvalSpec) -> Result<Thresholds, Problem> {
        Ok(self.suite_index(eval).await?.thresholds())
    }

    async fn cancelling(&self, run: &RunId) -> Result<bool, Problem> {
        Ok(store::queue::cancel_requested(&self.store, run)
            .await
            .map_err(|cause| internal(&cause))?
            .is_some())
    }

    pub async fn with_state<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<T, Problem> {
        self.projections
            .with_state(run, read)
            .await
            .map_err(|cause| internal(&cause))
    }
}

/// The error for a suite that cannot be read.
fn unreadable_suite(cause: library::Error) -> Problem {
    match cause {
        library::Error::TooLarge => Problem::new(ErrorCode::PayloadTooLarge, cause.to_string()),
        cause => internal(&cause),
    }
}

fn lost_suite() -> Problem {
    internal(&StoreError::Inconsistent {
        table: "blob",
        column: "digest",
    })
}

fn not_found() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such run")
}
