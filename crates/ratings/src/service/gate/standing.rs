//! The rating of a version of an OpenWOP agent, for deployment gates.

use crate::gate::{Badge, Rated, Review, Standing};
use crate::ports::assessments::{AssessmentRecord, Finding};
use crate::ports::badges::BadgeState;
use crate::ports::organizations::OrganizationRecord;
use crate::rules::assessment::order::Verdict;
use crate::rules::evidence::Sources;
use crate::rules::{Axis, Tier};
use crate::service::Aaaf;
use crate::service::assessments::needs_review;
use crate::service::badges::{Asking, Seen};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

impl Aaaf {
    /// The rating of an agent's version: the last rating of the enrolled agent that represents it
    /// in the tenant's organization. Certificates of an organization whose status does not allow
    /// reading do not count.
    ///
    /// # Errors
    /// The host failed.
    pub async fn standing(
        &self,
        tenant: &TenantId,
        agent: &str,
        version: &str,
    ) -> Result<Standing, Problem> {
        let failed = |cause: StoreError| internal(&cause);
        let organization = store::organizations::organization_of(&self.store, tenant)
            .await
            .map_err(failed)?;
        let readable = organization.filter(|it| it.status.hinders(false).is_none());
        let Some(organization) = readable else {
            return Ok(Standing::NotEnrolled);
        };
        let number = organization.number;
        let about = store::agents::agents_standing_for(&self.store, number, agent);
        let about = about.await.map_err(failed)?;
        let stands = about.into_iter().find(|enrolled| {
            let named = enrolled.profile.openwop_agent.as_ref();
            named.is_some_and(|it| {
                it.id == agent && it.version.as_deref().is_none_or(|of| of == version)
            })
        });
        let Some(enrolled) = stands else {
            return Ok(Standing::NotEnrolled);
        };
        let last = store::assessments::last_rating(&self.store, enrolled.number, self.clock.now());
        let Some(last) = last.await.map_err(failed)? else {
            return Ok(Standing::NotRated);
        };
        let badge = self.worth(&last, &organization).await?;
        Ok(read(&last, badge).map_or(Standing::NotRated, Standing::Rated))
    }

    /// Whether the badge of an assessment is valid now.
    async fn worth(
        &self,
        assessment: &AssessmentRecord,
        organization: &OrganizationRecord,
    ) -> Result<Badge, Problem> {
        let found = store::badges::badge_of(&self.store, organization.number, &assessment.id);
        let Some(found) = found.await.map_err(|cause| internal(&cause))? else {
            return Ok(Badge::None);
        };
        let state = found.state;
        let Some(seen) = Seen::of(found, organization.clone(), self.clock.now()) else {
            return Ok(Badge::None);
        };
        let verification = self.verified_for(&seen, Asking::Gate).await?;
        // Tiers are read from the finding, which is not signed, so only the tiers that the badge
        // confirms count.
        let vouched = Axis::ALL
            .into_iter()
            .all(|axis| tier(assessment, axis) == Some(seen.badge.badge.rating(axis).tier))
            && sources(assessment) == seen.badge.badge.sources;
        Ok(match state {
            BadgeState::Issued if !vouched => Badge::Unproven,
            BadgeState::Issued if verification.valid => Badge::Holds,
            BadgeState::Revoked => Badge::Revoked,
            BadgeState::Issued if verification.expired => Badge::Expired,
            BadgeState::Issued => Badge::Unproven,
            BadgeState::Withheld | BadgeState::Rejected => Badge::None,
        })
    }
}

/// The tier reached on an axis.
fn tier(assessment: &AssessmentRecord, axis: Axis) -> Option<Tier> {
    let Finding::Scored { result, .. } = assessment.finding.as_ref()? else {
        return None;
    };
    let named = result.get(axis.as_str())?.get("tier")?.as_str()?;
    named.parse().ok()
}

/// Who recorded the evidence of an assessment; empty if unknown.
fn sources(assessment: &AssessmentRecord) -> Sources {
    let Some(Finding::Scored { result, .. }) = &assessment.finding else {
        return Sources::new();
    };
    let said = result.pointer("/evidence/sources");
    let said = said.and_then(|said| serde_json::from_value(said.clone()).ok());
    said.unwrap_or_default()
}

/// The rating in the form that a gate reads; `None` without scores.
fn read(assessment: &AssessmentRecord, badge: Badge) -> Option<Rated> {
    let Finding::Scored { review, .. } = assessment.finding.as_ref()? else {
        return None;
    };
    Some(Rated {
        version: assessment.asked.agent_version.clone(),
        performance: tier(assessment, Axis::Performance),
        capability: tier(assessment, Axis::Capability),
        // A score computed today from old evidence is as old as the evidence.
        at: assessment
            .ended_at?
            .min(assessment.asked.assessment.window_end),
        review: match review {
            Some(review) if review.decision == Verdict::Reject => Review::Rejected,
            _ if needs_review(assessment) => Review::Awaited,
            _ => Review::Stands,
        },
        badge,
        sources: sources(assessment),
    })
}
