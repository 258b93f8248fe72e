//! Appeals (AAAF S9): a score is challenged and another principal reviews it. Accepted overrides
//! change how the evidence is read. Events are never edited, and only the challenged dimensions are
//! scored again.

pub mod corrections;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::ports::Position;
use crate::ports::appeals::{Amendment, AppealDecision, AppealEffect, AppealRecord, AppealState};
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord, Stage};
use crate::ports::badges::{BadgeRecord, BadgeState, Revocation};
use crate::rules::appeal::filing::{Filing, Ruling};
use crate::rules::appeal::{Override, Rerating, Resolution, is_in_time};
use crate::rules::assessment::calibration::Scores;
use crate::rules::badge::RevocationReason;
use crate::rules::evidence::Entitlement;
use crate::rules::{Config, Kind, Rating, ScoringError};
use crate::service::assessments::collection::{EvidenceScope, collect};
use crate::service::assessments::{collection_problem, insufficient_evidence, needs_review};
use crate::service::badges::issuer::{BadgeSink, IssuerError};
use crate::service::{Member, Ratings, is_id, not_found};
use crate::store;
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Maximum number of appeals of one dimension of an assessment.
const MAX_APPEALS: usize = 3;
/// Maximum number of appeals read per assessment; more than can exist over all dimensions.
const MAX_LISTED: u32 = 1000;

