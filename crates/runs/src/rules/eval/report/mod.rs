//! The full report of an eval run: the summary, and everything that affects its trustworthiness.
//! Free of task content: scores, ids, labels, and the annotations that people wrote.
//!
//! `EvalSummary` is closed and has no room for *why*. This projection of the same facts says which
//! tasks were left unjudged by infrastructure errors, which fixtures were missing, what was
//! excluded from matching, and whether the suite was signed.

pub mod additions;
mod notes;
mod provenance;
mod rows;
mod task;
mod verdict;

use serde::{Deserialize, Serialize, Serializer};

use self::notes::notes;
pub use self::provenance::{
    AgentProvenance, CachedAnswers, Evaluated, JudgeMember, JudgeProvenance, SuiteProvenance,
};
use self::provenance::{judge_member, provenance, suite_provenance};
pub use self::rows::{TaskAnnotations, task_rows};
use self::task::metrics;
pub use self::task::{MetricReport, ScoredTask, TaskOutcome, TaskReport, outcome_of, task_report};
pub use self::verdict::Verdict;
use self::verdict::verdict;
use super::judged::agreement::JudgeAgreement;
use super::scoring::{
    Shortfall, SummaryTotals, p95, scored_tasks, shortfalls, summary_with, task_summary, tasks,
};
use super::tally::{OutcomeCounts, Tally};
use crate::rules::kind::{Extensions, Kinds};
use crate::rules::run::deciders::Deciders;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::fork::{Fork, Provenance};
use crate::rules::run::record::{
    COMMAND_PROVIDER, EvalSpec, PartialRerun, RunRecord, Trial, UserPin, is_zero,
};
use touchstone_agents::rules::prices::RunPrices;
use touchstone_kit::ids::RunId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::suite::{EvalMode, Thresholds};
use touchstone_openwop::summary::{EvalSummary, TaskSummary};

/// The report of an eval run. `T` and `S` serialize as the lists of its tasks in the report and in
/// the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalReport<T = Vec<TaskReport>, S = Vec<TaskSummary>> {
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
    pub summary: EvalSummary<S>,
    pub tasks: T,
    /// Only in a report without its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_totals: Option<TaskTotals>,
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

/// A report without its tasks. It is small, whatever the number of tasks.
pub type RunTotals = EvalReport<NoTasks, NoTasks>;

/// The tasks of a document without its tasks: an empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoTasks;

impl Serialize for NoTasks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::empty::<()>())
    }
}

/// What the list of tasks says about all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTotals {
    pub passed: usize,
    pub failed: usize,
    pub unjudged: usize,
    /// Number of tasks whose cost is estimated.
    pub cost_estimated: usize,
    /// The median of the latencies that were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_latency_ms: Option<u64>,
    /// The nearest-rank 95th percentile of the latencies that were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_latency_ms: Option<u64>,
}

impl TaskTotals {
    fn of(tally: &Tally) -> Self {
        Self {
            passed: tally.outcomes.passed,
            failed: tally.outcomes.failed,
            unjudged: tally.outcomes.unjudged,
            cost_estimated: tally.estimated,
            median_latency_ms: tally.median_latency_ms(),
            p95_latency_ms: tally.p95_latency_ms(),
        }
    }

    pub const fn judged(&self) -> usize {
        self.passed + self.failed
    }
}

/// Counts the tasks of a report, which may be read page by page.
#[derive(Debug, Default)]
pub struct TaskCounter {
    outcomes: OutcomeCounts,
    cost_estimated: usize,
    /// In milliseconds, of the tasks that have one.
    latencies: Vec<u64>,
}

impl TaskCounter {
    pub fn add(&mut self, task: &TaskReport) {
        self.outcomes.add(task.outcome);
        self.cost_estimated += usize::from(task.cost_estimated);
    }

    pub fn add_numbers(&mut self, numbers: &TaskSummary) {
        self.latencies.extend(numbers.latency_ms);
    }

