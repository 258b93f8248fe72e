//! Judge calibrations: starting an attempt, and showing its progress.

pub mod work;

use std::sync::Arc;

use crate::ports::calibrations::FoundAttempt;
use crate::rules::eval::rubric::Rubrics;
use crate::rules::eval::rubric::attempt::{Attempt, Status, USUAL_MAX_COST, likely_cost};
use crate::rules::eval::rubric::calibration::{Calibration, MIN_SAMPLES, Sample, Unusable, pair};
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::suite_rules::SuiteRef;
use crate::rules::run::record::{JudgePin, ModelPin};
use crate::rules::run::request::prices::PRICE_UNKNOWN;
use crate::service::runs::calibrations::work::{LEASE, Work};
use crate::service::runs::{Runs, unreadable_suite};
use crate::store;
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_host::ports::idempotency::{IdempotencyClaim, IdempotencyCompletion};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::AgentEvalSuite;
use touchstone_packs::store as pack_store;

/// The request.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The suite whose rubrics are applied.
    pub suite: SuiteRef,
    /// The samples scored by people.
    pub samples: Vec<Sample>,
    /// Whether few samples are accepted, for a first impression.
    pub allow_few: bool,
    /// Cost limit; `None` for the default.
    pub max_cost: Option<NanoUsd>,
}

impl Runs {
    /// Starts a calibration: the judge of a suite's rubrics judges samples that people have scored.
    /// With a claim, the idempotency record is completed in the same transaction.
    ///
    /// # Errors
    /// `validation_error` for an unknown suite, unusable samples or a cost limit that is too low;
    /// `conflict` without a judge, or while another calibration of the tenant is in progress.
    pub async fn calibrate(
        &self,
        caller: &Caller,
        request: Comparison,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Attempt, Problem> {
        let models = self.judges();
        if models.is_empty() {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "no judge is configured on this host; set `[judge]` in its configuration",
            ));
        }
        let (document, scoring) = self.judged_suite(&caller.tenant, &request.suite).await?;
        let paired = pair(
            &document,
            scoring.as_deref(),
            &request.samples,
            request.allow_few,
        );
        let paired = paired.map_err(unusable)?;
        let judge = JudgePin::of_all(
            &self.judging_models(),
            &Rubrics::of(&document.tasks),
            scoring.as_deref(),
        );
        let judge = judge.ok_or_else(|| {
            Problem::validation("suite", "the suite has no rubrics and no judged assertions")
        })?;
        let bound = bound(request.max_cost, self.limits.max_cost_per_suite)?;
        let mut likely = Some(NanoUsd::ZERO);
        for model in &models {
            let price = model.model.info().price.as_ref().map(ModelPrice::tokens);
            if price.is_none() && request.max_cost.is_some() {
                return Err(unpriced(&judge.model));
            }
            let cost = price.map(|price| likely_cost(&paired, scoring.as_deref(), price));
            likely = likely.zip(cost).map(|(sum, cost)| sum + cost);
        }
        if let Some(likely) = likely {
            check_cost(likely, bound)?;
        }
        if paired.len() < MIN_SAMPLES {
            self.check_replacement(caller, &judge).await?;
        }
        let attempt = Attempt {
            calibration_id: self.ids.mint("calibration"),
            status: Status::Running,
            judge,
            suite: document.reference(),
            samples: paired.len(),
            judged: 0,
            cost_usd: likely.map(|_| NanoUsd::ZERO),
            max_cost_usd: bound,
            started_at: self.clock.now(),
            ended_at: None,
            calibration: None,
            failure: None,
        };
        let completes = claim.map(|claim| IdempotencyCompletion {
            claim: claim.clone(),
            status: 202,
            body: serde_json::json!(attempt).to_string().into(),
        });
        let leased_at = self.clock.uptime();
        let begun = store::calibrations::begin_attempt(
            &self.store,
            &caller.tenant,
            &attempt,
            LEASE,
            completes.as_ref(),
        )
        .await;
        begun.map_err(|cause| match cause {
            StoreError::Exists(_) => Problem::new(
                ErrorCode::Conflict,
                "another calibration of this tenant is in progress; wait for its end",
            ),
            cause => internal(&cause),
        })?;
        self.attempts.execute(Work {
            store: self.store.clone(),
            clock: self.clock.clone(),
            models,
            caller: caller.clone(),
            document,
            scoring,
            samples: request.samples,
            allow_few: request.allow_few,
            attempt: attempt.clone(),
            leased_at,
        });
        Ok(attempt)
    }

    /// A suite with its scoring document.
    async fn judged_suite(
        &self,
        tenant: &TenantId,
        suite: &SuiteRef,
    ) -> Result<(Arc<AgentEvalSuite>, Option<Arc<ScoringDocument>>), Problem> {
        let unknown = || Problem::validation("suite", "no such suite is installed for this tenant");
        let (id, version) = (&suite.suite_id, &suite.version);
        let found = pack_store::inventory::suite(&self.store, tenant, id, version).await;
        let found = found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(unknown)?;
        let document = self.library.suite(&found.digest).await;
        let document = document.map_err(unreadable_suite)?;
        let scoring = match &found.scoring {
            Some(digest) => {
                let scoring = self.library.scoring(digest).await;
                Some(scoring.map_err(|cause| internal(&cause))?)
            }
            None => None,
        };
        Ok((document.ok_or_else(unknown)?, scoring))
    }

    /// The progress or result of an attempt.
    ///
    /// # Errors
    /// `not_found`, also for an attempt that is no longer stored.
    pub async fn calibration_attempt(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Attempt, Problem> {
        let found = store::calibrations::find_attempt(&self.store, tenant, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let FoundAttempt { mut attempt, held } =
            found.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such calibration"))?;
        if attempt.status == Status::Running && !held {
            attempt.status = Status::Failed;
            attempt.failure = Some(work::interrupted().envelope());
        }
        Ok(attempt)
    }

    /// Stops the attempts in this process, and lets none start.
    pub async fn stop_calibrating(&self) {
        self.attempts.stop().await;
    }

    /// A calibration with few samples must not replace one that gates rely on.
    async fn check_replacement(&self, caller: &Caller, judge: &JudgePin) -> Result<(), Problem> {
        let kept = store::calibrations::find(&self.store, &caller.tenant, &judge.identity);
        let kept = kept.await.map_err(|cause| internal(&cause))?;
        let now = self.clock.now();
        match kept.filter(|kept| kept.counts_at(now)) {
            None => Ok(()),
            Some(kept) => Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "this judge already has a calibration with {} samples, valid until {}, which \
                     fewer than {MIN_SAMPLES} samples must not replace; send more samples",
                    kept.samples, kept.valid_until
                ),
            )
            .with("field", "samples")),
        }
    }

    /// The newest calibration of every judge of a tenant.
    ///
    /// # Errors
    /// An internal error.
    pub async fn calibrations(&self, tenant: &TenantId) -> Result<Vec<Calibration>, Problem> {
        let found = store::calibrations::list(&self.store, tenant).await;
        found.map_err(|cause| internal(&cause))
    }
}