impl Ratings {
    /// Challenges scores of an assessment.
    ///
    /// # Errors
    /// `not_found`; `conflict` for an assessment that certifies nothing; `APPEAL_WINDOW_CLOSED`;
    /// `APPEAL_OPEN`; `conflict` for a dimension that has reached its limit of appeals.
    pub async fn file_appeal(
        &self,
        member: &Member,
        assessment: &str,
        filing: Filing,
    ) -> Result<AppealRecord, Problem> {
        let assessment = self.assessment(member, assessment).await?;
        let (Stage::Completed, Some(ended_at)) = (assessment.stage, assessment.ended_at) else {
            let message = "only a completed assessment can be appealed";
            return Err(Problem::new(ErrorCode::Conflict, message));
        };
        if let Kind::SingleDimension(_) = assessment.request.assessment.kind {
            let message = "an assessment of a single dimension certifies nothing and cannot be \
                appealed; request another assessment";
            return Err(Problem::new(ErrorCode::Conflict, message));
        }
        let now = self.clock.now();
        if !is_in_time(ended_at, now) {
            let message = "an assessment can be appealed for 14 days after completion";
            return Err(Problem::new(ErrorCode::AppealWindowClosed, message)
                .with("completedAt", ended_at.to_string()));
        }
        self.check_appeal_limit(&assessment, &filing).await?;
        let record = AppealRecord {
            id: self.fresh_id(),
            organization: assessment.organization,
            agent: assessment.agent_number,
            assessment: assessment.id,
            state: AppealState::Filed,
            filing,
            filed_by: member.caller.principal.clone(),
            handling: None,
            created_at: now,
            resolved_at: None,
        };
        let decision = self.audit_entry(&member.caller, "appeals:file", &record.id);
        let tenant = &member.organization.tenant;
        match store::appeals::file_appeal(&self.store, &record, tenant, &decision).await {
            Ok(()) => Ok(record),
            Err(StoreError::Exists(_)) => Err(Problem::new(
                ErrorCode::AppealOpen,
                "one of these dimensions already has an open appeal; wait until it is resolved",
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// Limits the appeals of a dimension, whatever their outcome: each one keeps evidence from
    /// being deleted and needs a reviewer.
    async fn check_appeal_limit(
        &self,
        assessment: &AssessmentRecord,
        filing: &Filing,
    ) -> Result<(), Problem> {
        let (organization, id) = (assessment.organization, &assessment.id);
        let earlier =
            store::appeals::appeals(&self.store, organization, id, None, MAX_LISTED).await;
        let earlier = earlier.map_err(|cause| internal(&cause))?;
        let often = filing.dimensions.iter().find(|dimension| {
            let of_it = earlier.iter();
            let of_it = of_it.filter(|it| it.filing.dimensions.contains(dimension));
            of_it.count() >= MAX_APPEALS
        });
        match often {
            None => Ok(()),
            Some(dimension) => Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "{dimension} of this assessment has reached the limit of {MAX_APPEALS} \
                    appeals; request another assessment"
                ),
            )
            .with("dimension", dimension.as_str())
            .with("limit", MAX_APPEALS)),
        }
    }

    /// An appeal of an assessment of the organization.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn appeal(
        &self,
        member: &Member,
        assessment: &str,
        id: &str,
    ) -> Result<AppealRecord, Problem> {
        let assessment = self.assessment(member, assessment).await?;
        if !is_id(id) {
            return Err(not_found("appeal"));
        }
        let organization = member.organization.number;
        let found = store::appeals::appeal(&self.store, organization, &assessment.id, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        found.ok_or_else(|| not_found("appeal"))
    }

    /// The appeals of an assessment of the organization, in the order of filing.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn appeals(
        &self,
        member: &Member,
        assessment: &str,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AppealRecord>, Problem> {
        let assessment = self.assessment(member, assessment).await?;
        let organization = member.organization.number;
        let found =
            store::appeals::appeals(&self.store, organization, &assessment.id, after, limit);
        found.await.map_err(|cause| internal(&cause))
    }

    /// Starts the review of an appeal, accepts it or rejects it.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for the principal that filed it, for an agent, and for grades that
    /// the principal may not give; `conflict` for a resolved appeal; `validation_error` for invalid
    /// overrides; `INSUFFICIENT_EVIDENCE` where overrides leave too little evidence;
    /// `REVIEW_REQUIRED` while the assessment itself waits for a review.
    pub async fn resolve_appeal(
        &self,
        member: &Member,
        assessment: &str,
        id: &str,
        ruling: Ruling,
    ) -> Result<AppealRecord, Problem> {
        let assessment = self.assessment(member, assessment).await?;
        let mut appeal = self.appeal(member, &assessment.id, id).await?;
        let principal = &member.caller.principal;
        if *principal == appeal.filed_by || self.is_agents_key(member).await? {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "an appeal must not be resolved by an agent or by the principal that filed it; \
                use another principal's key",
            ));
        }
        if !appeal.state.is_open() {
            return Err(already_resolved());
        }
        let by = principal.clone();
        let now = self.clock.now();
        let handled = match ruling {
            Ruling::Review => {
                appeal.state = AppealState::UnderReview;
                appeal.handling = Some(decided(by, None));
                self.handle(member, &appeal, "appeals:review").await
            }
            Ruling::Reject { reason } => {
                appeal.state = AppealState::Rejected;
                appeal.resolved_at = Some(now);
                appeal.handling = Some(decided(by, Some(reason)));
                self.handle(member, &appeal, "appeals:reject").await
            }
            Ruling::Accept { overrides, reason } => {
                if needs_review(&assessment) {
                    let message = "the assessment itself is waiting for a review; review it \
                        first with `POST /api/v1/assessments/{id}/review`";
                    return Err(Problem::new(ErrorCode::ReviewRequired, message));
                }
                if overrides.iter().any(Override::is_graded)
                    && self.recorder(member).await?.entitlement() < Entitlement::Grades
                {
                    return Err(Problem::new(
                        ErrorCode::Forbidden,
                        "only a person or a calibrated grader can set a grade; use a key whose \
                        principal is one of them",
                    ));
                }
                appeal.state = AppealState::Accepted;
                appeal.resolved_at = Some(now);
                let mut handling = decided(by, reason);
                handling.amendment = Some(Amendment {
                    overrides,
                    changed: Vec::new(),
                    evidence_differs: false,
                    badge_id: None,
                });
                appeal.handling = Some(handling);
                return self.accept(member, &assessment, appeal).await;
            }
        };
        handled.map(|()| appeal)
    }

    async fn handle(
        &self,
        member: &Member,
        appeal: &AppealRecord,
        action: &str,
    ) -> Result<(), Problem> {
        let decision = self.audit_entry(&member.caller, action, &appeal.id);
        let tenant = &member.organization.tenant;
        let handled = store::appeals::handle_appeal(&self.store, appeal, None, tenant, &decision);
        match handled.await {
            Ok(()) => Ok(()),
            Err(StoreError::Stale) => Err(already_resolved()),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// Scores the challenged dimensions again over the evidence of the assessment, and issues a
    /// badge for the result.
    async fn accept(
        &self,
        member: &Member,
        assessment: &AssessmentRecord,
        mut appeal: AppealRecord,
    ) -> Result<AppealRecord, Problem> {
        let number = assessment.organization;
        let before = store::appeals::accepted_appeals(&self.store, number, &assessment.id).await;
        let before = before.map_err(|cause| internal(&cause))?;
        let resolutions: Vec<Resolution> = before
            .iter()
            .chain([&appeal])
            .filter_map(resolution_of)
            .collect();
        let place = u32::try_from(resolutions.len()).unwrap_or(u32::MAX);
        let rating = self.rerate(assessment, resolutions).await?;
        let old = scored_result(assessment).ok_or_else(already_resolved)?;
        let differs = is_of_other_evidence(old, &rating);
        let old: Scores = serde_json::from_value(old.clone()).map_err(|cause| internal(&cause))?;
        let new = Scores::from(&rating);
        let changed = old.changed(&new);
        let result = serde_json::to_value(&rating).map_err(|cause| internal(&cause))?;
        let outcome = amended(assessment, &new, result).ok_or_else(already_resolved)?;
        let badge = store::badges::badge_of(&self.store, number, &assessment.id).await;
        let badge = badge.map_err(|cause| internal(&cause))?;
        let revoked = badge.filter(|it| it.state == BadgeState::Issued && !changed.is_empty());
        let now = self.clock.now();
        // An expired badge gets no successor.
        let successor = match revoked.as_ref().filter(|old| old.badge.valid_until > now) {
            Some(old) => Some(self.successor(assessment, &rating, old).await?),
            None => None,
        };
        if let Some(amendment) = amendment_of(&mut appeal) {
            amendment.evidence_differs = differs;
            amendment.changed = changed;
            amendment.badge_id = successor.as_ref().map(|it| it.badge.id.to_string());
        }
        let acceptance = Acceptance {
            store: self.store.as_ref(),
            tenant: &member.organization.tenant,
            decision: self.audit_entry(&member.caller, "appeals:accept", &appeal.id),
            place,
            assessment,
            outcome: &outcome,
            revoked: revoked.as_ref(),
            revocation: Revocation {
                reason: RevocationReason::Superseded,
                note: None,
                by: member.caller.principal.clone(),
                at: now,
            },
            appeal: &appeal,
        };
        let accepted = match &successor {
            None => acceptance.store_with(None).await.map_err(IssuerError::from),
            Some(draft) => {
                let issued = self.badges.issuer.issue(draft, &acceptance).await;
                issued.map(drop)
            }
        };
        match accepted {
            Ok(()) => Ok(appeal),
            Err(IssuerError::Store(StoreError::Stale)) => Err(already_resolved()),
            Err(cause) => Err(internal(&cause)),
        }
    }

    async fn rerate(
        &self,
        assessment: &AssessmentRecord,
        resolutions: Vec<Resolution>,
    ) -> Result<Rating, Problem> {
        let request = assessment.request.assessment.clone();
        let config = Config::read(&assessment.request.config).map_err(|cause| internal(&cause))?;
        let scope = EvidenceScope {
            organization: assessment.organization,
            agent: assessment.agent_number,
            request: &assessment.request,
            known_at: evidence_until(assessment),
        };
        let rerating = Rerating::new(request, config, resolutions);
        let collected = collect(self.store.as_ref(), scope, rerating, Rerating::add).await;
        let rerating = collected.map_err(collection_problem)?.state;
        // Overrides that were accepted earlier were checked then; by now their evidence may have
        // been deleted.
        if let Some((place, unmatched)) = rerating.unmatched() {
            let message = format!("at position {place}: {unmatched}");
            return Err(Problem::validation("overrides", message));
        }
        let rated = tokio::task::spawn_blocking(move || {
            rerating.finish().map_err(|unscored| match unscored {
                ScoringError::Insufficient(cause) => insufficient_evidence(&cause),
                ScoringError::Override(fault) => {
                    Problem::validation("overrides", fault.to_string())
                }
            })
        });
        rated.await.map_err(|cause| internal(&cause))?
    }

    /// The next revision of a badge, which is valid as long as the one before.
    async fn successor(
        &self,
        assessment: &AssessmentRecord,
        rating: &Rating,
        old: &BadgeRecord,
    ) -> Result<BadgeRecord, Problem> {
        let issuer = &self.badges.issuer;
        let draft = issuer.draft(assessment, rating, old.badge.valid_until, self.clock.now());
        let mut draft = draft.await.map_err(|cause| internal(&cause))?;
        draft.revision = old.revision + 1;
        Ok(draft)
    }
}

struct Acceptance<'a> {
    store: &'a Database,
    tenant: &'a TenantId,
    decision: Decision,
    place: u32,
    assessment: &'a AssessmentRecord,
    outcome: &'a AssessmentOutcome,
    revoked: Option<&'a BadgeRecord>,
    revocation: Revocation,
    appeal: &'a AppealRecord,
}

