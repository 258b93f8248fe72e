//! The full report of an eval run: the summary, and everything that affects its trustworthiness.
//! Free of task content: scores, ids, labels, and the annotations that people wrote.
//!
//! `EvalSummary` is closed and has no room for *why*. This projection of the same facts says which
//! tasks were left unjudged by infrastructure errors, which fixtures were missing, what was
//! excluded from matching, and whether the suite was signed.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::judged::agreement::{JudgeAgreement, agreement};
use super::rubric::calibration::Calibration;
use super::scoring::{DEFAULT_PASS_SCORE, mean, shortfalls, summary_with, tasks, unreadable};
use crate::rules::kind::{Extensions, KindOutcome, Kinds};
use crate::rules::run::deciders::Deciders;
use crate::rules::run::fold::{Cost, EvalFacts, RunState, RunStatus, TaskFacts};
use crate::rules::run::fork::{Fork, Provenance};
use crate::rules::run::record::{
    COMMAND_PROVIDER, EndpointPin, EvalSpec, JudgePin, PartialRerun, PinnedJudge, RunRecord,
    RunSpec, Trial, UserPin, is_zero,
};
use crate::rules::run::request::selection::TASK_SELECTION;
use touchstone_agents::rules::prices::RunPrices;
use touchstone_kit::ids::{AgentId, RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::suite::{EvalMode, Thresholds};
use touchstone_openwop::summary::EvalSummary;

/// The run's verdict about the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every task was judged, and every threshold met.
    Pass,
    /// Every task was judged, and a threshold missed.
    Fail,
    /// Not every task was judged, so there is no verdict.
    Inconclusive,
    Pending,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Pending => "pending",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskOutcome {
    /// It reached its pass score.
    Passed,
    Failed,
    /// Not judged because of an infrastructure error; says nothing about the agent.
    Unjudged,
}

/// One task with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    pub task_id: TaskId,
    pub outcome: TaskOutcome,
    /// Why it failed or was not judged, as a label; absent for a plain mismatch and for a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tools called without a response in the suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixture_missing: Vec<String>,
    /// Tools called that are not on the allowlist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<String>,
    /// Retried model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Whether each criterion of its rubric is met, in the rubric's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<bool>,
    /// Whether each assertion of the scoring document holds, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<bool>,
    /// Whether its cost is estimated by size because the endpoint reported no usage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The run that judged it, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_from: Option<RunId>,
    /// Annotations by people (RFC 0056). They do not change the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
}

/// A named metric over the tasks that measure it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricReport {
    pub name: String,
    /// 0.0..=1.0.
    pub mean: f64,
    /// Number of tasks that measure it.
    pub n_tasks: usize,
}

/// The origin of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteProvenance {
    pub suite_id: String,
    pub version: String,
    /// `sha256-<base64>` of the canonical document.
    pub digest: String,
    /// `sha256-<base64>` of the suite's scoring document, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_digest: Option<String>,
    /// Whether a trusted signature covers the suite; an imported one is never signed.
    pub signed: bool,
    /// Number of tasks in the whole suite.
    pub task_count: usize,
    /// Its pass score, 0.0..=1.0.
    pub pass_score: f64,
}

/// The evaluated agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentProvenance {
    pub agent_id: AgentId,
    /// The version of its pack.
    pub version: String,
    /// `sha256-<base64>` of its pack.
    pub pack_integrity: String,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// The model or command that answered for the agent, pinned when the run was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    /// Provider; `command` for a local command.
    pub provider: String,
    pub model: String,
    /// Its endpoint; absent for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
    /// Digest over agent, pack, provider and model.
    pub identity: String,
}

/// How many model answers came from the cache of model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedAnswers {
    pub cached: u64,
    /// All answers of models, the judge's included.
    pub answers: u64,
    /// What the cached ones would have cost; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_saved_usd: Option<NanoUsd>,
}

