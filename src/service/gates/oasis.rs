//! OASIS evaluations that a gate looks at: which one counts, and what it lacks.

use jiff::Timestamp;

use super::{Gates, Question};
use crate::domain::eval::gate::Candidate;
use crate::domain::ids::RunId;
use crate::domain::promotion::Requirement;
use crate::domain::promotion::oasis::{self, Evaluation, OasisPolicy};
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::fault::internal;

impl Gates {
    /// Every condition that the evaluation of the version does not meet. The newest one by the profile counts, whatever it ended
    /// in: one that is offered and is not the newest would pass over what was found since.
    pub(super) async fn unevaluated(
        &self,
        asked: &OasisPolicy,
        question: &Question<'_>,
        candidate: Candidate<'_>,
        now: Timestamp,
    ) -> Result<Vec<Requirement>, Problem> {
        let newest = self.store.newest_oasis(
            question.tenant,
            question.agent,
            candidate.version,
            &asked.profile,
        );
        let newest = newest.await.map_err(|cause| internal(&cause))?;
        let mut unmet = match &newest {
            None => oasis::unmet(asked, candidate, None, now),
            Some(run) => {
                let unmet = self.runs.look_at_eval(question.tenant, run, |spec, state| {
                    oasis::unmet(asked, candidate, Evaluation::of(run, spec, state), now)
                });
                unmet.await?
            }
        };
        if let (Some(offered), Some(newest)) = (question.evidence, &newest)
            && offered != newest
            && self
                .is_by_profile(question, offered, &asked.profile)
                .await?
        {
            unmet.push(oasis::superseded(newest));
        }
        Ok(unmet.into_iter().map(Requirement::Oasis).collect())
    }

    async fn is_by_profile(
        &self,
        question: &Question<'_>,
        run: &RunId,
        profile: &str,
    ) -> Result<bool, Problem> {
        let found = self.runs.look_at_eval(question.tenant, run, |spec, _| {
            let oasis = spec.oasis.as_ref();
            oasis.is_some_and(|oasis| oasis.request.profile == profile)
        });
        match found.await {
            Err(problem) if problem.code == ErrorCode::NotFound => Ok(false),
            found => found,
        }
    }
}
