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

use std::borrow::Cow;

use serde_json::{Value, json};

use self::comparable::task_digests;
use self::conclusion::{RunFacts, conclude};
pub use self::document::{
    ChangeKind, ComparedRun, Difference, ExcludedTask, ExclusionReason, MeanChange,
    NothingInCommon, Regression, RunComparison, TaskChange, TaskResult, UnchangedTask,
};
pub use self::page::ComparisonPage;
use super::scoring::{DEFAULT_PASS_SCORE, tasks};
use super::scoring_document::ScoringDocument;
use super::statistics::Evidence;
use crate::rules::run::deciders::EmbeddingsPin;
use crate::rules::run::record::EvalSpec;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};

/// One of the two runs.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSide<'a> {
    /// The run, and the other trials of its experiment.
    pub evidence: Evidence<'a>,
    pub spec: &'a EvalSpec,
    /// The suite of the run.
    pub suite: &'a AgentEvalSuite,
    /// The suite's scoring document.
    pub scoring: Option<&'a ScoringDocument>,
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
            tasks: Cow::Owned(task_digests(spec, self.suite, self.scoring)),
            settings: self.settings(),
            is_adversarial: spec.modes.contains(&EvalMode::Adversarial),
            safety_judge: safety_judge.map(|judge| judge.identity.as_str()),
            ignore: &spec.ignore,
        }
    }

    fn compared_run(&self) -> ComparedRun {
        let (run, spec) = (self.evidence.run, self.spec);
        let runs = self.evidence.trials();
        ComparedRun {
            run_id: run.run_id.clone(),
            run_ids: runs.iter().map(|run| run.run_id.clone()).collect(),
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
        let thresholds = side.suite.thresholds.unwrap_or_default();
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
mod tests;
