//! Carrying out again what a run has not judged.

use jiff::Timestamp;

use super::Runs;
use super::create::Created;
use crate::domain::ids::RunId;
use crate::domain::run::retry::{NoRetry, may_retry};
use crate::domain::run::snapshot::visible_status;
use crate::ports::IdempotencyClaim;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::Caller;

impl Runs {
    /// Creates a run that reuses every judged task of `source` and executes only the rest, with everything else pinned as
    /// it was.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.reason` as [`may_retry`] has it.
    pub async fn retry(
        &self,
        caller: &Caller,
        source: &RunId,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let (record, eval) = self.eval_record(&caller.tenant, source).await?;
        let cancelling = self.cancelling(source).await?;
        let model = self.pinned(eval.model_class);
        let judge = self.judge_now(&eval).await?;
        let (allowed, ended) = self
            .look(source, |state| {
                let status = visible_status(state, cancelling);
                let allowed = may_retry(&eval, &state.eval, status, model.as_ref(), judge.as_ref());
                (allowed, state.completed_at)
            })
            .await?;
        let allowed = allowed.and_then(|()| match &eval.safety_judge {
            Some(then) if self.safety_judge_now(&eval).as_ref() != Some(then) => {
                Err(NoRetry::JudgeChanged { then: then.clone() })
            }
            _ => Ok(()),
        });
        allowed.map_err(|refusal| {
            Problem::new(ErrorCode::Conflict, refusal.to_string()).with("reason", refusal.label())
        })?;
        let mut spec = record.spec.clone();
        if let Some(eval) = spec.eval_mut() {
            eval.retry_of = Some(source.clone());
            eval.facts_recorded_at = older(eval.facts_recorded_at, ended);
        }
        self.record_run(caller, spec, None, claim).await
    }
}

/// The older of two moments, as far as there are any.
pub(super) fn older(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
