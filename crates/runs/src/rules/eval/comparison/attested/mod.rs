//! Compares two runs by what is in their attestations, so that the baseline needs neither its host
//! nor its suite.
//!
//! A task is compared if its digests are equal in both: they cover its content, and whatever
//! decided about it.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Comparable, ComparedRun, Difference, ExcludedTask, ExclusionReason, NothingInCommon,
    RunComparison, reasons, result_notes,
};
use crate::rules::eval::report::{EvalReport, JudgeProvenance};
use crate::rules::eval::rubric::rubric;
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::eval::statistics::{Evidence, TrialsByTask, by_task};
use crate::rules::run::deciders::{Decider, EmbeddingsPin};
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, Task};

/// What makes two results of a task comparable. Each digest is `sha256-<base64>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDigests {
    /// The task, its assertions, conversation and attachments, and the baseline that its assertions
    /// compare answers with.
    pub content: String,
    /// Judge, embedding model and command, of those that decide about the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciders: Option<String>,
    /// The simulated user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The digests of the tasks that a run plans.
pub fn task_digests(
    spec: &EvalSpec,
    suite: &AgentEvalSuite,
    scoring: Option<&ScoringDocument>,
) -> BTreeMap<TaskId, TaskDigests> {
    let planned: HashSet<&TaskId> = spec.tasks.iter().collect();
    let tasks = suite
        .tasks
        .iter()
        .filter(|it| planned.contains(&it.task_id));
    tasks
        .map(|task| (task.task_id.clone(), digests(spec, task, scoring)))
        .collect()
}

fn digests(spec: &EvalSpec, task: &Task, document: Option<&ScoringDocument>) -> TaskDigests {
    let id = &task.task_id;
    let scoring = document.and_then(|it| it.of_task(id));
    let has = |wanted: &dyn Fn(&Check) -> bool| scoring.as_ref().is_some_and(|it| it.has(wanted));
    let conversation = document.and_then(|it| it.conversation(id));
    let compares =
        spec.compares_answers && scoring.as_ref().is_some_and(|it| it.compares_answers());
    let is_judged = rubric(task).is_some() || has(&Check::is_judged);
    let needs = |decider: Decider| has(&|check| Decider::of(check) == Some(decider));
    let embeddings = spec.deciders.embeddings.as_ref();
    let deciders = [
        spec.judge
            .as_ref()
            .filter(|_| is_judged)
            .map(|judge| judge.identity.clone()),
        embeddings
            .filter(|_| needs(Decider::Embeddings))
            .map(EmbeddingsPin::identity),
        spec.deciders
            .command
            .clone()
            .filter(|_| needs(Decider::Command)),
    ];
    let user = spec.simulated_user.as_ref();
    TaskDigests {
        content: digest(&json!({
            "task": task,
            "assertions": scoring.as_ref().map(|it| &it.assertions),
            "threshold": scoring.as_ref().and_then(|it| it.threshold),
            "conversation": conversation,
            "attachments": document.map_or(&[][..], |it| it.attachments(id)),
            "baseline": spec.baseline.as_ref().filter(|_| compares).map(|it| &it.run_id),
        })),
        deciders: deciders
            .iter()
            .any(Option::is_some)
            .then(|| digest(&json!(deciders))),
        user: user
            .filter(|_| conversation.is_some_and(|it| it.user.is_some()))
            .map(|user| user.identity.clone()),
    }
}

