//! The flaky tasks of a suite, from its newest comparable runs.

use crate::rules::eval::flaky::{ComparedAttempt, FlakyTasks, flaky};
use crate::rules::run::listing::{RunKind, RunListing, RunQuery};
use crate::rules::run::record::EvalSpec;
use crate::service::runs::Runs;
use crate::service::runs::reading::list::MAX_RUNS;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// The runs to compare.
#[derive(Clone, Debug, Default)]
pub struct FlakyQuery {
    pub suite_id: String,
    pub agent_id: Option<String>,
    pub agent_version: Option<String>,
    /// Most runs.
    pub limit: usize,
}

impl Runs {
    /// The flaky tasks of a suite: from the newest judged runs that have the suite content, agent
    /// version and model of the newest one.
    ///
    /// # Errors
    /// `not_found` if the tenant has no run of the suite.
    pub async fn flaky(
        &self,
        tenant: &TenantId,
        asked: &FlakyQuery,
    ) -> Result<FlakyTasks, Problem> {
        let query = RunQuery {
            kind: Some(RunKind::Eval),
            suite_id: Some(asked.suite_id.clone()),
            agent_id: asked.agent_id.clone(),
            agent_version: asked.agent_version.clone(),
            limit: usize::try_from(MAX_RUNS).unwrap_or(usize::MAX),
            ..RunQuery::default()
        };
        let listed = self.list(tenant, &query).await?.runs;
        if listed.is_empty() {
            self.check_known(tenant, &asked.suite_id).await?;
        }
        let mut judged = listed.into_iter().filter(is_judged);
        let mut attempts = Vec::new();
        let mut found = FlakyTasks::default();
        let mut first: Option<(RunListing, std::sync::Arc<EvalSpec>)> = None;
        while attempts.len() < asked.limit {
            let Some(run) = judged.next() else {
                break;
            };
            let is_comparable = |known: &RunListing| {
                let same = &known.subject;
                (&same.suite, &same.agent, &same.model)
                    == (&run.subject.suite, &run.subject.agent, &run.subject.model)
            };
            if first
                .as_ref()
                .is_some_and(|(known, _)| !is_comparable(known))
            {
                continue;
            }
            let (record, eval) = match self.eval_record(tenant, &run.run_id).await {
                Ok(read) => read,
                // It was deleted meanwhile.
                Err(problem) if problem.code == ErrorCode::NotFound => continue,
                Err(problem) => return Err(problem),
            };
            let same = first
                .as_ref()
                .is_none_or(|(_, known)| has_same_tasks(known, &eval));
            if record.is_replay() || !same {
                continue;
            }
            attempts.push(self.attempt(&record).await?.as_ref().clone());
            found.runs.push(ComparedAttempt {
                run_id: run.run_id.clone(),
                created_at: run.created_at,
            });
            if first.is_none() {
                found.suite.clone_from(&run.subject.suite);
                found.agent.clone_from(&run.subject.agent);
                found.model = run.subject.model.as_ref().map(|it| it.model.clone());
                first = Some((run, eval));
            }
        }
        attempts.reverse();
        found.runs.reverse();
        (found.measured_count, found.tasks) = flaky(&attempts);
        Ok(found)
    }

    async fn check_known(&self, tenant: &TenantId, suite: &str) -> Result<(), Problem> {
        let query = RunQuery {
            suite_id: Some(suite.to_owned()),
            limit: 1,
            ..RunQuery::default()
        };
        match self.list(tenant, &query).await?.runs.is_empty() {
            true => Err(Problem::new(ErrorCode::NotFound, "no run of this suite")),
            false => Ok(()),
        }
    }
}

fn is_judged(run: &RunListing) -> bool {
    let result = run.result.as_ref().filter(|_| !run.voided);
    result.is_some_and(|it| it.judged_count.is_some_and(|judged| judged > 0))
}

/// Whether two runs pose the same tasks to the same agent and score them in the same way.
fn has_same_tasks(a: &EvalSpec, b: &EvalSpec) -> bool {
    let judge = |eval: &EvalSpec| eval.judge.as_ref().map(|it| it.identity.clone());
    a.suite_digest == b.suite_digest
        && a.scoring_digest == b.scoring_digest
        && a.pack_integrity == b.pack_integrity
        && judge(a) == judge(b)
}
