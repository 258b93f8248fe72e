//! Assessments: ordered, read and reviewed. The [assessor] does the work on them.

pub mod assessor;
pub mod collection;
pub mod schedule;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use moka::future::Cache;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::ports::Position;
use crate::ports::agents::{AgentNumber, AgentRecord};
use crate::ports::assessments::{
    AssessmentFilter, AssessmentOutcome, AssessmentRecord, AssessmentRequest, Reviewed, Stage,
};
use crate::ports::badges::{BadgeRecord, BadgeState, BadgeSummary};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::assessment::order::{Order, Review, Verdict};
use crate::rules::badge::IssueError;
use crate::rules::badge::validity::Validity;
use crate::rules::{Assessment, Config, Insufficient, Kind, Scoring, ScoringError};
use crate::service::assessments::collection::{CHUNK_EVENTS, CollectError, EvidenceScope, collect};
use crate::service::badges::issuer::{BadgeSink, IssuerError};
use crate::service::{Member, Ratings, config, is_id, not_found, stress_tests};
use crate::store;
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Progress of collecting evidence about an agent: for each axis, the number of tasks so far and
/// the number needed.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The window that is counted.
    pub window: Assessment,
    /// Tasks that count for performance: so far, needed.
    pub performance: (usize, usize),
    /// Tasks that count for capability: so far, needed.
    pub capability: (usize, usize),
}

/// How long the progress of an agent with more than [`CHUNK_EVENTS`] events in its window is
/// cached.
const PROGRESS_TTL: std::time::Duration = std::time::Duration::from_secs(30);
/// Maximum number of agents with cached progress.
const MAX_CACHED_PROGRESS: u64 = 10_000;
/// Maximum number of windows that are counted at the same time.
const MAX_CONCURRENT_COUNTS: usize = 2;

/// Counts progress. Large windows are folded once per [`PROGRESS_TTL`], and few at the same time.
pub(super) struct ProgressCounter {
    /// By agent and revision of the organization, whose settings define the needed numbers.
    recent: Cache<(AgentNumber, i64), Progress>,
    permits: Semaphore,
}

impl Default for ProgressCounter {
    fn default() -> Self {
        Self {
            recent: Cache::builder()
                .max_capacity(MAX_CACHED_PROGRESS)
                .time_to_live(PROGRESS_TTL)
                .build(),
            permits: Semaphore::new(MAX_CONCURRENT_COUNTS),
        }
    }
}

/// Upper bound of the scoring time, for any evidence.
const MAX_SCORING_TIME: SignedDuration = SignedDuration::from_mins(2);

impl Ratings {
    /// Orders an assessment; a worker claims it.
    ///
    /// # Errors
    /// `validation_error`; `not_found` for an unknown agent; `INSUFFICIENT_EVIDENCE` where no
    /// stress test can add what is missing; `ASSESSMENT_IN_PROGRESS`.
    pub async fn order(&self, member: &Member, order: &Order) -> Result<AssessmentRecord, Problem> {
        let agent = self.agent(member, &order.agent).await?;
        if let Some(hindrance) = agent.status().hinders() {
            return Err(Problem::new(ErrorCode::Conflict, hindrance));
        }
        let (now, id) = (self.clock.now(), self.fresh_id());
        let config = config::of(&member.organization)?;
        let assessment = order.plan(&id, &config, now)?;
        let organization = member.organization.number;
        self.collect_runs_for(member, &agent, assessment.window_start)
            .await?;
        let stress_test_omitted = order.omits_stress_test(&agent.profile);
        let stress_test = match order.stress_test && stress_test_omitted.is_none() {
            true => {
                let only = order.dimension;
                Some(self.stress_test(member, &agent, &config, only).await?)
            }
            false => None,
        };
        let snapshot = serde_json::to_value(&config).map_err(|cause| internal(&cause))?;
        let request = AssessmentRequest {
            assessment,
            config: snapshot,
            triggered_by: member.caller.principal.clone(),
            weighs_sources: true,
            stress_test,
            stress_test_omitted: stress_test_omitted.map(str::to_owned),
            agent_version: agent.profile.rated_version().map(str::to_owned),
            command: self.runs.command().map(|it| it.name().to_owned()),
        };
        // A stress test may still add the missing evidence.
        if request.stress_test.is_none() {
            let enough = self
                .require_evidence(&agent, organization, &request, config)
                .await;
            enough.map_err(|problem| match stress_test_omitted {
                Some(why) => problem.with("stress_test_omitted", why),
                None => problem,
            })?;
        }
        let record = AssessmentRecord {
            id,
            organization,
            agent_number: agent.number,
            agent: agent.id,
            stage: Stage::Pending,
            request,
            outcome: None,
            badge: None,
            created_at: now,
            started_at: None,
            ended_at: None,
        };
        match store::assessments::add_assessment(&self.store, &record).await {
            Ok(()) => {}
            Err(StoreError::Exists(_)) => {
                let refusal = Problem::new(
                    ErrorCode::AssessmentInProgress,
                    "an assessment of this agent is pending or in progress; wait until it ends",
                );
                return Err(match self.take_over(&record).await? {
                    Some(id) => refusal.with("carried_on", id),
                    None => refusal,
                });
            }
            Err(cause) => return Err(internal(&cause)),
        }
        if let Some(command) = self.runs.command() {
            command.add_assessment(record.id.clone());
        }
        self.store.notify_work().await;
        Ok(record)
    }

