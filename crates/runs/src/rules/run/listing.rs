//! The list of runs: a row per run, projected from its record and, once it has ended, from its log.
//! Free of task content.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rules::eval::judged::agreement::JudgeAgreement;
use crate::rules::eval::report::{Verdict, totals};
use crate::rules::eval::statistics::{judged_scores, mean_interval};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::record::{EvalSpec, ModelPin, RunRecord, Trial, Work};
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::{EvalMode, Thresholds};
use touchstone_packs::rules::build::local::is_local;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    Eval,
    Workflow,
    /// Decisions of the host; no worker executes it.
    Journal,
}

impl RunKind {
    pub const ALL: [Self; 3] = [Self::Eval, Self::Workflow, Self::Journal];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eval => "eval",
            Self::Workflow => "workflow",
            Self::Journal => "journal",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteVersion {
    pub suite_id: String,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentVersion {
    pub agent_id: AgentId,
    pub version: String,
}

/// The part of a row that is known when the run is created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSubject {
    pub kind: RunKind,
    /// Absent for an eval run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<SuiteVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelPin>,
    /// Modes that are scored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<EvalMode>,
    /// Number of tasks to score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_count: Option<usize>,
    /// Whether the agent is from a folder that was evaluated as it was, without a release.
    pub local: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The run that this run is a fork of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<RunId>,
}

impl RunSubject {
    pub fn of(record: &RunRecord) -> Self {
        let kind = match &record.spec.work {
            Work::Eval(_) => RunKind::Eval,
            Work::Workflow(_) => RunKind::Workflow,
            Work::Journal => RunKind::Journal,
        };
        let fork_of = record.fork.as_ref().map(|fork| fork.source_run_id.clone());
        let Some(eval) = record.spec.eval() else {
            return Self {
                kind,
                workflow_id: Some(record.spec.workflow_id.clone()),
                suite: None,
                agent: None,
                model: None,
                modes: Vec::new(),
                task_count: None,
                local: false,
                trial: None,
                baseline_run_id: None,
                retry_of: None,
                fork_of,
            };
        };
        Self {
            kind,
            workflow_id: None,
            suite: Some(SuiteVersion {
                suite_id: eval.suite_id.clone(),
                version: eval.suite_version.clone(),
            }),
            agent: Some(AgentVersion {
                agent_id: eval.agent_id.clone(),
                version: eval.agent_version.clone(),
            }),
            model: Some(eval.model.clone()),
            modes: eval.modes.clone(),
            task_count: Some(eval.tasks.len()),
            local: is_local(&eval.agent_version),
            trial: eval.trial.clone(),
            baseline_run_id: eval.baseline.as_ref().map(|it| it.run_id.clone()),
            retry_of: eval.retry_of.clone(),
            fork_of,
        }
    }
}

/// The part of a row that is known once the run has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Absent for a run that is not an eval run. In the list, it accounts for chance; stored is the
    /// one of the run's own scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The verdict of the run's own scores, in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenient_verdict: Option<Verdict>,
    /// Aggregate score, 0.0..=1.0; absent if no task was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The confidence interval of the run's own score at 95 %, as a gate computes it: without the
    /// other attempts. Absent if no task was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_high: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<NanoUsd>,
    /// Median of the tasks' latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p50_ms: Option<u64>,
    /// The agreement of several judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_agreement: Option<JudgeAgreement>,
}

impl RunResult {
    /// The result of a run that is not an eval run.
    pub fn of(state: &RunState) -> Self {
        Self {
            completed_at: state.completed_at,
            verdict: None,
            lenient_verdict: None,
            score: None,
            score_low: None,
            score_high: None,
            judged_count: None,
            passed_count: None,
            total_cost_usd: None,
            latency_p50_ms: None,
            judge_agreement: None,
        }
    }

    /// The stored result with the verdict that accounts for chance, if it is decided.
    #[must_use]
    pub fn decided(self, verdict: Option<Verdict>) -> Self {
        Self {
            verdict: verdict.or(self.verdict),
            lenient_verdict: self.verdict,
            ..self
        }
    }

    pub fn of_eval(
        kinds: Kinds,
        record: &RunRecord,
        spec: &EvalSpec,
        thresholds: &Thresholds,
        state: &RunState,
    ) -> Self {
        let totals = totals(kinds, record, spec, thresholds, state);
        let tasks = totals.task_totals.unwrap_or_default();
        let interval = own_interval(&judged_scores(spec, &state.eval));
        Self {
            completed_at: state.completed_at,
            verdict: Some(totals.lenient_verdict()).filter(|it| *it != Verdict::Pending),
            lenient_verdict: None,
            score: totals.score(),
            score_low: interval.map(|(low, _)| low),
            score_high: interval.map(|(_, high)| high),
            judged_count: Some(tasks.judged()),
            passed_count: Some(totals.summary.passed_count),
            total_cost_usd: totals.summary.total_cost_usd,
            latency_p50_ms: tasks.median_latency_ms,
            judge_agreement: totals.judge_agreement,
        }
    }
}