/// The cost limit of an attempt: the caller's, within the host's limit for a run.
fn bound(requested: Option<NanoUsd>, host: Option<NanoUsd>) -> Result<NanoUsd, Problem> {
    match (requested, host) {
        (Some(requested), Some(host)) if requested > host => Err(Problem::validation(
            "maxCostUsd",
            format!(
                "`maxCostUsd` is above the {:.2} USD that this host allows; lower it, or raise \
                 `limits.max_cost_usd_per_suite` in the host's configuration",
                host.usd()
            ),
        )),
        (Some(requested), _) => Ok(requested),
        (None, host) => Ok(host.map_or(USUAL_MAX_COST, |host| host.min(USUAL_MAX_COST))),
    }
}

fn check_cost(likely: NanoUsd, bound: NanoUsd) -> Result<(), Problem> {
    if likely <= bound {
        return Ok(());
    }
    Err(Problem::validation(
        "maxCostUsd",
        format!(
            "judging all samples costs about {:.2} USD, and `maxCostUsd` is {:.2}: raise it, or \
             send fewer samples",
            likely.usd(),
            bound.usd()
        ),
    ))
}

fn unpriced(judge: &ModelPin) -> Problem {
    Problem::validation(
        "maxCostUsd",
        format!(
            "`maxCostUsd` cannot be enforced, because the price of the judge `{}` is unknown; set \
             `input_usd_per_mtok` and `output_usd_per_mtok` of `[judge]`, or leave `maxCostUsd` out",
            judge.model
        ),
    )
    .with("reason", PRICE_UNKNOWN)
}

fn unusable(fault: Unusable) -> Problem {
    Problem::validation("samples", fault.to_string())
}