    /// Takes over the assessment that blocks a new one, if a command created it: that command may
    /// have ended, and other commands do not claim it. Returns its id; `None` in a host.
    async fn take_over(&self, other: &AssessmentRecord) -> Result<Option<String>, Problem> {
        let Some(command) = self.runs.command() else {
            return Ok(None);
        };
        for stage in [Stage::Pending, Stage::InProgress] {
            let filter = AssessmentFilter {
                agent: Some(other.agent_number),
                stage: Some(stage),
            };
            let found =
                store::assessments::assessments(&self.store, other.organization, filter, None, 1);
            let found = found.await.map_err(|cause| internal(&cause))?;
            let of_command = |it: &AssessmentRecord| it.request.command.is_some();
            if let Some(found) = found.into_iter().find(of_command) {
                command.add_assessment(found.id.clone());
                self.store.notify_work().await;
                return Ok(Some(found.id));
            }
        }
        Ok(None)
    }

    /// Rejects an assessment without sufficient evidence.
    async fn require_evidence(
        &self,
        agent: &AgentRecord,
        organization: OrganizationNumber,
        request: &AssessmentRequest,
        config: Config,
    ) -> Result<(), Problem> {
        let scope = EvidenceScope {
            organization,
            agent: agent.number,
            request,
            known_at: None,
        };
        let scoring = Scoring::new(request.assessment.clone(), config);
        let collected = collect(self.store.as_ref(), scope, scoring, Scoring::add).await;
        let scoring = collected.map_err(collection_problem)?.state;
        match score_on_thread(move || scoring.finish()).await? {
            Ok(_) => Ok(()),
            Err(ScoringError::Insufficient(insufficient)) => {
                Err(insufficient_evidence(&insufficient))
            }
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// How much of the evidence needed for an assessment over the usual window exists now. With
    /// more than 5,000 events the answer may be 30 seconds old.
    ///
    /// # Errors
    /// `not_found`; `validation_error` for more evidence than an assessment reads.
    pub async fn progress(&self, member: &Member, agent: &str) -> Result<Progress, Problem> {
        let agent = self.agent(member, agent).await?;
        let key = (agent.number, member.organization.revision);
        if let Some(recent) = self.counting.recent.get(&key).await {
            return Ok(recent);
        }
        let permit = self.counting.permits.acquire().await;
        let _permit = permit.map_err(|cause| internal(&cause))?;
        // The previous holder of the permit may have counted the same window.
        if let Some(recent) = self.counting.recent.get(&key).await {
            return Ok(recent);
        }
        let config = config::of(&member.organization)?;
        let rules = config.rules.clone();
        let window_end = self.clock.now();
        let days = SignedDuration::from_hours(24 * i64::from(rules.assessment_window_days));
        let assessment = Assessment {
            id: None,
            kind: Kind::PassiveOnly,
            window_start: window_end.checked_sub(days).unwrap_or(Timestamp::MIN),
            window_end,
        };
        let request = AssessmentRequest {
            assessment: assessment.clone(),
            config: Value::Null,
            triggered_by: member.caller.principal.clone(),
            weighs_sources: true,
            stress_test: None,
            stress_test_omitted: None,
            agent_version: None,
            command: None,
        };
        let scope = EvidenceScope {
            organization: member.organization.number,
            agent: agent.number,
            request: &request,
            known_at: None,
        };
        let scoring = Scoring::new(assessment.clone(), config);
        let collected = collect(self.store.as_ref(), scope, scoring, Scoring::add).await;
        let collected = collected.map_err(collection_problem)?;
        let (performance, capability) = collected.state.tasks();
        let progress = Progress {
            window: assessment,
            performance: (performance, rules.minimum_tasks_performance),
            capability: (capability, rules.minimum_tasks_capability),
        };
        if collected.events > CHUNK_EVENTS {
            self.counting.recent.insert(key, progress.clone()).await;
        }
        Ok(progress)
    }

    /// An assessment of the organization.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn assessment(&self, member: &Member, id: &str) -> Result<AssessmentRecord, Problem> {
        if !is_id(id) {
            return Err(not_found("assessment"));
        }
        let found =
            store::assessments::assessment(&self.store, member.organization.number, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        found.ok_or_else(|| not_found("assessment"))
    }

    /// Assessments of the organization in the order of creation; only those of `agent` if it is
    /// set.
    ///
    /// # Errors
    /// The store failed.
    pub async fn assessments(
        &self,
        member: &Member,
        agent: Option<&str>,
        stage: Option<Stage>,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AssessmentRecord>, Problem> {
        let mut filter = AssessmentFilter { agent: None, stage };
        if let Some(id) = agent {
            // An unknown agent, or an agent of another organization, has nothing to list.
            let Some(number) = self.agent_number(member, id).await? else {
                return Ok(Vec::new());
            };
            filter.agent = Some(number);
        }
        let organization = member.organization.number;
        let found =
            store::assessments::assessments(&self.store, organization, filter, after, limit);
        found.await.map_err(|cause| internal(&cause))
    }

    /// Decides about an assessment that waits for a review (AAAF S8), as a member of the
    /// organization or its auditor.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for the principal that ordered the assessment and for agents;
    /// `conflict` if there is nothing to decide.
    pub async fn review(
        &self,
        member: &Member,
        id: &str,
        review: Review,
    ) -> Result<AssessmentRecord, Problem> {
        let mut assessment = self.assessment(member, id).await?;
        let principal = &member.caller.principal;
        if *principal == assessment.request.triggered_by || self.is_agents_key(member).await? {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "an assessment must not be reviewed by an agent or by the principal that \
                requested it; use another principal's key",
            ));
        }
        if !needs_review(&assessment) {
            return Err(no_review_due());
        }
        let Some(AssessmentOutcome::Scored {
            review: reviewed, ..
        }) = &mut assessment.outcome
        else {
            return Err(no_review_due());
        };
        let auditor = member.auditor();
        *reviewed = Some(Reviewed {
            decision: review.verdict,
            by: principal.clone(),
            auditor_tenant: auditor.as_ref().map(|it| it.tenant.clone()),
            at: self.clock.now(),
            reason: review.reason,
        });
        let Some(outcome) = &assessment.outcome else {
            return Err(no_review_due());
        };
        let organization = member.organization.number;
        let withheld = store::badges::badge_of(&self.store, organization, id).await;
        let withheld = withheld.map_err(|cause| internal(&cause))?;
        let action = match review.verdict {
            Verdict::Approve => "assessments:approve",
            Verdict::Reject => "assessments:reject",
        };
        let mut decision = self.audit_entry(&member.caller, action, id);
        if let Some(auditor) = auditor {
            decision.principal = auditor.external_name();
        }
        let record = ReviewRecord {
            store: self.store.as_ref(),
            assessment: &assessment,
            reviewed: outcome,
            tenant: &member.organization.tenant,
            decision: &decision,
        };
        let decided = self.conclude(withheld, review.verdict, &record).await;
        match decided {
            Ok(badge) => {
                assessment.badge = badge.map(|it| BadgeSummary {
                    id: it.badge.id.to_string(),
                    state: it.state,
                });
                Ok(assessment)
            }
            Err(IssuerError::Store(StoreError::Stale)) => Err(no_review_due()),
            Err(IssuerError::IssueError(IssueError::Validity)) => Err(Problem::new(
                ErrorCode::Conflict,
                "a badge of this assessment would already have expired; request another \
                assessment",
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// Records the review and, if a badge is withheld for it, issues or rejects the badge.
    async fn conclude(
        &self,
        withheld: Option<BadgeRecord>,
        verdict: Verdict,
        record: &ReviewRecord<'_>,
    ) -> Result<Option<BadgeRecord>, IssuerError> {
        match (withheld, verdict) {
            (Some(draft), Verdict::Approve) => {
                let issued = self.badges.issuer.issue(&draft, record).await;
                issued.map(Some)
            }
            (Some(mut draft), Verdict::Reject) => {
                draft.state = BadgeState::Rejected;
                let kept = record.store_with(Some(&draft)).await;
                kept.map(|()| Some(draft)).map_err(IssuerError::from)
            }
            (None, _) => {
                let kept = record.store_with(None).await;
                kept.map(|()| None).map_err(IssuerError::from)
            }
        }
    }
}

fn no_review_due() -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        "this assessment is not waiting for a review, or was already reviewed",
    )
}

/// A review to record.
struct ReviewRecord<'a> {
    store: &'a Database,
    assessment: &'a AssessmentRecord,
    reviewed: &'a AssessmentOutcome,
    tenant: &'a TenantId,
    decision: &'a Decision,
}

impl ReviewRecord<'_> {
    async fn store_with(&self, badge: Option<&BadgeRecord>) -> Result<(), StoreError> {
        store::assessments::review_assessment(
            self.store,
            self.assessment,
            self.reviewed,
            badge,
            self.tenant,
            self.decision,
        )
        .await
    }
}

#[async_trait]
impl BadgeSink for ReviewRecord<'_> {
    async fn store(&self, badge: &BadgeRecord) -> Result<(), StoreError> {
        self.store_with(Some(badge)).await
    }
}

