//! A person corrects what an eval run scored (AAAF, OpenWOP eval runs): the evidence stays as it is, and an appeal starts of
//! the rating that counted it. What the correction changes, if anything, is for whoever resolves the appeal.

use super::appeals::{evidence_until, found};
use super::{Aaaf, Member};
use crate::domain::aaaf::calibration::Scores;
use crate::domain::aaaf::filing::Filing;
use crate::domain::aaaf::projection;
use crate::domain::ids::{RunId, TaskId};
use crate::ports::StoreError;
use crate::ports::aaaf::{AppealRecord, AssessmentRecord, EventRecord};
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::{Caller, Scope};
use crate::service::fault::internal;

/// What a person says about a judged task.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a> {
    /// In which run.
    pub run: &'a RunId,
    /// Which task.
    pub task: &'a TaskId,
    /// Where in the run's log it was scored.
    pub sequence: u64,
    /// What should have been found.
    pub text: &'a str,
}

impl Aaaf {
    /// Starts an appeal, if an agent's last rating counted what is corrected, it can still be appealed, nobody appeals it
    /// already, and the caller may.
    ///
    /// # Errors
    /// A fault of ours.
    pub async fn corrected(
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
        let scores = found(&assessment).cloned().map(serde_json::from_value);
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

    /// The last rating, if it counted this.
    async fn counted(
        &self,
        member: &Member,
        correction: Correction<'_>,
    ) -> Result<Option<AssessmentRecord>, StoreError> {
        let id = projection::judgment_id(correction.run.as_str(), correction.sequence);
        let event = self.store.event(member.organization.number, &id).await?;
        let Some(event) = event else {
            return Ok(None);
        };
        let last = self.store.last_rating(event.agent_number, self.clock.now());
        Ok(last.await?.filter(|it| counts(it, &event)))
    }
}

fn counts(assessment: &AssessmentRecord, event: &EventRecord) -> bool {
    let asked = &assessment.asked.assessment;
    let made_for = event.data.get("assessment_id").and_then(|it| it.as_str());
    let in_view = match made_for {
        Some(of) => of == assessment.id,
        None => (asked.window_start..asked.window_end).contains(&event.occurred_at),
    };
    in_view && evidence_until(assessment).is_some_and(|until| event.recorded_at <= until)
}
