//! The rating of a version of an OpenWOP agent, for deployment gates.

use crate::gate::{BadgeStatus, CurrentRating, RatingStatus, ReviewState};
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use crate::ports::badges::BadgeState;
use crate::ports::organizations::OrganizationRecord;
use crate::rules::assessment::order::Verdict;
use crate::rules::evidence::Sources;
use crate::rules::{Axis, Tier};
use crate::service::Ratings;
use crate::service::assessments::needs_review;
use crate::service::badges::{Requester, VisibleBadge};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

impl Ratings {
    /// The rating of an agent's version: the last rating of the enrolled agent that represents it
    /// in the tenant's organization. Certificates of an organization whose status does not allow
    /// reading do not count.
    ///
    /// # Errors
    /// The host failed.
    pub async fn rating_status(
        &self,
        tenant: &TenantId,
        agent: &str,
        version: &str,
    ) -> Result<RatingStatus, Problem> {
        let failed = |cause: StoreError| internal(&cause);
        let organization = store::organizations::organization_of(&self.store, tenant)
            .await
            .map_err(failed)?;
        let readable = organization.filter(|it| it.status.hinders(false).is_none());
        let Some(organization) = readable else {
            return Ok(RatingStatus::NotEnrolled);
        };
        let number = organization.number;
        let about = store::agents::agents_representing(&self.store, number, agent);
        let about = about.await.map_err(failed)?;
        let matching = about.into_iter().find(|enrolled| {
            let named = enrolled.profile.openwop_agent.as_ref();
            named.is_some_and(|it| {
                it.id == agent && it.version.as_deref().is_none_or(|of| of == version)
            })
        });
        let Some(enrolled) = matching else {
            return Ok(RatingStatus::NotEnrolled);
        };
        let last = store::assessments::last_rating(&self.store, enrolled.number, self.clock.now());
        let Some(last) = last.await.map_err(failed)? else {
            return Ok(RatingStatus::NotRated);
        };
        let badge = self.badge_status(&last, &organization).await?;
        Ok(read(&last, badge).map_or(RatingStatus::NotRated, RatingStatus::Rated))
    }

    /// Whether the badge of an assessment is valid now.
    async fn badge_status(
        &self,
        assessment: &AssessmentRecord,
        organization: &OrganizationRecord,
    ) -> Result<BadgeStatus, Problem> {
        let found = store::badges::badge_of(&self.store, organization.number, &assessment.id);
        let Some(found) = found.await.map_err(|cause| internal(&cause))? else {
            return Ok(BadgeStatus::None);
        };
        let state = found.state;
        let Some(visible) = VisibleBadge::of(found, organization.clone(), self.clock.now()) else {
            return Ok(BadgeStatus::None);
        };
        let verification = self.verify_for(&visible, Requester::Gate).await?;
        // Tiers are read from the finding, which is not signed, so only the tiers that the badge
        // confirms count.
        let confirmed = Axis::ALL
            .into_iter()
            .all(|axis| tier(assessment, axis) == Some(visible.badge.badge.rating(axis).tier))
            && sources(assessment) == visible.badge.badge.sources;
        Ok(match state {
            BadgeState::Issued if !confirmed => BadgeStatus::Unproven,
            BadgeState::Issued if verification.valid => BadgeStatus::Valid,
            BadgeState::Revoked => BadgeStatus::Revoked,
            BadgeState::Issued if verification.expired => BadgeStatus::Expired,
            BadgeState::Issued => BadgeStatus::Unproven,
            BadgeState::Withheld | BadgeState::Rejected => BadgeStatus::None,
        })
    }
}

/// The tier reached on an axis.
fn tier(assessment: &AssessmentRecord, axis: Axis) -> Option<Tier> {
    let AssessmentOutcome::Scored { result, .. } = assessment.outcome.as_ref()? else {
        return None;
    };
    let named = result.get(axis.as_str())?.get("tier")?.as_str()?;
    named.parse().ok()
}

/// Who recorded the evidence of an assessment; empty if unknown.
fn sources(assessment: &AssessmentRecord) -> Sources {
    let Some(AssessmentOutcome::Scored { result, .. }) = &assessment.outcome else {
        return Sources::new();
    };
    let recorded = result.pointer("/evidence/sources");
    let recorded = recorded.and_then(|recorded| serde_json::from_value(recorded.clone()).ok());
    recorded.unwrap_or_default()
}

/// The rating in the form that a gate reads; `None` without scores.
fn read(assessment: &AssessmentRecord, badge: BadgeStatus) -> Option<CurrentRating> {
    let AssessmentOutcome::Scored { review, .. } = assessment.outcome.as_ref()? else {
        return None;
    };
    Some(CurrentRating {
        version: assessment.request.agent_version.clone(),
        performance: tier(assessment, Axis::Performance),
        capability: tier(assessment, Axis::Capability),
        // A score computed today from old evidence is as old as the evidence.
        at: assessment
            .ended_at?
            .min(assessment.request.assessment.window_end),
        review: match review {
            Some(review) if review.decision == Verdict::Reject => ReviewState::Rejected,
            _ if needs_review(assessment) => ReviewState::Pending,
            _ => ReviewState::Clear,
        },
        badge,
        sources: sources(assessment),
    })
}
