//! Creating and reading runs.
//!
//! Every lookup includes the caller's tenant; another tenant's run gets exactly the same answer as
//! one that does not exist.

mod agents;
mod attempts;
mod calibrations;
mod comparisons;
mod create;
mod experiments;
mod fork;
mod interrupts;
mod judges;
mod oasis;
mod oasis_gate;
mod pause;
mod plan;
mod retry;
mod views;

use std::sync::Arc;

use moka::future::Cache;

use self::calibrations::Attempts;
pub use self::calibrations::Comparison;
pub use self::create::{Created, Dedup};
pub use self::experiments::Experiment;
use self::interrupts::for_people;
pub use self::interrupts::{GATE_NODE, GateDecision};
pub(in crate::service) use self::oasis::preflight_of;
pub use self::oasis::{DryPreflight, OfferedProfile};
pub use self::oasis_gate::OasisGate;
pub use self::plan::Elsewhere;
use super::access::Caller;
use super::command::Command;
use super::fault::internal;
use super::journal::Journal;
use super::library::Library;
use super::projections::Projections;
use super::storage::Storage;
use super::webhooks::Webhooks;
use super::workflows::Workflows;
use crate::domain::eval::attempts::Attempt;
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::fold::{RunState, RunStatus};
use crate::domain::run::record::{EvalSpec, RunRecord};
use crate::domain::run::request::HostLimits;
use crate::domain::run::snapshot::visible_status;
use crate::ports::oasis::Providers;
use crate::ports::{CancelRequest, Clock, Ids, Judge, Models, StoreError};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::suite::{AgentEvalSuite, Thresholds};
use crate::protocol::openwop::workflow::WorkflowDefinition;
use crate::store::Database;

/// The workflows, limits and services this host offers to runs.
pub struct Offer {
    pub workflows: Workflows,
    pub limits: HostLimits,
    /// Delivers callbacks.
    pub webhooks: Arc<Webhooks>,
    /// Judges samples that people have scored.
    pub judge: Arc<dyn Judge>,
    /// Provides environments for OASIS evaluations.
    pub providers: Arc<dyn Providers>,
    /// The default evaluator, if a request names none.
    pub evaluator: Option<String>,
    /// The command this process runs; `None` for a host.
    pub command: Option<Arc<Command>>,
}

pub struct Runs {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    library: Arc<Library>,
    models: Arc<dyn Models>,
    projections: Arc<Projections>,
    workflows: Workflows,
    journal: Journal,
    limits: HostLimits,
    webhooks: Arc<Webhooks>,
    judge: Arc<dyn Judge>,
    attempts: Attempts,
    providers: Arc<dyn Providers>,
    evaluator: Option<String>,
    storage: Option<Arc<Storage>>,
    attempts_ended: Cache<RunId, Arc<Attempt>>,
    command: Option<Arc<Command>>,
}

/// Size of the cache of finished attempts, in tasks.
const ATTEMPTED_TASKS: u64 = 200_000;

impl Runs {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        library: Arc<Library>,
        models: Arc<dyn Models>,
        projections: Arc<Projections>,
        offer: Offer,
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
            workflows: offer.workflows,
            journal,
            limits: offer.limits,
            webhooks: offer.webhooks,
            judge: offer.judge,
            attempts: Attempts::default(),
            providers: offer.providers,
            evaluator: offer.evaluator,
            storage: None,
            attempts_ended: Cache::builder()
                .max_capacity(ATTEMPTED_TASKS)
                .weigher(|_, attempt: &Arc<Attempt>| {
                    u32::try_from(attempt.tasks.len() + 1).unwrap_or(u32::MAX)
                })
                .build(),
            command: offer.command,
        }
    }

    /// Adds quotas.
    #[must_use]
    pub fn limited_by(mut self, storage: Arc<Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Whether callers' budgets are only reported and stop nothing.
    pub(in crate::service) fn has_advisory_budgets(&self) -> bool {
        self.limits.advisory_budgets
    }

    /// The command this process runs; `None` for a host.
    pub(in crate::service) fn command(&self) -> Option<&Arc<Command>> {
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
    async fn eval_record(
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

    /// Requests a run's cancellation; a finished run keeps its status.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a record the host keeps, and for an approval gate: the right to
    /// cancel runs is not the right to decide for the approvers.
    pub async fn cancel(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: Option<String>,
    ) -> Result<RunStatus, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        if !record.spec.work.is_claimable() {
            let status = self.look(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(status);
            }
            return Err(Problem::new(
                ErrorCode::Conflict,
                "this run is a record the host keeps; it has no work to cancel",
            ));
        }
        if record.is_approval_gate() {
            let status = self.look(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(status);
            }
            return Err(for_people(run, "cancelled").with("runStatus", status.as_str()));
        }
        let request = CancelRequest {
            cancelled_by: caller.principal.clone(),
            reason,
        };
        let accepted = self
            .store
            .request_cancel(run, &request)
            .await
            .map_err(|cause| internal(&cause))?;
        if accepted {
            if let Some(command) = &self.command {
                command.take_on(run.clone());
            }
            self.store.notify_work().await;
        }
        self.look(run, |state| visible_status(state, accepted))
            .await
    }

    async fn suite_of(&self, eval: &EvalSpec) -> Result<Arc<AgentEvalSuite>, Problem> {
        let digest = &eval.suite_digest;
        let suite = self
            .library
            .suite(digest)
            .await
            .map_err(|cause| internal(&cause))?;
        suite.ok_or_else(|| {
            internal(&StoreError::Inconsistent {
                table: "blob",
                column: "digest",
            })
        })
    }

    async fn thresholds(&self, eval: &EvalSpec) -> Result<Thresholds, Problem> {
        Ok(self.suite_of(eval).await?.thresholds.unwrap_or_default())
    }

    async fn cancelling(&self, run: &RunId) -> Result<bool, Problem> {
        Ok(self
            .store
            .cancel_requested(run)
            .await
            .map_err(|cause| internal(&cause))?
            .is_some())
    }

    async fn look<T>(&self, run: &RunId, look: impl FnOnce(&RunState) -> T) -> Result<T, Problem> {
        self.projections
            .with_state(run, look)
            .await
            .map_err(|cause| internal(&cause))
    }
}

fn not_found() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such run")
}
