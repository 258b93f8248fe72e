//! Works on assessments (AAAF S7): stress test → collect → score → calibrate → badge. Each replica
//! works on one at a time, under a lease.
//!
//! Scores depend only on the evidence and the request, so lost work is repeated. An assessment
//! whose work is lost twice fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::ports::assessments::{AssessmentClaim, AssessmentOutcome, AssessmentRecord};
use crate::ports::badges::BadgeRecord;
use crate::rules::assessment::Uncertified;
use crate::rules::assessment::calibration::{BadgeDecision, Calibration, Scores, calibrate};
use crate::rules::badge::validity::Validity;
use crate::rules::scoring::interval::compare;
use crate::rules::{Config, Insufficient, Rating, Scored, Scoring, ScoringError};
use crate::service::assessments::collection::{CollectError, Collected, EvidenceScope, collect};
use crate::service::assessments::{insufficient_evidence, needs_review, score_on_thread};
use crate::service::badges::is_rejected;
use crate::service::badges::issuer::{BadgeSink, Issuer, IssuerError};
use crate::service::stress_tests::{StressTestRunner, StressTestState};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::{chain, internal};
use touchstone_host::service::jobs::{Failure, Leased};
use touchstone_host::store::database::Database;
use touchstone_kit::error::Problem;

/// Maximum number of claims of one assessment: the first and one retry.
const MAX_CLAIMS: i64 = 2;

/// Maximum number of polls between two checks of a running stress test.
const MAX_WAIT_POLLS: u32 = 15;

/// How a replica works on assessments.
#[derive(Clone, Copy, Debug)]
pub struct AssessorSettings {
    /// Duration of a lease; much longer than any assessment takes.
    pub lease: Duration,
    /// Longest wait between two checks of the queue.
    pub poll: Duration,
}

impl Default for AssessorSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(120),
            poll: Duration::from_secs(1),
        }
    }
}

/// How work on an assessment was left.
enum WorkState {
    Ended,
    Waiting,
}

/// The worker that claims assessments for one replica.
pub struct Assessor {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    issuer: Arc<Issuer>,
    owner: String,
    settings: AssessorSettings,
    stress_tests: StressTestRunner,
}

/// The finding of an assessment, and the badge it may issue.
struct Assessed {
    outcome: AssessmentOutcome,
    draft: Option<BadgeRecord>,
}

struct Completion<'a> {
    store: &'a Database,
    claim: &'a AssessmentClaim,
    outcome: &'a AssessmentOutcome,
    now: Timestamp,
}

impl Completion<'_> {
    async fn store_with(&self, badge: Option<&BadgeRecord>) -> Result<(), StoreError> {
        let (id, fence) = (&self.claim.record.id, self.claim.fence);
        store::assessments::end_assessment(self.store, id, fence, self.outcome, badge, self.now)
            .await
    }
}

#[async_trait]
impl BadgeSink for Completion<'_> {
    async fn store(&self, badge: &BadgeRecord) -> Result<(), StoreError> {
        self.store_with(Some(badge)).await
    }
}

impl From<AssessmentOutcome> for Assessed {
    fn from(outcome: AssessmentOutcome) -> Self {
        Self {
            outcome,
            draft: None,
        }
    }
}

#[async_trait]
impl Leased for Assessor {
    const NAME: &'static str = "assessments";

    const AT_ONCE: usize = 1;

    type Claim = AssessmentClaim;

    fn store(&self) -> &Database {
        &self.store
    }

    fn poll(&self) -> Duration {
        self.settings.poll
    }

    async fn claim(&self) -> Result<Option<AssessmentClaim>, StoreError> {
        let own = self
            .stress_tests
            .command()
            .map(|command| command.assessments());
        if own.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let (lease, now) = (self.settings.lease, self.clock.now());
        store::assessments::claim_assessment(&self.store, &self.owner, own.as_deref(), lease, now)
            .await
    }

    fn id(claim: &AssessmentClaim) -> &str {
        &claim.record.id
    }

    async fn perform(&self, claim: AssessmentClaim, _: &CancellationToken) -> Result<(), Failure> {
        let assessment_id = &claim.record.id;
        let fence = claim.fence.0;
        debug!(assessment_id, claim = fence, "working on an assessment");
        if let WorkState::Ended = self.process(&claim).await? {
            info!(assessment_id, "an assessment has ended");
        }
        Ok(())
    }
}

