//! Corrections of scores of an eval run (AAAF, OpenWOP eval runs). The evidence is not changed; a
//! correction files an appeal against the rating that used the score. The reviewer of the appeal
//! decides what the correction changes, if anything.

use async_trait::async_trait;

use crate::ports::appeals::AppealRecord;
use crate::ports::assessments::AssessmentRecord;
use crate::ports::events::EventRecord;
use crate::rules::appeal::filing::Filing;
use crate::rules::assessment::calibration::Scores;
use crate::rules::projection;
use crate::service::appeals::{evidence_until, scored_result};
use crate::service::{Member, Ratings};
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::service::reviews::score_review::{Correction, ScoreReview};

#[async_trait]
impl ScoreReview for Ratings {
    async fn refuse_own(&self, caller: &Caller, why: &'static str) -> Result<(), Problem> {
        Self::refuse_own(self, caller, why).await
    }

    async fn corrected(&self, caller: &Caller, correction: Correction<'_>) -> Result<(), Problem> {
        self.appeal_for(caller, correction).await.map(drop)
    }
}

impl Ratings {
    /// Files an appeal if the agent's last rating used the corrected score, can still be appealed,
    /// has no open appeal, and the caller may file one.
    ///
    /// # Errors
    /// The host failed.
    async fn appeal_for(
        &self,
        caller: &Caller,
        correction: Correction<'_>,
    ) -> Result<Option<AppealRecord>, Problem> {
        if !caller.has(Scope::AppealsFile) {
            return Ok(None);
        }
        let member = match self.member(caller.clone(), true).await {
            Ok(member) => member,
            Err(problem) if problem.code == ErrorCode::Forbidden => return Ok(None),
            Err(problem) => return Err(problem),
        };
        let counted = self.counted(&member, correction).await;
        let Some(assessment) = counted.map_err(|cause| internal(&cause))? else {
            return Ok(None);
        };
        let scores = scored_result(&assessment)
            .cloned()
            .map(serde_json::from_value);
        let scores: Scores = scores
            .transpose()
            .map_err(|cause| internal(&cause))?
            .unwrap_or_default();
        let task = projection::task_id(correction.run.as_str(), correction.task.as_str());
        let Some(filing) = Filing::of_correction(&scores, task, correction.text) else {
            return Ok(None);
        };
        match self.file_appeal(&member, &assessment.id, filing).await {
            Ok(appeal) => Ok(Some(appeal)),
            Err(problem) => match problem.code {
                ErrorCode::AppealOpen | ErrorCode::AppealWindowClosed | ErrorCode::Conflict => {
                    Ok(None)
                }
                _ => Err(problem),
            },
        }
    }

    /// The last rating, if it used this score.
    async fn counted(
        &self,
        member: &Member,
        correction: Correction<'_>,
    ) -> Result<Option<AssessmentRecord>, StoreError> {
        let id = projection::judgment_id(correction.run.as_str(), correction.sequence);
        let event = store::events::event(&self.store, member.organization.number, &id).await?;
        let Some(event) = event else {
            return Ok(None);
        };
        let last =
            store::assessments::last_rating(&self.store, event.agent_number, self.clock.now());
        Ok(last.await?.filter(|it| counts(it, &event)))
    }
}

fn counts(assessment: &AssessmentRecord, event: &EventRecord) -> bool {
    let request = &assessment.request.assessment;
    let made_for = event.data.get("assessment_id").and_then(|it| it.as_str());
    let in_view = match made_for {
        Some(of) => of == assessment.id,
        None => (request.window_start..request.window_end).contains(&event.occurred_at),
    };
    in_view && evidence_until(assessment).is_some_and(|until| event.recorded_at <= until)
}