/// The latest time at which an assessment in progress ends, unless hosts are down or other
/// assessments are queued before it.
pub fn estimated_completion(assessment: &AssessmentRecord) -> Option<Timestamp> {
    let takes = match assessment.request.stress_test {
        Some(_) => stress_tests::MAX_DURATION,
        None => MAX_SCORING_TIME,
    };
    let ahead = matches!(assessment.stage, Stage::Pending | Stage::InProgress);
    let from = assessment.created_at;
    ahead.then(|| from.checked_add(takes).unwrap_or(Timestamp::MAX))
}

/// When the badge of an assessment expires, if one is issued.
pub fn valid_until(assessment: &AssessmentRecord) -> Option<Timestamp> {
    let badge = assessment.badge.as_ref()?;
    let days = assessment.request.config.get("validity_period_days")?;
    let days = u32::try_from(days.as_u64()?).ok()?;
    let validity = Validity::of(assessment.created_at, days)?;
    badge.state.is_public().then_some(validity.valid_until)
}

/// Whether an assessment waits for a review before it certifies anything.
pub fn needs_review(assessment: &AssessmentRecord) -> bool {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored {
            calibration: Some(calibration),
            review: None,
            ..
        }) => calibration.human_review_required,
        _ => false,
    }
}

/// Runs scoring on a blocking thread, so that other requests are served in the meantime.
///
/// # Errors
/// The thread failed.
pub(super) async fn score_on_thread<T: Send + 'static>(
    finish: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(finish)
        .await
        .map_err(|cause| internal(&cause))
}

/// The problem for insufficient evidence.
pub(super) fn insufficient_evidence(insufficient: &Insufficient) -> Problem {
    let mut problem = Problem::new(ErrorCode::InsufficientEvidence, insufficient.to_string());
    if let Value::Object(details) = json!(insufficient) {
        problem.details = details;
    }
    problem
}

pub(super) fn collection_problem(cause: CollectError) -> Problem {
    match cause {
        CollectError::TooMany => Problem::validation("window_start", cause.to_string()),
        CollectError::Override(fault) => Problem::validation("overrides", fault.to_string()),
        CollectError::Thread(cause) => internal(&cause),
        CollectError::Store(cause) => internal(&cause),
    }
}
