//! Retrying: executing again what a run has not judged.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::rules::run::fold::RunStatus;
use crate::rules::run::retry::{RetryRefusal, may_retry};
use crate::rules::run::snapshot::visible_status;
use crate::service::runs::Runs;
use crate::service::runs::create::Created;
use crate::store;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;

/// Lease of a claim that only finds out whether a process works on a run.
const TAKE_OVER: Duration = Duration::from_secs(5);

impl Runs {
    /// Creates a run that reuses every judged task of `source` and executes only the rest, with
    /// everything else pinned as before. In a command, a run that no process works on is continued
    /// instead.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.reason` as defined by [`may_retry`].
    pub async fn retry(
        &self,
        caller: &Caller,
        source: &RunId,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let (record, eval) = self.eval_record(&caller.tenant, source).await?;
        let cancelling = self.cancelling(source).await?;
        let now = self.configured(&caller.tenant, &eval).await?;
        let (allowed, ended) = self
            .with_state(source, |state| {
                let status = visible_status(state, cancelling);
                let allowed = may_retry(self.library.kinds, &eval, &state.eval, status, &now);
                (allowed, state.completed_at)
            })
            .await?;
        if let (Err(RetryRefusal::Cancelling), Some(command)) = (&allowed, &self.command) {
            // Its own command may be gone; then only this command can finish it.
            command.add_run(source.clone());
            self.store.notify_work().await;
        }
        let allowed = match allowed {
            // Only this command could continue it, and does so only with the same models.
            Err(RetryRefusal::Running) if self.command.is_some() => {
                now.check_same(&eval).and(Err(RetryRefusal::Running))
            }
            allowed => allowed,
        };
        if allowed == Err(RetryRefusal::Running) && self.take_over(&caller.tenant, source).await? {
            let body = json!({"runId": source, "status": RunStatus::Pending});
            return Ok(Created {
                run_id: source.clone(),
                body,
                recorded: false,
            });
        }
        allowed.map_err(|refusal| {
            Problem::new(ErrorCode::Conflict, refusal.to_string()).with("reason", refusal.label())
        })?;
        let mut spec = record.spec.clone();
        self.pin_endpoints(&caller.tenant, &mut spec);
        self.pin_deciders(&caller.tenant, &mut spec).await?;
        let root = eval.execution.retry_root.as_ref();
        let root = root.unwrap_or_else(|| record.facts_of()).clone();
        let made = store::runs::last_retry_number(&self.store, &caller.tenant, &root).await;
        let made = made.map_err(|cause| internal(&cause))?;
        if let Some(eval) = spec.eval_mut() {
            eval.retry_of = Some(source.clone());
            eval.facts_recorded_at = earlier(eval.facts_recorded_at, ended);
            eval.execution.retries = made.max(eval.execution.retries).saturating_add(1);
            eval.execution.retry_root = Some(root);
        }
        let log = LogMark::of_new(Major::V1);
        self.record_run(caller, spec, None, log, claim).await
    }
}

impl Runs {
    /// Makes this command execute a run whose own command is gone. `false` in a host, and while
    /// another process holds it.
    pub async fn take_over(&self, tenant: &TenantId, run: &RunId) -> Result<bool, Problem> {
        let Some(command) = &self.command else {
            return Ok(false);
        };
        let claim = store::queue::claim_run(&self.store, tenant, run, command.name(), TAKE_OVER)
            .await
            .map_err(|cause| internal(&cause))?;
        let Some(claim) = claim else {
            return Ok(false);
        };
        store::queue::release(&self.store, run, claim.fence)
            .await
            .map_err(|cause| internal(&cause))?;
        command.add_run(run.clone());
        self.store.notify_work().await;
        Ok(true)
    }
}

/// The earlier of two moments; `None` only if both are.
pub(super) fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