impl CachedAnswers {
    fn of(state: &RunState) -> Self {
        let tasks = || state.eval.tasks.values();
        let saved = tasks().fold(Cost::default(), |sum, task| sum + task.cost_saved);
        Self {
            cached: tasks().map(|task| task.cached_answers).sum(),
            answers: tasks().map(|task| task.answers).sum(),
            cost_saved_usd: saved.known(),
        }
    }
}

/// The judge of the rubrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeProvenance {
    pub provider: String,
    pub model: String,
    /// `sha256-<base64>` over model, prompt, rubrics and parameters: scores of different identities
    /// are not comparable.
    pub identity: String,
    /// Each of several judges; empty if there is only one. The members above then name the first
    /// model, and the identity of all judges together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeMember>,
    /// Its agreement with people, if it was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// One of several judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeMember {
    pub provider: String,
    pub model: String,
    /// `sha256-<base64>`.
    pub identity: String,
}

/// The report of an eval run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalReport {
    pub run_id: RunId,
    pub status: String,
    /// The verdict about the agent.
    pub verdict: Verdict,
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
        matches!(self.verdict, Verdict::Pass | Verdict::Fail)
    }

    /// Number of tasks that were judged.
    pub fn judged_count(&self) -> usize {
        let judged = |task: &&TaskReport| task.outcome != TaskOutcome::Unjudged;
        self.tasks.iter().filter(judged).count()
    }

    /// The aggregate score; `None` if nothing was judged, because 0 would mean that every answer was
    /// wrong.
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
        notes: notes(&record.spec, spec, kind.is_some(), state),
        ignore: spec.ignore.clone(),
        summary: summary_with(record.facts_of(), spec, thresholds, &state.eval, outcome),
        tasks: spec
            .tasks
            .iter()
            .filter_map(|id| Some(task_report(id, state.eval.scored(id)?)))
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

fn suite_provenance(spec: &EvalSpec, thresholds: &Thresholds) -> SuiteProvenance {
    SuiteProvenance {
        suite_id: spec.suite_id.clone(),
        version: spec.suite_version.clone(),
        digest: spec.suite_digest.clone(),
        scoring_digest: spec.scoring_digest.clone(),
        signed: spec.suite_signed,
        task_count: spec.suite_task_count,
        pass_score: thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE),
    }
}

/// The means of the named metrics, sorted by name.
fn metrics(spec: &EvalSpec, facts: &EvalFacts) -> Vec<MetricReport> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for task in spec.tasks.iter().filter_map(|id| facts.scored(id)) {
        for (name, value) in &task.metrics {
            values.entry(name).or_default().push(*value);
        }
    }
    let reports = values.into_iter().map(|(name, values)| MetricReport {
        name: name.to_owned(),
        n_tasks: values.len(),
        mean: mean(values.into_iter()),
    });
    reports.collect()
}

fn provenance(judge: &JudgePin) -> JudgeProvenance {
    JudgeProvenance {
        provider: judge.model.provider.clone(),
        model: judge.model.model.clone(),
        identity: judge.identity.clone(),
        judges: Vec::new(),
        calibration: None,
    }
}

fn judge_member(member: &PinnedJudge) -> JudgeMember {
    JudgeMember {
        provider: member.judge.model.provider.clone(),
        model: member.judge.model.model.clone(),
        identity: member.judge.identity.clone(),
    }
}