    pub fn totals(mut self) -> TaskTotals {
        self.latencies.sort_unstable();
        TaskTotals {
            passed: self.outcomes.passed,
            failed: self.outcomes.failed,
            unjudged: self.outcomes.unjudged,
            cost_estimated: self.cost_estimated,
            median_latency_ms: self.latencies.get(self.latencies.len() / 2).copied(),
            p95_latency_ms: p95(self.latencies),
        }
    }
}

impl RunTotals {
    /// As [`EvalReport::score`].
    pub fn score(&self) -> Option<f64> {
        let judged = self.task_totals.unwrap_or_default().judged();
        (self.is_judged() || judged > 0).then_some(self.summary.aggregate_score)
    }

    /// The report with its tasks.
    pub fn with_tasks(
        &self,
        tasks: impl IntoIterator<Item = (TaskSummary, TaskReport)>,
    ) -> EvalReport {
        let (numbers, tasks) = tasks.into_iter().unzip();
        self.with_lists(tasks, numbers, None)
    }
}

impl<T, S> EvalReport<T, S> {
    /// Whether every task was judged.
    pub fn is_judged(&self) -> bool {
        matches!(self.lenient_verdict(), Verdict::Pass | Verdict::Fail)
    }

    /// The verdict on the scores as they are, without regard to chance. Gates start from it and have
    /// a condition of their own for significance.
    pub fn lenient_verdict(&self) -> Verdict {
        self.lenient_verdict.unwrap_or(self.verdict)
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

    /// The report without its tasks, of which these are the totals.
    pub fn without_tasks(&self, totals: TaskTotals) -> RunTotals {
        self.with_lists(NoTasks, NoTasks, Some(totals))
    }

    /// The same report with these lists of tasks.
    fn with_lists<U, V>(
        &self,
        tasks: U,
        numbers: V,
        task_totals: Option<TaskTotals>,
    ) -> EvalReport<U, V> {
        let summary = &self.summary;
        EvalReport {
            run_id: self.run_id.clone(),
            status: self.status.clone(),
            verdict: self.verdict,
            lenient_verdict: self.lenient_verdict,
            reasons: self.reasons.clone(),
            suite: self.suite.clone(),
            agent: self.agent.clone(),
            evaluated: self.evaluated.clone(),
            replayed_from: self.replayed_from.clone(),
            answer_cache: self.answer_cache,
            cassette_signed_by: self.cassette_signed_by.clone(),
            judge: self.judge.clone(),
            safety_judge: self.safety_judge.clone(),
            judge_agreement: self.judge_agreement,
            deciders: self.deciders.clone(),
            judge_cost_usd: self.judge_cost_usd,
            prices: self.prices.clone(),
            simulated_user: self.simulated_user.clone(),
            user_cost_usd: self.user_cost_usd,
            modes: self.modes.clone(),
            tags: self.tags.clone(),
            annotations: self.annotations.clone(),
            notes: self.notes.clone(),
            ignore: self.ignore.clone(),
            summary: EvalSummary {
                suite_id: summary.suite_id.clone(),
                suite_version: summary.suite_version.clone(),
                evaluated_model_class: summary.evaluated_model_class,
                aggregate_score: summary.aggregate_score,
                passed: summary.passed,
                task_count: summary.task_count,
                passed_count: summary.passed_count,
                total_cost_usd: summary.total_cost_usd,
                tasks: numbers,
                regression: summary.regression.clone(),
            },
            tasks,
            task_totals,
            metrics: self.metrics.clone(),
            retry_of: self.retry_of.clone(),
            retries: self.retries,
            trial: self.trial.clone(),
            facts_recorded_at: self.facts_recorded_at,
            partial_rerun: self.partial_rerun.clone(),
            extensions: self.extensions.clone(),
            fork: self.fork.clone(),
            completed_at: self.completed_at,
            duration_ms: self.duration_ms,
        }
    }
}

impl EvalReport {
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

    /// The report without its tasks.
    pub fn totals(&self) -> RunTotals {
        self.without_tasks(self.task_totals())
    }