impl Acceptance<'_> {
    async fn store_with(&self, issued: Option<&BadgeRecord>) -> Result<(), StoreError> {
        let amended = AppealEffect {
            place: self.place,
            assessment: self.assessment,
            outcome: self.outcome,
            revoked: self.revoked.map(|badge| (badge, &self.revocation)),
            issued,
        };
        store::appeals::handle_appeal(
            self.store,
            self.appeal,
            Some(amended),
            self.tenant,
            &self.decision,
        )
        .await
    }
}

#[async_trait]
impl BadgeSink for Acceptance<'_> {
    async fn store(&self, badge: &BadgeRecord) -> Result<(), StoreError> {
        self.store_with(Some(badge)).await
    }
}

fn already_resolved() -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        "this appeal is already resolved, or the assessment or its badge has changed in the \
        meantime; read both again",
    )
}

const fn decided(by: String, reason: Option<String>) -> AppealDecision {
    AppealDecision {
        by,
        reason,
        amendment: None,
    }
}

fn amendment_of(appeal: &mut AppealRecord) -> Option<&mut Amendment> {
    appeal.handling.as_mut()?.amendment.as_mut()
}

fn resolution_of(appeal: &AppealRecord) -> Option<Resolution> {
    let amendment = appeal.handling.as_ref()?.amendment.as_ref()?;
    Some(Resolution {
        appeal_id: appeal.id.clone(),
        dimensions: appeal.filing.dimensions.clone(),
        overrides: amendment.overrides.clone(),
    })
}

