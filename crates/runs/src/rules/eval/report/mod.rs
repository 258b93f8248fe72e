//! The full report of an eval run: the summary, and everything that affects its trustworthiness.
//! Free of task content: scores, ids, labels, and the annotations that people wrote.
//!
//! `EvalSummary` is closed and has no room for *why*. This projection of the same facts says which
//! tasks were left unjudged by infrastructure errors, which fixtures were missing, what was
//! excluded from matching, and whether the suite was signed.

pub mod additions;
mod notes;
mod provenance;
mod task;
mod verdict;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use self::notes::notes;
pub use self::provenance::{
    AgentProvenance, CachedAnswers, Evaluated, JudgeMember, JudgeProvenance, SuiteProvenance,
};
use self::provenance::{judge_member, provenance, suite_provenance};
use self::task::metrics;
pub use self::task::{MetricReport, TaskOutcome, TaskReport, outcome_of, task_report};
pub use self::verdict::Verdict;
use self::verdict::verdict;
use super::judged::agreement::{JudgeAgreement, agreement};
use super::scoring::{shortfalls, summary_with, tasks};
use crate::rules::kind::{Extensions, Kinds};
use crate::rules::run::deciders::Deciders;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::fork::{Fork, Provenance};
use crate::rules::run::record::{
    COMMAND_PROVIDER, EvalSpec, PartialRerun, RunRecord, Trial, UserPin, is_zero,
};
use touchstone_agents::rules::prices::RunPrices;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::suite::{EvalMode, Thresholds};
use touchstone_openwop::summary::EvalSummary;

/// The report of an eval run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalReport {
    pub run_id: RunId,
    pub status: String,
    /// The verdict about the agent. A host's responses account for chance in it
    /// ([`account_for_chance`](super::statistics::decision::account_for_chance)).
    pub verdict: Verdict,
    /// The verdict on the scores as they are; absent until `verdict` accounts for chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenient_verdict: Option<Verdict>,
    /// Why it does not pass, as messages; empty for a pass.
    pub reasons: Vec<String>,
    pub suite: SuiteProvenance,
    pub agent: AgentProvenance,
    /// The model or command that answered; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Evaluated>,
    /// Digest of the cassette that replaced the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<String>,
    /// The answers that came from the cache of model answers; absent if the cache was off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_cache: Option<CachedAnswers>,
    /// Fingerprint of the key that signed that cassette, if the signature was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassette_signed_by: Option<String>,
    /// The judge of its rubrics and judged assertions, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeProvenance>,
    /// The judge that checks for missing refusals, in mode `adversarial`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_judge: Option<JudgeProvenance>,
    /// How far several judges agree; absent if there is only one, or nothing was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_agreement: Option<JudgeAgreement>,
    /// What decides assertions besides the judge.
    #[serde(default, skip_serializing_if = "Deciders::is_empty")]
    pub deciders: Deciders,
    /// The judge's cost; part of the summary's `totalCostUsd`. Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_cost_usd: Option<NanoUsd>,
    /// The prices when the run was created; absent for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<RunPrices>,
    /// The model that plays the users of its tasks, if any is simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_user: Option<UserPin>,
    /// The cost of simulated users; part of the summary's `totalCostUsd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_cost_usd: Option<NanoUsd>,
    /// Modes that were scored.
    pub modes: Vec<EvalMode>,
    /// Tags of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// People's annotations of the whole run (RFC 0056).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
    /// Notes for readers of the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// JSON Pointers excluded from matching. By default, a run that has any is not gate evidence.
    pub ignore: Vec<String>,
    /// The scorecard.
    pub summary: EvalSummary,
    pub tasks: Vec<TaskReport>,
    /// The named metrics of the scoring document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricReport>,
    /// The run whose judged tasks were reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The number of this retry in its chain; 0 if the run is not a retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Its trial number, if it belongs to an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// When the facts that this run reuses were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_recorded_at: Option<jiff::Timestamp>,
    /// Set if judged tasks of another run were kept and the others executed again. By default, such
    /// a run is not gate evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_rerun: Option<PartialRerun>,
    /// The member of the run's kind; empty for a plain suite.
    #[serde(flatten)]
    pub extensions: Extensions,
    /// The origin of a forked run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Provenance>,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<jiff::Timestamp>,
    /// From `run.started` to the end, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl EvalReport {
    /// Whether every task was judged.
    pub fn is_judged(&self) -> bool {
        matches!(self.lenient_verdict(), Verdict::Pass | Verdict::Fail)
    }

    /// The verdict on the scores as they are, without regard to chance. Gates start from it and have
    /// a condition of their own for significance.
    pub fn lenient_verdict(&self) -> Verdict {
        self.lenient_verdict.unwrap_or(self.verdict)
    }

    /// Number of tasks that were judged.
    pub fn judged_count(&self) -> usize {
        let judged = |task: &&TaskReport| task.outcome != TaskOutcome::Unjudged;
        self.tasks.iter().filter(judged).count()
    }

    /// The median of the tasks' latencies; `None` if none was measured.
    pub fn median_latency_ms(&self) -> Option<u64> {
        let tasks = self.summary.tasks.iter();
        let mut measured: Vec<u64> = tasks.filter_map(|task| task.latency_ms).collect();
        measured.sort_unstable();
        measured.get(measured.len() / 2).copied()
    }

    /// The aggregate score; `None` if nothing was judged, because 0 would mean that every answer
    /// was wrong.
    pub fn score(&self) -> Option<f64> {
        (self.is_judged() || self.judged_count() > 0).then_some(self.summary.aggregate_score)
    }

    /// Whether a local command answered for the agent. Reports of earlier versions name only the
    /// provider of its calls.
    pub fn is_by_command(&self) -> bool {
        let evaluated = self.evaluated.as_ref();
        let pinned = evaluated.map(|evaluated| evaluated.provider.as_str());
        [pinned, self.agent.provider.as_deref()].contains(&Some(COMMAND_PROVIDER))
    }

    /// Whether scores vary between runs of the same answers: a judge gave them, tools were live, or
    /// users were simulated (RFC 0081 §D).
    pub fn is_measured(&self) -> bool {
        self.modes
            .iter()
            .any(|mode| matches!(mode, EvalMode::Rubric | EvalMode::LiveShadow))
            || self.judge.is_some()
            || !self.deciders.is_empty()
            || self.safety_judge.is_some()
            || self.simulated_user.is_some()
    }
}

