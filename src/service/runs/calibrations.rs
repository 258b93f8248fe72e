//! Comparing the judge with people.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::join_all;

use super::Runs;
use crate::domain::audit::{Decision, Outcome};
use crate::domain::budget::Estimate;
use crate::domain::eval::rubric::calibration::{
    Calibration, MIN_SAMPLES, Sample, Unusable, compare, pair,
};
use crate::domain::eval::rubric::{rubric, score};
use crate::domain::eval::suite_rules::SuiteRef;
use crate::domain::ids::{EventId, RunId, TenantId};
use crate::domain::money::NanoUsd;
use crate::domain::run::record::JudgePin;
use crate::ports::{EventSink, Exhausted, Exhibition, Judgement, Meter, Unrecorded};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::events::Event;
use crate::service::access::Caller;
use crate::service::fault::internal;

impl Runs {
    /// Has the judge of a suite's rubrics judge what people have scored, and keeps how well they agree.
    ///
    /// # Errors
    /// `validation_error` for a suite that is not there or samples that cannot be used; `conflict` without a judge, or where it
    /// gave no verdict on a sample.
    pub async fn calibrate(
        &self,
        caller: &Caller,
        suite: &SuiteRef,
        samples: &[Sample],
        allow_few: bool,
    ) -> Result<Calibration, Problem> {
        let model = self.models.judge().ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "no judge is configured on this host; set `[judge]` in its configuration",
            )
        })?;
        let unknown = || Problem::validation("suite", "no such suite is installed for this tenant");
        let found = self
            .store
            .suite(&caller.tenant, &suite.suite_id, &suite.version)
            .await
            .map_err(|cause| internal(&cause))?
            .ok_or_else(unknown)?;
        let document = self.library.suite(&found.digest).await;
        let document = document
            .map_err(|cause| internal(&cause))?
            .ok_or_else(unknown)?;
        let unusable = |fault: Unusable| Problem::validation("samples", fault.to_string());
        let paired = pair(&document, samples, allow_few).map_err(unusable)?;
        let judge = JudgePin::of(&model.pin(), &document)
            .ok_or_else(|| Problem::validation("suite", "the suite has no rubrics"))?;

        if paired.len() < MIN_SAMPLES {
            self.spares_a_better_one(caller, &judge).await?;
        }
        let run = RunId::from(self.ids.mint("calibration"));
        let account = Account::default();
        let judging = paired.iter().map(|(sample, task)| {
            let exhibition = Exhibition {
                tenant: &caller.tenant,
                run: &run,
                task: &task.task_id,
                input: &task.input,
                output: &sample.output,
                rubric: rubric(task).unwrap_or_default(),
                model: &model,
            };
            self.judge.judge(exhibition, &account, &account)
        });
        let judgements = join_all(judging).await;
        let mut scored = Vec::with_capacity(paired.len());
        for ((sample, task), judgement) in paired.iter().zip(judgements) {
            match judgement {
                Judgement::Judged { met } => {
                    scored.push((*sample, score(rubric(task).unwrap_or_default(), &met)));
                }
                Judgement::Unjudged { reason } => {
                    return Err(Problem::new(
                        ErrorCode::Conflict,
                        "the judge gave no verdict on a sample, so nothing can be said of it; try again",
                    )
                    .with("item", sample.item.as_str())
                    .with("reason", reason));
                }
            }
        }
        let now = self.clock.now();
        let calibration =
            compare(judge, &document, &scored, account.spent(), now).map_err(unusable)?;
        let decision = self.calibrated(caller, &calibration);
        self.store
            .keep_calibration(&caller.tenant, &calibration, &decision)
            .await
            .map_err(|cause| internal(&cause))?;
        Ok(calibration)
    }

    /// A first look does not take the place of what gates go by.
    async fn spares_a_better_one(&self, caller: &Caller, judge: &JudgePin) -> Result<(), Problem> {
        let kept = self.store.calibration(&caller.tenant, &judge.identity);
        let kept = kept.await.map_err(|cause| internal(&cause))?;
        let now = self.clock.now();
        match kept.filter(|kept| kept.samples >= MIN_SAMPLES && kept.valid_until > now) {
            None => Ok(()),
            Some(kept) => Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "this judge was compared on {} samples, and that counts until {}; fewer than {MIN_SAMPLES} would take its \
                     place: send more",
                    kept.samples, kept.valid_until
                ),
            )
            .with("field", "samples")),
        }
    }

    /// The newest calibration of every judge of a tenant.
    ///
    /// # Errors
    /// A fault of ours.
    pub async fn calibrations(&self, tenant: &TenantId) -> Result<Vec<Calibration>, Problem> {
        let found = self.store.calibrations(tenant).await;
        found.map_err(|cause| internal(&cause))
    }

    fn calibrated(&self, caller: &Caller, calibration: &Calibration) -> Decision {
        Decision {
            at: calibration.calibrated_at,
            principal: caller.principal.clone(),
            action: "judge:calibrate".to_owned(),
            resource: calibration.judge.identity.clone(),
            outcome: Outcome::Done,
            reasons: vec![format!("spearman {:.6}", calibration.spearman)],
            decided_on: None,
            run_id: None,
        }
    }
}

/// What is paid for outside of any run. Nothing is recorded: samples are content.
#[derive(Default)]
struct Account(Mutex<NanoUsd>);

impl Account {
    fn spent(&self) -> NanoUsd {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Meter for Account {
    async fn reserve(&self, _: Estimate) -> Result<(), Exhausted> {
        Ok(())
    }

    fn settle(&self, _: Estimate, used: Estimate) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = *spent + used.cost;
    }

    fn call_tool(&self) -> Result<(), Exhausted> {
        Ok(())
    }

    fn retry(&self) -> Result<(), Exhausted> {
        Ok(())
    }
}

#[async_trait]
impl EventSink for Account {
    fn emit(&self, _: Event, _: Option<&EventId>) -> EventId {
        EventId::from("evt_calibration")
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        Ok(())
    }
}