/// The result of an assessment that has scores.
pub(super) fn scored_result(assessment: &AssessmentRecord) -> Option<&Value> {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored { result, .. }) => Some(result),
        _ => None,
    }
}

/// When the newest evidence that was scored had been recorded.
pub(super) fn evidence_until(assessment: &AssessmentRecord) -> Option<Timestamp> {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored { evidence_until, .. }) => {
            evidence_until.or(assessment.ended_at)
        }
        _ => None,
    }
}

/// The finding with another result, which has these scores.
fn amended(
    assessment: &AssessmentRecord,
    scores: &Scores,
    with: Value,
) -> Option<AssessmentOutcome> {
    let mut outcome = assessment.outcome.clone()?;
    match &mut outcome {
        AssessmentOutcome::Scored {
            result, intervals, ..
        } => {
            // The interval of a changed score belongs to the old score.
            intervals.retain(|dimension, it| scores.score(*dimension) == Some(it.score));
            *result = with;
        }
        AssessmentOutcome::Failed { .. } => return None,
    }
    Some(outcome)
}

/// Whether a result was scored from other evidence than the rating.
fn is_of_other_evidence(result: &Value, rating: &Rating) -> bool {
    let digest = result.pointer("/evidence/digest").and_then(Value::as_str);
    digest != Some(rating.evidence.digest.as_str())
}