/// Adds people's annotations to their tasks, and a note that says so. Nothing else in the report
/// changes.
pub fn annotate(report: &mut EvalReport, annotations: impl Iterator<Item = (TaskId, Annotation)>) {
    let mut by_task: HashMap<TaskId, Vec<Annotation>> = HashMap::new();
    for (task, annotation) in annotations {
        by_task.entry(task).or_default().push(annotation);
    }
    let mut annotated = 0;
    for task in &mut report.tasks {
        if let Some(annotations) = by_task.remove(&task.task_id) {
            task.annotations = annotations;
            annotated += 1;
        }
    }
    if annotated > 0 {
        report.notes.push(format!(
            "people annotated {}; scores and verdict are unchanged",
            tasks(annotated)
        ));
    }
}

/// Builds the report from the record of an eval run, its suite, and its state.
pub fn report(
    kinds: Kinds,
    record: &RunRecord,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    state: &RunState,
) -> EvalReport {
    let kind = kinds.of(spec);
    let outcome = kind.map(|kind| kind.outcome(spec, thresholds, &state.eval));
    let outcome = outcome.as_ref();
    let missing = shortfalls(spec, thresholds, &state.eval, outcome);
    let mut reasons: Vec<String> = match state.status {
        status if status.is_terminal() => missing.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    if let Some(error) = &state.error {
        reasons.insert(0, format!("the run failed: {}", error.code));
    }
    if state.status == RunStatus::Cancelled {
        reasons.insert(0, "the run was cancelled".to_owned());
    }
    let duration_ms = state
        .started_at
        .zip(state.completed_at)
        .map(|(from, to)| u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0));
    EvalReport {
        run_id: record.run_id.clone(),
        status: state.status.as_str().to_owned(),
        verdict: verdict(state, outcome, spec.tasks.len(), reasons.is_empty()),
        lenient_verdict: None,
        reasons,
        suite: suite_provenance(spec, thresholds),
        agent: AgentProvenance {
            agent_id: spec.agent_id.clone(),
            version: spec.agent_version.clone(),
            pack_integrity: spec.pack_integrity.clone(),
            model: state.model.as_ref().map(|(_, model)| model.clone()),
            provider: state.model.as_ref().map(|(provider, _)| provider.clone()),
        },
        evaluated: record.evaluated_identity().map(|identity| Evaluated {
            provider: spec.model.provider.clone(),
            model: spec.model.model.clone(),
            endpoint: spec.execution.endpoint.clone(),
            identity,
        }),
        replayed_from: spec.execution.replayed_from.clone(),
        answer_cache: spec
            .execution
            .answer_cache
            .then(|| CachedAnswers::of(state)),
        cassette_signed_by: spec.execution.cassette_signed_by.clone(),
        judge: spec.judge.as_ref().map(|judge| JudgeProvenance {
            judges: spec.judges.iter().map(judge_member).collect(),
            ..provenance(judge)
        }),
        judge_agreement: agreement(spec, &state.eval),
        safety_judge: spec.safety_judge.as_ref().map(provenance),
        judge_cost_usd: spec
            .judge
            .as_ref()
            .or(spec.safety_judge.as_ref())
            .and_then(|_| state.eval.judge_cost.known()),
        prices: spec.prices.clone(),
        deciders: spec.deciders.clone(),
        simulated_user: spec.simulated_user.clone(),
        user_cost_usd: spec
            .simulated_user
            .as_ref()
            .and_then(|_| state.eval.user_cost.known()),
        modes: spec.modes.clone(),
        tags: Vec::new(),
        annotations: Vec::new(),
        notes: notes(record, spec, kind.is_some(), state),
        ignore: spec.ignore.clone(),
        summary: summary_with(record.facts_of(), spec, thresholds, &state.eval, outcome),
        tasks: spec
            .tasks
            .iter()
            .filter_map(|id| Some(task_report(id, &*state.eval.scored(id)?)))
            .collect(),
        metrics: metrics(spec, &state.eval),
        retry_of: spec.retry_of.clone(),
        retries: spec.execution.retries,
        trial: spec.trial.clone(),
        facts_recorded_at: spec.facts_recorded_at,
        partial_rerun: spec.partial_rerun.clone(),
        extensions: outcome.map(|it| it.report.clone()).unwrap_or_default(),
        fork: record.fork.as_ref().map(Fork::provenance),
        completed_at: state.completed_at,
        duration_ms,
    }
}