impl Assessor {
    /// Creates a worker; `owner` must be unique among all replicas and starts.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        issuer: Arc<Issuer>,
        owner: String,
        settings: AssessorSettings,
        stress_tests: StressTestRunner,
    ) -> Arc<Self> {
        Arc::new(Self {
            stress_tests,
            store,
            clock,
            issuer,
            owner,
            settings,
        })
    }

    async fn process(&self, claim: &AssessmentClaim) -> Result<WorkState, StoreError> {
        let (record, fence) = (&claim.record, claim.fence);
        let state = match &record.request.stress_test {
            Some(stress) if claim.attempts <= MAX_CLAIMS => {
                self.stress_tests.advance(record, stress).await?
            }
            _ => StressTestState::Done,
        };
        let assessed = if claim.attempts > MAX_CLAIMS {
            failed(
                "INTERNAL_ERROR",
                "the assessment was interrupted twice; request another assessment",
                json!({}),
            )
            .into()
        } else {
            match state {
                StressTestState::Running => {
                    // A later check continues with it; other assessments proceed in the meantime.
                    let wait = self.settings.poll * polls_to_wait(claim);
                    store::assessments::park_assessment(&self.store, &record.id, fence, wait)
                        .await?;
                    return Ok(WorkState::Waiting);
                }
                StressTestState::Failed(outcome) => (*outcome).into(),
                StressTestState::Done => self.assess(record).await?,
            }
        };
        if let WorkState::Waiting = self.end(claim, &assessed).await? {
            return Ok(WorkState::Waiting);
        }
        // Wakes requests that wait for the end of an assessment.
        self.store.notify_work().await;
        Ok(WorkState::Ended)
    }

    /// Ends an assessment and stores its badge in one transaction. If no badge can be issued, the
    /// operator has to fix the cause, and the scores are stored anyway.
    async fn end(
        &self,
        claim: &AssessmentClaim,
        assessed: &Assessed,
    ) -> Result<WorkState, StoreError> {
        let completion = Completion {
            store: self.store.as_ref(),
            claim,
            outcome: &assessed.outcome,
            now: self.clock.now(),
        };
        let Some(draft) = &assessed.draft else {
            return completion.store_with(None).await.map(|()| WorkState::Ended);
        };
        if let AssessmentOutcome::Scored {
            calibration: Some(calibration),
            ..
        } = &assessed.outcome
            && calibration.badge == BadgeDecision::Withheld
        {
            return completion
                .store_with(Some(draft))
                .await
                .map(|()| WorkState::Ended);
        }
        match self.issuer.issue(draft, &completion).await {
            Ok(_) => Ok(WorkState::Ended),
            Err(IssuerError::Store(cause)) => Err(cause),
            // The organization was suspended in the meantime. The assessment waits until it is
            // active.
            Err(IssuerError::OrganizationInactive) => {
                let (id, wait) = (&claim.record.id, self.settings.poll);
                store::assessments::park_assessment(&self.store, id, claim.fence, wait).await?;
                Ok(WorkState::Waiting)
            }
            Err(cause) => {
                let id = &claim.record.id;
                error!(
                    assessment_id = id,
                    cause = chain(&cause),
                    "cannot issue a badge"
                );
                completion.store_with(None).await.map(|()| WorkState::Ended)
            }
        }
    }

    async fn assess(&self, record: &AssessmentRecord) -> Result<Assessed, StoreError> {
        let assessment = &record.request.assessment;
        let broken = |_| StoreError::Inconsistent {
            table: "rating_assessment",
            column: "asked",
        };
        let config = Config::read(&record.request.config).map_err(broken)?;
        let scope = EvidenceScope {
            organization: record.organization,
            agent: record.agent_number,
            request: &record.request,
            known_at: None,
        };
        let scoring = Scoring::new(assessment.clone(), config.clone());
        let collected = collect(self.store.as_ref(), scope, scoring, Scoring::add).await;
        let Collected {
            state: scoring,
            recorded_until: until,
            ..
        } = match collected {
            Ok(collected) => collected,
            Err(CollectError::Store(cause)) => return Err(cause),
            Err(cause @ CollectError::TooMany) => {
                return Ok(failed("INVALID_REQUEST", &cause.to_string(), json!({})).into());
            }
            Err(cause) => return Ok(failed_by(&internal(&cause)).into()),
        };
        let (scored, mut intervals) = match score_on_thread(move || scoring.finish_with_intervals())
            .await
        {
            Ok(Ok(scored)) => scored,
            Ok(Err(ScoringError::Insufficient(cause))) => return Ok(insufficient(&cause).into()),
            Ok(Err(cause)) => return Ok(failed_by(&internal(&cause)).into()),
            Err(problem) => return Ok(failed_by(&problem).into()),
        };
        let (mut calibration, mut draft, mut uncertified) = (None, None, None);
        if let Scored::Rating(rating) = &scored {
            let before = store::assessments::last_rating(
                &self.store,
                record.agent_number,
                record.created_at,
            )
            .await?;
            let previous = self.accepted_before(before.clone()).await?;
            let compared = calibrated(record, previous.as_ref(), rating, &config)?;
            calibration = Some(compared.under_policy(config.rules.review_policy));
            if let Some(AssessmentOutcome::Scored {
                intervals: then, ..
            }) = before.as_ref().and_then(|it| it.outcome.as_ref())
            {
                compare(&mut intervals, then);
            }
            match self.uncertified(record, &config).await? {
                Some(why) => uncertified = Some(why.to_string()),
                None => draft = self.drafted(record, rating, &config).await?,
            }
        }
        let result = serde_json::to_value(&scored).map_err(|_| StoreError::Inconsistent {
            table: "rating_assessment",
            column: "finding",
        })?;
        Ok(Assessed {
            outcome: AssessmentOutcome::Scored {
                result,
                evidence_until: until,
                calibration,
                uncertified,
                review: None,
                intervals,
            },
            draft,
        })
    }

    /// `last`, or the newest rating before it that needs no review and was not rejected.
    ///
    /// Compared with a rating that waits for a review or was rejected, the same scores would be
    /// certified by assessing once more.
    async fn accepted_before(
        &self,
        mut last: Option<AssessmentRecord>,
    ) -> Result<Option<AssessmentRecord>, StoreError> {
        while let Some(rating) = &last {
            if !needs_review(rating) && !is_rejected(rating) {
                break;
            }
            let (agent, before) = (rating.agent_number, rating.created_at);
            last = store::assessments::last_rating(&self.store, agent, before).await?;
        }
        Ok(last)
    }

    /// Why nothing is certified, whatever the rating.
    async fn uncertified(
        &self,
        record: &AssessmentRecord,
        config: &Config,
    ) -> Result<Option<Uncertified>, StoreError> {
        let request = &record.request.assessment;
        let since = match request.collected_by(record.created_at, config) {
            Ok(Some(since)) => since,
            Ok(None) => return Ok(None),
            Err(why) => return Ok(Some(why)),
        };
        let (organization, agent) = (record.organization, record.agent_number);
        let collected = store::events::is_collected_by(&self.store, organization, agent, since);
        let days = config.rules.assessment_window_days;
        Ok((!collected.await?).then_some(Uncertified::Collection { days, since }))
    }

    async fn drafted(
        &self,
        record: &AssessmentRecord,
        rating: &Rating,
        config: &Config,
    ) -> Result<Option<BadgeRecord>, StoreError> {
        let validity = Validity::of(record.created_at, config.rules.validity_period_days);
        let Some(Validity { valid_until }) = validity else {
            // The badge would expire after the last representable date.
            return Ok(None);
        };
        let drafted = self
            .issuer
            .draft(record, rating, valid_until, self.clock.now());
        match drafted.await {
            Ok(draft) => Ok(Some(draft)),
            Err(IssuerError::Store(cause)) => Err(cause),
            Err(cause) => {
                error!(
                    assessment_id = record.id,
                    cause = chain(&cause),
                    "the assessment has nothing to certify"
                );
                Ok(None)
            }
        }
    }
}