fn digest(document: &Value) -> String {
    integrity::of(canonical_text(document).as_bytes())
}

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
    let (mut before, mut now) = (baseline.judged(), candidate.judged());
    let left_out = left_out(baseline, candidate, &before, &now);
    let incomparable = |task: &&ExcludedTask| {
        matches!(
            task.reason,
            ExclusionReason::OnlyCandidate | ExclusionReason::TaskChanged
        )
    };
    if left_out.iter().filter(incomparable).count() == candidate.tasks.len() {
        return Err(NothingInCommon {
            baseline: baseline.suite_ref(),
            candidate: candidate.suite_ref(),
        });
    }
    let left: HashSet<&TaskId> = left_out.iter().map(|task| &task.task_id).collect();
    before.retain(|task, _| !left.contains(task));
    now.retain(|task, _| !left.contains(task));
    let order: Vec<TaskId> = candidate.in_order().into_iter().cloned().collect();
    let mut notes = Vec::new();
    if baseline.report.suite.digest != candidate.report.suite.digest
        || baseline.report.suite.scoring_digest != candidate.report.suite.scoring_digest
    {
        notes.push(format!(
            "the suites differ: {} of {} tasks are identical and were compared",
            now.len(),
            candidate.tasks.len()
        ));
    }
    let is_hostile = |run: &AttestedRun| run.report.modes.contains(&EvalMode::Adversarial);
    if is_hostile(baseline) != is_hostile(candidate)
        || identity(baseline.report.safety_judge.as_ref())
            != identity(candidate.report.safety_judge.as_ref())
    {
        notes.push(super::SAFETY_DIFFERS.to_owned());
    }
    if baseline.report.ignore != candidate.report.ignore {
        notes.push(super::IGNORE_DIFFERS.to_owned());
    }
    notes.extend(result_notes(
        [baseline.evidence(), candidate.evidence()],
        &left_out,
    ));
    Ok(Comparable {
        runs: [baseline.compared_run(), candidate.compared_run()],
        reasons: [reasons(baseline.evidence()), reasons(candidate.evidence())],
        order: &order,
        differences: differences(baseline, candidate),
        notes,
        before,
        now,
        left_out,
        diff_ref: String::new(),
    }
    .concluded())
}

fn identity(judge: Option<&JudgeProvenance>) -> Option<&str> {
    judge.map(|judge| judge.identity.as_str())
}

/// The excluded tasks: the candidate's tasks in its order, then tasks that it does not have.
fn left_out(
    baseline: &AttestedRun,
    candidate: &AttestedRun,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<ExcludedTask> {
    let of_candidate = candidate.in_order().into_iter().filter_map(|id| {
        let is = candidate.tasks.get(id);
        let reason = match (baseline.tasks.get(id), is) {
            (None, _) => ExclusionReason::OnlyCandidate,
            (Some(was), Some(is)) if was.user != is.user => ExclusionReason::UserChanged,
            (Some(was), Some(is)) if was.deciders != is.deciders && was.content == is.content => {
                ExclusionReason::JudgeChanged
            }
            (was, is) if was != is => ExclusionReason::TaskChanged,
            _ if !before.contains_key(id) || !now.contains_key(id) => ExclusionReason::Unjudged,
            _ => return None,
        };
        Some((id, reason))
    });
    let of_baseline = baseline
        .in_order()
        .into_iter()
        .filter(|id| !candidate.tasks.contains_key(*id))
        .map(|id| (id, ExclusionReason::OnlyBaseline));
    of_candidate
        .chain(of_baseline)
        .map(|(id, reason)| ExcludedTask {
            task_id: id.clone(),
            reason,
        })
        .collect()
}

impl AttestedRun {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            run: &self.report,
            further: &self.further_trials,
            missing: self.missing_trials,
            attempts: &[],
        }
    }

    fn judged(&self) -> TrialsByTask {
        by_task(&self.evidence().trials())
    }

    fn suite_ref(&self) -> String {
        let suite = &self.report.suite;
        format!("{}@{}", suite.suite_id, suite.version)
    }

    /// The planned tasks: those with a result in the order of the suite, then the others.
    fn in_order(&self) -> Vec<&TaskId> {
        let scored = self.report.tasks.iter().map(|task| &task.task_id);
        let mut order: Vec<&TaskId> = scored.filter(|id| self.tasks.contains_key(*id)).collect();
        let known: HashSet<&TaskId> = order.iter().copied().collect();
        order.extend(self.tasks.keys().filter(|id| !known.contains(id)));
        order
    }

    fn compared_run(&self) -> ComparedRun {
        let report = &self.report;
        let trials = self.evidence().trials();
        let evaluated = report.evaluated.as_ref();
        ComparedRun {
            run_id: report.run_id.clone(),
            run_ids: trials.iter().map(|run| run.run_id.clone()).collect(),
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

    fn facts(&self) -> [(&'static str, Value); 17] {
        let report = &self.report;
        let (suite, agent) = (&report.suite, &report.agent);
        let evaluated = report.evaluated.as_ref();
        let embeddings = report.deciders.embeddings.as_ref();
        let user = report.simulated_user.as_ref();
        [
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

fn differences(baseline: &AttestedRun, candidate: &AttestedRun) -> Vec<Difference> {
    let pairs = baseline.facts().into_iter().zip(candidate.facts());
    pairs
        .filter(|((_, was), (_, is))| was != is)
        .map(|((what, baseline), (_, candidate))| Difference {
            what: what.to_owned(),
            baseline,
            candidate,
        })
        .collect()
}

#[cfg(test)]
mod tests;
