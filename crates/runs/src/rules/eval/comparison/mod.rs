//! Compares two runs task by task: changes, other differences between the runs, and statistical
//! significance.
//!
//! A task is compared only if both runs judged it in the same way: its content must be identical in
//! both suites, and a rubric must have the same judge. All other tasks are excluded, each with a
//! reason. A run that is a trial represents its whole experiment.

pub mod attested;
mod change;
pub mod comparable;
mod conclusion;
mod document;
pub mod log_baseline;
mod notes;
mod page;
mod short;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::comparable::{PlannedTasks, TaskDigests};
use self::conclusion::{RunFacts, conclude};
pub use self::document::{
    ChangeKind, ComparedRun, Difference, ExcludedTask, ExclusionReason, MeanChange,
    NothingInCommon, Regression, RunComparison, TaskChange, TaskResult, UnchangedTask,
    UnchangedTasks,
};
pub use self::page::ComparisonPage;
pub use self::short::{CHANGES, FirstChanges, LeftOut, NAMED, ShortComparison};
use super::scoring::{DEFAULT_PASS_SCORE, tasks};
use super::statistics::Evidence;
use crate::rules::run::deciders::EmbeddingsPin;
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::{EvalMode, Thresholds};

/// One of the two runs.
#[derive(Clone, Debug)]
pub struct ComparisonSide<'a> {
    /// The run, and the other trials of its experiment.
    pub evidence: &'a Evidence,
    pub spec: &'a EvalSpec,
    /// Of the suite of the run. If both have the same suite, any: they do not differ.
    pub thresholds: Thresholds,
    /// The digests of its tasks; `None` if they are equal in both runs
    /// ([`decide_alike`](comparable::decide_alike)).
    pub digests: Option<&'a BTreeMap<TaskId, TaskDigests>>,
}

/// Compares `candidate` with `baseline`. Both must have ended.
///
/// # Errors
/// [`NothingInCommon`].
pub fn compare(
    baseline: ComparisonSide<'_>,
    candidate: ComparisonSide<'_>,
) -> Result<RunComparison, NothingInCommon> {
    let (was, is) = (baseline.facts(), candidate.facts());
    let diff_ref = format!("/v1/runs/{}:diff?against={}", is.run.run_id, was.run.run_id);
    let suites_differ = |compared| suites_differ(baseline.spec, candidate.spec, compared);
    conclude(was, is, suites_differ, diff_ref)
}

fn suites_differ(was: &EvalSpec, is: &EvalSpec, compared: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if was.suite_digest != is.suite_digest {
        notes.push(format!(
            "the suites differ: of {} and {}, only identical tasks were compared ({})",
            tasks(was.tasks.len()),
            tasks(is.tasks.len()),
            tasks(compared)
        ));
    }
    if was.scoring_digest != is.scoring_digest {
        notes.push(
            "the scoring documents differ: only tasks with the same assertions were compared"
                .to_owned(),
        );
    }
    notes
}

impl<'a> ComparisonSide<'a> {
    fn facts(&self) -> RunFacts<'a> {
        let spec = self.spec;
        let safety_judge = spec.safety_judge.as_ref();
        RunFacts {
            run: self.compared_run(),
            evidence: self.evidence,
            order: spec.tasks.clone(),
            tasks: match self.digests {
                Some(digests) => PlannedTasks::Digests(Cow::Borrowed(digests)),
                None => PlannedTasks::Alike(&spec.tasks),
            },
            settings: self.settings(),
            is_adversarial: spec.modes.contains(&EvalMode::Adversarial),
            safety_judge: safety_judge.map(|judge| judge.identity.as_str()),
            ignore: &spec.ignore,
        }
    }

    fn compared_run(&self) -> ComparedRun {
        let (run, spec) = (&self.evidence.run.report, self.spec);
        ComparedRun {
            run_id: run.run_id.clone(),
            run_ids: self
                .evidence
                .reports()
                .map(|run| run.run_id.clone())
                .collect(),
            missing_trials: self.evidence.missing,
            suite_id: spec.suite_id.clone(),
            suite_version: spec.suite_version.clone(),
            suite_digest: spec.suite_digest.clone(),
            agent_id: spec.agent_id.clone(),
            agent_version: spec.agent_version.clone(),
            model: spec.model.model.clone(),
            provider: spec.model.provider.clone(),
        }
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let (side, spec) = (self, self.spec);
        let (judge, safety_judge) = (spec.judge.as_ref(), spec.safety_judge.as_ref());
        let thresholds = &side.thresholds;
        vec![
            ("suiteId", json!(spec.suite_id)),
            ("suiteVersion", json!(spec.suite_version)),
            ("suiteDigest", json!(spec.suite_digest)),
            ("scoringDigest", json!(spec.scoring_digest)),
            (
                "passScore",
                json!(thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE)),
            ),
            ("agentId", json!(spec.agent_id)),
            ("agentVersion", json!(spec.agent_version)),
            ("packIntegrity", json!(spec.pack_integrity)),
            (
                "model",
                json!(format!("{}/{}", spec.model.provider, spec.model.model)),
            ),
            ("judge", json!(judge.map(|judge| &judge.identity))),
            (
                "safetyJudge",
                json!(safety_judge.map(|judge| &judge.identity)),
            ),
            (
                "embeddings",
                json!(
                    spec.deciders
                        .embeddings
                        .as_ref()
                        .map(EmbeddingsPin::identity)
                ),
            ),
            ("assertCommand", json!(spec.deciders.command)),
            (
                "simulatedUser",
                json!(spec.simulated_user.as_ref().map(|user| &user.identity)),
            ),
            ("modes", json!(spec.modes)),
            ("ignore", json!(spec.ignore)),
            ("temperature", json!(spec.temperature)),
            ("maxTokens", json!(spec.max_tokens)),
            ("maxLoopIterations", json!(spec.max_loop_iterations)),
            (
                "trials",
                json!(side.evidence.trials().len() + side.evidence.missing),
            ),
        ]
    }
}

#[cfg(test)]
pub use self::tests::changed_sample;

#[cfg(test)]
mod tests;