    /// What the list of tasks says about all of them.
    pub fn task_totals(&self) -> TaskTotals {
        if let Some(totals) = self.task_totals {
            return totals;
        }
        let mut counter = TaskCounter::default();
        self.tasks.iter().for_each(|task| counter.add(task));
        let numbers = self.summary.tasks.iter();
        numbers.for_each(|task| counter.add_numbers(task));
        counter.totals()
    }
}

fn note_annotated(report: &mut RunTotals, annotated: usize) {
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
    let count = state.eval.scored_count;
    let (mut tasks, mut numbers) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (id, task) in scored_tasks(spec, &state.eval) {
        tasks.push(task_report(&id, &task));
        numbers.push(task_summary(&id, &task));
    }
    let run = RecordedRun {
        record,
        spec,
        thresholds,
        state,
    };
    let tally = Tally::of(spec, &state.eval);
    run.report(kinds, &tally, tasks, numbers)
}

/// Builds the report without its tasks.
pub fn totals(
    kinds: Kinds,
    record: &RunRecord,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    state: &RunState,
) -> RunTotals {
    totals_of(
        kinds,
        record,
        spec,
        thresholds,
        state,
        &Tally::of(spec, &state.eval),
    )
}

/// As [`totals`], from the sums over the tasks. The state needs no facts of tasks.
pub fn totals_of(
    kinds: Kinds,
    record: &RunRecord,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    state: &RunState,
    tally: &Tally,
) -> RunTotals {
    let run = RecordedRun {
        record,
        spec,
        thresholds,
        state,
    };
    RunTotals {
        task_totals: Some(TaskTotals::of(tally)),
        ..run.report(kinds, tally, NoTasks, NoTasks)
    }
}

/// What a report is built from.
struct RecordedRun<'a> {
    record: &'a RunRecord,
    spec: &'a EvalSpec,
    thresholds: &'a Thresholds,
    state: &'a RunState,
}

impl RecordedRun<'_> {
    fn report<T, S>(&self, kinds: Kinds, tally: &Tally, tasks: T, numbers: S) -> EvalReport<T, S> {
        let Self {
            record,
            spec,
            thresholds,
            state,
        } = *self;
        let kind = kinds.of(spec);
        let outcome = kind.map(|kind| kind.outcome(spec, thresholds, &state.eval));
        let outcome = outcome.as_ref();
        let missing = shortfalls(spec, thresholds, &state.eval, outcome, tally);
        let reasons = self.reasons(&missing);
        let cached = CachedAnswers::of(state);
        let score = outcome.map_or_else(|| tally.score.value(), |it| it.aggregate_score);
        let summary = SummaryTotals {
            aggregate_score: score,
            passed: missing.is_empty(),
            tally,
        };
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
            answer_cache: spec.execution.answer_cache.then_some(cached),
            cassette_signed_by: spec.execution.cassette_signed_by.clone(),
            judge: spec.judge.as_ref().map(|judge| JudgeProvenance {
                judges: spec.judges.iter().map(judge_member).collect(),
                ..provenance(judge)
            }),
            judge_agreement: tally.decisions.agreement(),
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
            notes: notes(record, spec, kind.is_some(), cached),
            ignore: spec.ignore.clone(),
            summary: summary_with(record.facts_of(), spec, &state.eval, summary, numbers),
            tasks,
            task_totals: None,
            metrics: metrics(tally),
            retry_of: spec.retry_of.clone(),
            retries: spec.execution.retries,
            trial: spec.trial.clone(),
            facts_recorded_at: spec.facts_recorded_at,
            partial_rerun: spec.partial_rerun.clone(),
            extensions: outcome.map(|it| it.report.clone()).unwrap_or_default(),
            fork: Fork::provenance(record),
            completed_at: state.completed_at,
            duration_ms,
        }
    }

    /// Why the run does not pass.
    fn reasons(&self, missing: &[Shortfall]) -> Vec<String> {
        let state = self.state;
        let mut reasons: Vec<String> = match state.status.is_terminal() {
            true => missing.iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        };
        if let Some(error) = &state.error {
            reasons.insert(0, format!("the run failed: {}", error.code));
        }
        if state.status == RunStatus::Cancelled {
            reasons.insert(0, "the run was cancelled".to_owned());
        }
        reasons
    }
}

#[cfg(test)]
mod tests;
