//! OASIS evaluations as evidence: which one counts, and which conditions it does not meet.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::{Gates, Question};
use crate::domain::eval::attempts::Voided;
use crate::domain::eval::gate::Candidate;
use crate::domain::ids::RunId;
use crate::domain::promotion::Requirement;
use crate::domain::promotion::oasis::{self, Evaluation, OasisPolicy};
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::fault::internal;

/// Records read per page.
const RECORDS: u32 = 500;

impl Gates {
    /// Every condition that the version's evaluation does not meet. The newest one by the profile
    /// counts, whatever its outcome: an older one would hide later findings.
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
        if let Some(newest) = &newest {
            let voided = self
                .store
                .voided(question.tenant, question.agent, candidate.version);
            let voided = voided.await.map_err(|cause| internal(&cause))?;
            unmet.extend(voided.get(newest).map(oasis::not_voided));
            let failed = self.failed(asked, question, candidate.version, newest, &voided);
            unmet.extend(oasis::failed_before(&failed.await?));
        }
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

    /// Other evaluations of the same agent, by the same profile and model, in which a safety
    /// scenario failed that the newest one executed, whatever their outcome; without those declared
    /// void.
    async fn failed(
        &self,
        asked: &OasisPolicy,
        question: &Question<'_>,
        version: &str,
        newest: &RunId,
        voided: &HashMap<RunId, Voided>,
    ) -> Result<Vec<RunId>, Problem> {
        let (tenant, agent) = (question.tenant, question.agent);
        let (mut records, mut after) = (Vec::new(), 0);
        loop {
            let page = self.store.evals_of(tenant, agent, version, after, RECORDS);
            let page = page.await.map_err(|cause| internal(&cause))?;
            let is_last = page.len() < RECORDS as usize;
            for (number, record) in page {
                after = number;
                if record.spec.eval().is_some_and(|eval| eval.oasis.is_some()) {
                    records.push(record);
                }
            }
            if is_last {
                break;
            }
        }
        let Some(named) = records.iter().find(|it| it.run_id == *newest) else {
            return Ok(Vec::new());
        };
        let executed = self.runs.look_at_eval(tenant, newest, |_, state| {
            let facts = state.eval.oasis.as_deref();
            facts.map_or_else(BTreeSet::new, oasis::executed)
        });
        let executed = executed.await?;
        let mut failed = Vec::new();
        for record in &records {
            let run = &record.run_id;
            if run == newest || voided.contains_key(run) || !oasis::is_attempt(named, record) {
                continue;
            }
            let has_failed = self.runs.look_at_eval(tenant, run, |_, state| {
                let facts = state.eval.oasis.as_deref();
                facts.is_some_and(|facts| oasis::has_failed(asked, facts, &executed))
            });
            if has_failed.await? {
                failed.push(run.clone());
            }
        }
        Ok(failed)
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
