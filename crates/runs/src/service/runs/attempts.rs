//! All runs of the same agent, suite and model: the tasks judged in each, and the runs declared
//! void.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::rules::eval::attempts::{Attempt, Voided, is_attempt};
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::idempotency::{IdempotencyClaim, IdempotencyCompletion};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::events::EventDocument;

/// Maximum number of attempts that are pooled. A gate that could not read all of them refuses.
const MOST_ATTEMPTS: usize = 10_000;
/// Records read per page.
const RECORDS: u32 = 500;
/// Events read per page.
const EVENTS: u32 = 2048;

impl Runs {
    /// Every attempt with the same agent, suite and model as `named`, oldest first.
    ///
    /// # Errors
    /// `conflict` for more attempts than can be pooled.
    pub(super) async fn attempts_of(
        &self,
        named: &RunRecord,
        eval: &EvalSpec,
    ) -> Result<Vec<Attempt>, Problem> {
        let tenant = &named.tenant;
        let (agent, version) = (&eval.agent_id, eval.agent_version.as_str());
        let voided = store::attempts::voided(&self.store, tenant, agent, version).await;
        let mut voided = voided.map_err(|cause| internal(&cause))?;
        let mut attempts = Vec::new();
        let mut after = 0;
        loop {
            // An attempt has the same suite.
            let page =
                store::attempts::eval_runs_of_suite(&self.store, tenant, eval, after, RECORDS);
            let page = page.await.map_err(|cause| internal(&cause))?;
            for (number, record) in &page {
                after = *number;
                if !is_attempt(self.library.kinds, named, record) {
                    continue;
                }
                if attempts.len() >= MOST_ATTEMPTS {
                    return Err(Problem::new(
                        ErrorCode::Conflict,
                        format!(
                            "the agent has more than {MOST_ATTEMPTS} eval runs of this suite and \
                             model, too many to pool; release a new version"
                        ),
                    ));
                }
                let mut attempt = Attempt::clone(&*self.attempt(record).await?);
                attempt.voided = voided.remove(&record.run_id);
                attempts.push(attempt);
            }
            if page.len() < RECORDS as usize {
                return Ok(attempts);
            }
        }
    }

    /// The tasks a run has judged itself. A finished run is read once.
    pub(super) async fn attempt(&self, record: &RunRecord) -> Result<Arc<Attempt>, Problem> {
        if let Some(known) = self.finished_attempts.get(&record.run_id).await {
            return Ok(known);
        }
        let (attempt, has_ended) = match self.folded(record).await {
            Some(attempt) => (attempt, true),
            None => {
                let state = self.judged(record).await;
                let state = state.map_err(|cause| internal(&cause))?;
                (Attempt::of(record, &state), state.status.is_terminal())
            }
        };
        let attempt = Arc::new(attempt);
        if has_ended {
            let kept = attempt.clone();
            self.finished_attempts
                .insert(record.run_id.clone(), kept)
                .await;
            // Without this, displaced attempts stay in memory until the next use of the cache.
            self.finished_attempts.run_pending_tasks().await;
        }
        Ok(attempt)
    }

    /// From the folded state, if the whole log is cached. The log of a branch starts with tasks
    /// that another run judged.
    async fn folded(&self, record: &RunRecord) -> Option<Attempt> {
        if record.fork.is_some() {
            return None;
        }
        let eval = record.spec.eval()?;
        let ended = self.projections.ended_results(&record.run_id, &eval.tasks);
        if let Some(ended) = ended.await {
            let tasks = ended.results.results.attempted();
            return Some(Attempt::with_tasks(record, ended.state.status, tasks));
        }
        let read = |state: &RunState| Attempt::of(record, state);
        self.projections.ended(&record.run_id, read).await
    }

    /// Folds the verdicts of a run, without the events before them and without those a branch
    /// copied.
    async fn judged(&self, record: &RunRecord) -> Result<RunState, StoreError> {
        let mut state = RunState::default();
        let mut after = record.fork.as_ref().map_or(0, |fork| fork.history);
        loop {
            let events =
                store::attempts::verdicts(&self.store, &record.run_id, after, EVENTS).await?;
            for stored in &events {
                after = stored.sequence;
                // An event that cannot be read is ignored.
                let Ok(document) = EventDocument::read(&stored.body) else {
                    continue;
                };
                if let Ok(Some(event)) = document.event() {
                    let node = document.node_id.as_ref();
                    state.record(document.sequence, &event, node, document.timestamp);
                }
            }
            if events.len() < EVENTS as usize {
                return Ok(state);
            }
        }
    }

    /// Declares an eval run void: from now on its scores count for no gate. Its log stays
    /// unchanged.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a run that is already void.
    pub async fn void(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: String,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Value, Problem> {
        self.eval_record(&caller.tenant, run).await?;
        let voided = Voided {
            at: self.clock.now(),
            principal: caller.principal.clone(),
            reason,
        };
        let decision = Decision {
            at: voided.at,
            principal: caller.principal.clone(),
            action: "runs:void".to_owned(),
            resource: run.to_string(),
            outcome: Outcome::Done,
            reasons: vec![format!("said: {}", voided.reason)],
            decided_on: None,
            run_id: Some(run.clone()),
        };
        let body = json!({"runId": run, "voided": voided});
        let completes = claim.map(|claim| IdempotencyCompletion {
            claim: claim.clone(),
            status: 200,
            body: body.to_string().into(),
        });
        let recorded = store::attempts::void(
            &self.store,
            &caller.tenant,
            run,
            &voided,
            &decision,
            completes.as_ref(),
        )
        .await;
        match recorded {
            Ok(()) => Ok(body),
            Err(StoreError::Exists(_)) => Err(Problem::new(
                ErrorCode::Conflict,
                "this run was already voided",
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// The declaration that a run is void, if there is one.
    pub(super) async fn voided(
        &self,
        tenant: &TenantId,
        run: &RunId,
        eval: &EvalSpec,
    ) -> Result<Option<Voided>, Problem> {
        let voided =
            store::attempts::voided(&self.store, tenant, &eval.agent_id, &eval.agent_version);
        let mut voided = voided.await.map_err(|cause| internal(&cause))?;
        Ok(voided.remove(run))
    }
}