fn notes(run: &RunSpec, spec: &EvalSpec, has_kind: bool, state: &RunState) -> Vec<String> {
    let mut notes = Vec::new();
    let asked = run
        .configurable
        .get("evalConcurrency")
        .and_then(serde_json::Value::as_u64);
    if let Some(asked) = asked.filter(|asked| *asked > u64::from(spec.concurrency)) {
        notes.push(format!(
            "{asked} tasks in flight were requested, but {} are allowed: the minimum of \
             `limits.max_concurrency`, `limits.max_concurrency_per_tenant` and the model's \
             `max_concurrency`",
            spec.concurrency
        ));
    }
    if spec.modes_left_out.contains(&EvalMode::Regression) {
        notes.push(
            "no comparison was made: mode regression needs a baseline run (--baseline RUN)"
                .to_owned(),
        );
    }
    if spec.modes_left_out.contains(&EvalMode::LiveShadow) {
        notes.push(
            "no live tools were called: request mode live-shadow by itself (--mode live-shadow)"
                .to_owned(),
        );
    }
    if spec.tasks.len() < spec.suite_task_count && !has_kind {
        let reason = if run.configurable.contains_key(TASK_SELECTION) {
            "only those were selected, so a gate refuses the run unless its policy allows it"
        } else {
            "the others cannot be scored in these modes"
        };
        notes.push(format!(
            "{} of the suite's {} tasks took part; {reason}",
            spec.tasks.len(),
            spec.suite_task_count
        ));
    }
    if let Some(rerun) = &spec.partial_rerun {
        notes.push(format!(
            "kept {} judged in {} and executed the others again: not evidence for a gate unless \
             its policy allows it",
            tasks(rerun.kept_tasks),
            rerun.source_run_id
        ));
    }
    let CachedAnswers {
        cached, answers, ..
    } = CachedAnswers::of(state);
    if cached > 0 {
        notes.push(format!(
            "{cached} of {answers} model answers came from the cache: they cost nothing, their \
             latency is not the model's, and a gate refuses the run unless its policy allows replays"
        ));
    }
    if let Some(cassette) = &spec.execution.replayed_from {
        let signature = match &spec.execution.cassette_signed_by {
            Some(key) => format!("signed with key {key}"),
            None => "not signed with a key of this host".to_owned(),
        };
        notes.push(format!(
            "replayed from cassette {cassette}, {signature}: not evidence for a gate unless its \
             policy allows it"
        ));
    }
    notes
}

fn verdict(
    state: &RunState,
    outcome: Option<&KindOutcome>,
    planned: usize,
    meets_all: bool,
) -> Verdict {
    if !state.status.is_terminal() {
        return Verdict::Pending;
    }
    if unreadable(&state.eval, outcome) > 0 {
        return Verdict::Inconclusive;
    }
    if let Some(outcome) = outcome {
        // The verdict of a kind is valid even if the run was aborted.
        return match (outcome.is_judged, meets_all) {
            (true, true) => Verdict::Pass,
            (true, false) => Verdict::Fail,
            (false, _) => Verdict::Inconclusive,
        };
    }
    let judged = state
        .eval
        .tasks
        .values()
        .filter(|task| task.scored && task.unjudged.is_none())
        .count();
    match (state.status, judged < planned) {
        (RunStatus::Completed, false) if meets_all => Verdict::Pass,
        (RunStatus::Completed, false) => Verdict::Fail,
        _ => Verdict::Inconclusive,
    }
}

/// The outcome of a scored task.
pub const fn outcome_of(facts: &TaskFacts) -> TaskOutcome {
    match (&facts.unjudged, facts.passed) {
        (Some(_), _) => TaskOutcome::Unjudged,
        (None, true) => TaskOutcome::Passed,
        (None, false) => TaskOutcome::Failed,
    }
}

/// A scored task, with its reasons.
pub fn task_report(id: &TaskId, facts: &TaskFacts) -> TaskReport {
    TaskReport {
        task_id: id.clone(),
        outcome: outcome_of(facts),
        reason: facts.unjudged.clone().or_else(|| facts.failed.clone()),
        fixture_missing: facts.fixture_missing.clone(),
        forbidden_tools: facts.forbidden_tools.clone(),
        retries: facts.retries,
        criteria: facts.criteria.clone(),
        assertions: facts.assertions.clone(),
        cost_estimated: facts.usage_estimated,
        reused_from: facts.reused_from.clone(),
        annotations: Vec::new(),
    }
}
