//! Forking a run (OpenWOP replay): a new run that begins with what another one recorded.

use serde_json::{Value, json};

use super::{Created, NewRun, Runs};
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::fork::{Fork, ForkMode, ForkRequest, Overlay, history};
use crate::domain::run::record::{EvalSpec, RunRecord, RunSpec, Work};
use crate::domain::run::request::{AgentFacts, Request, SuiteFacts, parse, plan};
use crate::ports::{IdempotencyClaim, StoreError};
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::Caller;
use crate::service::fault::internal;

impl Runs {
    /// Forks a run of the caller's tenant. The fork belongs to the owner of its source.
    ///
    /// # Errors
    /// `not_found`; `invalid_from_seq` past the end of the log; `validation_error` for an overlay that cannot be used;
    /// `conflict` for a run that cannot be forked as it is.
    pub async fn fork(
        &self,
        caller: &Caller,
        source: &RunId,
        request: &ForkRequest,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let record = self.record(&caller.tenant, source).await?;
        if !record.spec.work.is_claimable() {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "this run is a record the host keeps; it has no work to repeat",
            ));
        }
        let (status, events) = self
            .look(source, |state| (state.status, state.sequence))
            .await?;
        let history = history(request, events)?;
        let spec = match request.mode {
            ForkMode::Replay if !status.is_terminal() => {
                return Err(Problem::new(
                    ErrorCode::Conflict,
                    "the run has not ended, so there is no whole log to replay; wait for it or cancel it first",
                )
                .with("runStatus", status.as_str()));
            }
            ForkMode::Replay => record.spec.clone(),
            ForkMode::Branch => {
                self.branch_spec(&caller.tenant, &record, &request.overlay, history)
                    .await?
            }
        };
        let fork = Fork {
            source_run_id: source.clone(),
            from_seq: request.from_seq,
            mode: request.mode,
            history,
            origin: record.facts_of().clone(),
            forked_by: caller.principal.clone(),
        };
        let answer = json!({
            "sourceRunId": source,
            "fromSeq": request.from_seq,
            "mode": request.mode,
        });
        let run = NewRun {
            tenant: record.tenant.clone(),
            principal: record.principal.clone(),
            spec,
            fork: Some(fork),
            callback: None,
        };
        self.record_new(run, answer, claim).await
    }

    /// What a branch does: what its source was to do, with the overlay's differences.
    async fn branch_spec(
        &self,
        tenant: &TenantId,
        source: &RunRecord,
        overlay: &Overlay,
        history: u64,
    ) -> Result<RunSpec, Problem> {
        let mut spec = source.spec.clone();
        // That the source was to be the only one of its scope says nothing about its branches.
        if let Some(scope) = &mut spec.scope {
            scope.exclusive = false;
        }
        let Work::Eval(eval) = &source.spec.work else {
            if !overlay.is_empty() {
                return Err(Problem::validation(
                    "runOptionsOverlay",
                    "only a branch of an eval run can differ from its source; leave `runOptionsOverlay` out",
                ));
            }
            return Ok(spec);
        };
        if self.pinned(eval.model_class).as_ref() != Some(&eval.model) {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the model of this run is no longer the one configured for its class; start a new run",
            ));
        }
        if !overlay.is_empty() {
            let scope = spec.scope.take();
            spec = self.overlaid(tenant, source, eval, overlay).await?;
            spec.scope = scope;
        }
        let Some(branched) = spec.eval_mut() else {
            return Ok(spec);
        };
        // What comes after the history is executed anew, not taken over from an earlier run.
        branched.retry_of = None;
        let planned_alike = branched.tasks == eval.tasks
            && branched.modes == eval.modes
            && branched.baseline == eval.baseline;
        if history > 0 && !planned_alike {
            return Err(Problem::validation(
                "runOptionsOverlay.configurable",
                "the history names tasks, modes and baseline already; change them only from `fromSeq` 0",
            ));
        }
        Ok(spec)
    }

    /// The source's request with the overlay in it, checked like a new one, over the suite and the pack the source had.
    async fn overlaid(
        &self,
        tenant: &TenantId,
        source: &RunRecord,
        eval: &EvalSpec,
        overlay: &Overlay,
    ) -> Result<RunSpec, Problem> {
        let spec = &source.spec;
        let mut configurable = spec.configurable.clone();
        configurable.extend(overlay.configurable.clone().unwrap_or_default());
        let own = |value: &Option<Value>, own: Value| value.clone().unwrap_or(own);
        let body = json!({
            "mode": "eval",
            "evalSuiteRef": format!("{}@{}", eval.suite_id, eval.suite_version),
            "agentId": eval.agent_id,
            "configurable": configurable,
            "inputs": spec.inputs,
            "tags": own(&overlay.tags, json!(spec.tags)),
            "metadata": own(&overlay.metadata, json!(spec.metadata)),
        });
        let lost = |table| {
            internal(&StoreError::Inconsistent {
                table,
                column: "digest",
            })
        };
        let request = match parse(&body).map_err(within_overlay)? {
            Request::Eval(request) => *request,
            Request::Workflow(_) => return Err(lost("run_record")),
        };
        let suite = self.library.suite(&eval.suite_digest).await;
        let suite = suite
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| lost("blob"))?;
        let agent = self
            .library
            .agent(&eval.pack_integrity, &eval.agent_id)
            .await;
        let agent = agent
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| lost("blob"))?;
        let baseline = self.baseline(tenant, &request).await?;
        let accepts = |input: &Value| agent.accepts(input);
        plan(
            request,
            &self.limits,
            Some(&SuiteFacts {
                document: &suite,
                digest: &eval.suite_digest,
                signed: eval.suite_signed,
            }),
            Some(&AgentFacts {
                agent_id: &eval.agent_id,
                version: &eval.agent_version,
                pack_integrity: &eval.pack_integrity,
                model_class: eval.model_class,
                accepts: &accepts,
                model: Some(eval.model.clone()),
            }),
            baseline.as_ref().map(super::FoundBaseline::facts).as_ref(),
        )
        .map_err(within_overlay)
    }
}

/// Names the field where the caller wrote it.
fn within_overlay(mut problem: Problem) -> Problem {
    if let Some(Value::String(field)) = problem.details.get_mut("field") {
        *field = format!("runOptionsOverlay.{field}");
    }
    problem
}