/// The limits that a gate compares with the threshold, within 0.0..=1.0. Student's interval would
/// have no width for a run whose tasks all agree.
fn own_interval(scores: &[f64]) -> Option<(f64, f64)> {
    let (interval, _) = mean_interval(scores.chunks(1), 1)?;
    Some((interval.low.max(0.0), interval.high.min(1.0)))
}

/// A row of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunListing {
    pub run_id: RunId,
    pub status: String,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub subject: RunSubject,
    /// Absent while the run is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether a person declared the run void: its scores count for no gate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub voided: bool,
}

impl RunListing {
    pub fn position(&self) -> RunPosition {
        RunPosition {
            created_at: self.created_at,
            run_id: self.run_id.clone(),
        }
    }

    pub fn verdict(&self) -> Option<Verdict> {
        self.result.as_ref()?.verdict
    }

    /// The verdict of the run's own scores.
    pub fn lenient_verdict(&self) -> Option<Verdict> {
        let result = self.result.as_ref()?;
        result.lenient_verdict.or(result.verdict)
    }
}

/// A position in the list, which is ordered by time of creation and id, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPosition {
    pub created_at: Timestamp,
    pub run_id: RunId,
}

impl RunPosition {
    /// The text of a cursor.
    pub fn encode(&self) -> String {
        format!("{}.{}", self.created_at.as_microsecond(), self.run_id)
    }

    /// `None` if the text is not a cursor.
    pub fn decode(text: &str) -> Option<Self> {
        let (micros, run) = text.split_once('.')?;
        let of_id = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        (!run.is_empty() && run.bytes().all(of_id)).then_some(())?;
        Some(Self {
            created_at: Timestamp::from_microsecond(micros.parse().ok()?).ok()?,
            run_id: run.into(),
        })
    }
}

/// Conditions that rows must meet, and the requested part of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunQuery {
    pub kind: Option<RunKind>,
    /// The workflow; not for eval runs, which a query finds by their suite.
    pub workflow_id: Option<String>,
    pub suite_id: Option<String>,
    pub suite_version: Option<String>,
    pub agent_id: Option<String>,
    pub agent_version: Option<String>,
    /// Name of the agent's model.
    pub model: Option<String>,
    pub verdict: Option<Verdict>,
    pub status: Option<RunStatus>,
    pub tag: Option<String>,
    /// Each is a part of the name of the suite, the agent, the model or a tag; in lower case.
    pub words: Vec<String>,
    /// Start of the ids.
    pub id_prefix: Option<String>,
    /// Earliest time of creation.
    pub since: Option<Timestamp>,
    /// Time before which the runs were created.
    pub until: Option<Timestamp>,
    /// Rows after this one.
    pub after: Option<RunPosition>,
    pub limit: usize,
}

impl RunQuery {
    /// Only runs of this workflow. The workflow of an eval run is its suite:
    /// `eval:<suiteId>@<version>`.
    #[must_use]
    pub fn of_workflow(self, id: &str) -> Self {
        let suite = id.strip_prefix("eval:").and_then(|it| it.rsplit_once('@'));
        match suite {
            Some((suite, version)) => Self {
                kind: Some(RunKind::Eval),
                suite_id: Some(suite.to_owned()),
                suite_version: Some(version.to_owned()),
                ..self
            },
            None => Self {
                workflow_id: Some(id.to_owned()),
                ..self
            },
        }
    }
}

/// A change of a run's tags. A tag in both lists is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TagRequest {
    pub add: Vec<String>,
    pub remove: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[1.0; 20], 0.8, 1.0)]
    #[case(&[0.0; 20], 0.0, 0.2)]
    #[case(&[1.0], 0.0, 1.0)]
    fn tasks_that_agree_leave_doubt(#[case] scores: &[f64], #[case] low: f64, #[case] high: f64) {
        let found = own_interval(scores).unwrap();
        assert!(
            (found.0 - low).abs() < 0.05 && (found.1 - high).abs() < 0.05,
            "{found:?}"
        );
    }

    #[test]
    fn a_run_without_a_judged_task_has_no_interval() {
        assert_eq!(own_interval(&[]), None);
    }

    #[test]
    fn positions_round_trip_and_other_text_is_rejected() {
        let position = RunPosition {
            created_at: Timestamp::from_microsecond(-5).unwrap(),
            run_id: "run_0199c0de-1".into(),
        };
        assert_eq!(RunPosition::decode(&position.encode()), Some(position));
        for text in ["", ".", "x.y", "1", "1.", "1.a\0", "99999999999999999999.a"] {
            assert_eq!(RunPosition::decode(text), None, "{text:?}");
        }
    }
}
