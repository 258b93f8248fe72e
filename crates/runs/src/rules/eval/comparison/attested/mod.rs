//! Compares two runs by what is in their attestations, so that the baseline needs neither its host
//! nor its suite.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::comparable::{PlannedTasks, TaskDigests};
use super::conclusion::{RunFacts, conclude};
use super::document::{ComparedRun, NothingInCommon, RunComparison};
use crate::rules::eval::report::{EvalReport, JudgeProvenance};
use crate::rules::eval::statistics::{Evidence, EvidenceRun};
use crate::rules::run::deciders::EmbeddingsPin;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::EvalMode;

/// A run as its attestation describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttestedRun {
    pub report: EvalReport,
    /// The reports of the other trials of its experiment.
    pub further_trials: Vec<EvalReport>,
    /// Number of trials of the experiment that are missing.
    pub missing_trials: usize,
    /// Of the tasks that it planned.
    pub tasks: BTreeMap<TaskId, TaskDigests>,
}

/// Compares `candidate` with `baseline`. Both have ended, because only such runs are attested.
///
/// # Errors
/// [`NothingInCommon`].
pub fn compare_attested(
    baseline: &AttestedRun,
    candidate: &AttestedRun,
) -> Result<RunComparison, NothingInCommon> {
    let suites_differ = |compared| suites_differ(baseline, candidate, compared);
    // The two logs may be on different hosts, so there is no path of their comparison.
    let diff_ref = String::new();
    let (was, is) = (baseline.evidence(), candidate.evidence());
    let facts = (baseline.facts(&was), candidate.facts(&is));
    conclude(facts.0, facts.1, suites_differ, diff_ref)
}

fn suites_differ(baseline: &AttestedRun, candidate: &AttestedRun, compared: usize) -> Vec<String> {
    let (was, is) = (&baseline.report.suite, &candidate.report.suite);
    if was.digest == is.digest && was.scoring_digest == is.scoring_digest {
        return Vec::new();
    }
    vec![format!(
        "the suites differ: {compared} of {} tasks are identical and were compared",
        candidate.tasks.len()
    )]
}

fn identity(judge: Option<&JudgeProvenance>) -> Option<&str> {
    judge.map(|judge| judge.identity.as_str())
}

impl AttestedRun {
    fn facts<'a>(&'a self, evidence: &'a Evidence) -> RunFacts<'a> {
        RunFacts {
            run: self.compared_run(evidence),
            evidence,
            order: self.in_order().into_iter().collect(),
            tasks: PlannedTasks::Digests(Cow::Borrowed(&self.tasks)),
            settings: self.settings(),
            is_adversarial: self.report.modes.contains(&EvalMode::Adversarial),
            safety_judge: identity(self.report.safety_judge.as_ref()),
            ignore: &self.report.ignore,
        }
    }

    fn evidence(&self) -> Evidence {
        Evidence {
            run: EvidenceRun::of(&self.report),
            further: self.further_trials.iter().map(EvidenceRun::of).collect(),
            missing: self.missing_trials,
            attempts: Vec::new(),
        }
    }

    /// The planned tasks: those with a result in the order of the suite, then the others.
    fn in_order(&self) -> Vec<&TaskId> {
        let scored = self.report.tasks.iter().map(|task| &task.task_id);
        let mut order: Vec<&TaskId> = scored.filter(|id| self.tasks.contains_key(*id)).collect();
        let known: HashSet<&TaskId> = order.iter().copied().collect();
        order.extend(self.tasks.keys().filter(|id| !known.contains(id)));
        order
    }

    fn compared_run(&self, evidence: &Evidence) -> ComparedRun {
        let report = &self.report;
        let evaluated = report.evaluated.as_ref();
        ComparedRun {
            run_id: report.run_id.clone(),
            run_ids: evidence.reports().map(|run| run.run_id.clone()).collect(),
            missing_trials: self.missing_trials,
            suite_id: report.suite.suite_id.clone(),
            suite_version: report.suite.version.clone(),
            suite_digest: report.suite.digest.clone(),
            agent_id: report.agent.agent_id.clone(),
            agent_version: report.agent.version.clone(),
            model: evaluated.map_or_else(String::new, |it| it.model.clone()),
            provider: evaluated.map_or_else(String::new, |it| it.provider.clone()),
        }
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let report = &self.report;
        let (suite, agent) = (&report.suite, &report.agent);
        let evaluated = report.evaluated.as_ref();
        let embeddings = report.deciders.embeddings.as_ref();
        let user = report.simulated_user.as_ref();
        vec![
            ("suiteId", json!(suite.suite_id)),
            ("suiteVersion", json!(suite.version)),
            ("suiteDigest", json!(suite.digest)),
            ("scoringDigest", json!(suite.scoring_digest)),
            ("passScore", json!(suite.pass_score)),
            ("agentId", json!(agent.agent_id)),
            ("agentVersion", json!(agent.version)),
            ("packIntegrity", json!(agent.pack_integrity)),
            (
                "model",
                json!(evaluated.map(|it| format!("{}/{}", it.provider, it.model))),
            ),
            ("judge", json!(identity(report.judge.as_ref()))),
            ("safetyJudge", json!(identity(report.safety_judge.as_ref()))),
            ("embeddings", json!(embeddings.map(EmbeddingsPin::identity))),
            ("assertCommand", json!(report.deciders.command)),
            ("simulatedUser", json!(user.map(|user| &user.identity))),
            ("modes", json!(report.modes)),
            ("ignore", json!(report.ignore)),
            (
                "trials",
                json!(self.further_trials.len() + 1 + self.missing_trials),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