/// Compares with an earlier rating of the agent, if there is one.
fn calibrated(
    record: &AssessmentRecord,
    before: Option<&AssessmentRecord>,
    rating: &Rating,
    config: &Config,
) -> Result<Calibration, StoreError> {
    let now = Scores::from(rating);
    let delta = config.rules.calibration_delta;
    let scores = |result: &Value| serde_json::from_value::<Scores>(result.clone()).ok();
    match before {
        Some(AssessmentRecord {
            request,
            outcome: Some(AssessmentOutcome::Scored { result, .. }),
            ..
        }) => {
            let inconsistent = || StoreError::Inconsistent {
                table: "rating_assessment",
                column: "finding",
            };
            let then = scores(result).ok_or_else(inconsistent)?;
            let weights = |config: &Value| {
                ["performance_weights", "capability_weights"].map(|axis| config.get(axis).cloned())
            };
            let changed = weights(&request.config) != weights(&record.request.config);
            Ok(calibrate(&then, &now, delta, changed))
        }
        _ => Ok(calibrate(&now, &now, delta, false)),
    }
}

/// Number of polls to wait, which grows: a stress test takes minutes, and other assessments proceed
/// in the meantime.
fn polls_to_wait(claim: &AssessmentClaim) -> u32 {
    let parked = claim.fence.0 - claim.attempts;
    u32::try_from(parked).map_or(1, |it| it.clamp(1, MAX_WAIT_POLLS))
}

fn insufficient(cause: &Insufficient) -> AssessmentOutcome {
    let problem = insufficient_evidence(cause);
    failed(
        Insufficient::CODE,
        &problem.message,
        Value::Object(problem.details),
    )
}

fn failed_by(problem: &Problem) -> AssessmentOutcome {
    failed("INTERNAL_ERROR", &problem.message, json!({}))
}

fn failed(code: &str, message: &str, details: Value) -> AssessmentOutcome {
    AssessmentOutcome::Failed {
        code: code.to_owned(),
        message: message.to_owned(),
        details,
    }
}
