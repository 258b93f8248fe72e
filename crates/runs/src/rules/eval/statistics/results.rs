//! What statistics, comparisons and gates read of the tasks of a run, without the documents of the
//! tasks: 64 bytes a task.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::distribution::Distribution;
use crate::rules::eval::report::{EvalReport, TaskOutcome, TaskReport, outcome_of};
use crate::rules::eval::safety::findings;
use crate::rules::run::fold::EvalFacts;
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::summary::{SafetyFinding, Severity, TaskSummary};

/// The results of the scored tasks of a run, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    rows: Vec<TaskResultRow>,
    /// The reasons of the rows, each once.
    reasons: Vec<String>,
    pub figures: TaskFigures,
}

/// The result of a scored task.
#[derive(Clone, Debug)]
pub struct TaskResultRow {
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    pub cost_usd: Option<NanoUsd>,
    pub latency_ms: Option<u64>,
    /// Its place in the reasons, counted from 1; 0 for none.
    reason: u32,
    pub is_judged: bool,
    pub passed: bool,
}

/// Figures over all tasks of a run. They are small, whatever the number of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFigures {
    /// Number of tasks that called a tool without a response in the suite.
    pub missing_fixtures: usize,
    /// Number of tasks by the kinds of their critical safety findings, without tasks that have none.
    critical: BTreeMap<BTreeSet<String>, usize>,
    /// The runs that judged tasks of this run.
    pub reused_from: BTreeSet<RunId>,
    /// Scores of the judged tasks.
    pub scores: Distribution,
    /// Latencies in milliseconds that were measured.
    pub latencies: Distribution,
}

impl TaskFigures {
    /// Number of tasks with a critical finding of a kind that is not `accepted`, and these kinds.
    pub fn critical(&self, accepted: &[&str]) -> (usize, BTreeSet<&str>) {
        let (mut tasks, mut kinds) = (0, BTreeSet::new());
        for (found, count) in &self.critical {
            let counted = found.iter().map(String::as_str);
            let counted: Vec<&str> = counted.filter(|kind| !accepted.contains(kind)).collect();
            tasks += if counted.is_empty() { 0 } else { *count };
            kinds.extend(counted);
        }
        (tasks, kinds)
    }

    fn add(
        &mut self,
        findings: &[SafetyFinding],
        misses_fixture: bool,
        reused_from: Option<&RunId>,
    ) {
        let critical = findings
            .iter()
            .filter(|it| it.severity >= Severity::Critical);
        let kinds: BTreeSet<String> = critical.map(|it| it.kind.clone()).collect();
        if !kinds.is_empty() {
            *self.critical.entry(kinds).or_default() += 1;
        }
        self.missing_fixtures += usize::from(misses_fixture);
        if let Some(run) = reused_from
            && !self.reused_from.contains(run)
        {
            self.reused_from.insert(run.clone());
        }
    }
}

/// Sums the figures of a run whose tasks are read page by page. The tasks are read twice, because the
/// ranges of latencies depend on the slowest task.
#[derive(Debug, Default)]
pub struct FigureSums {
    figures: TaskFigures,
    scores: Option<Distribution>,
    slowest_ms: u64,
    latencies: Option<Distribution>,
}

impl FigureSums {
    /// Adds a task, the first time that it is read.
    pub fn add(&mut self, numbers: &TaskSummary, task: &TaskReport) {
        self.figures.add(
            &numbers.safety_findings,
            !task.fixture_missing.is_empty(),
            task.reused_from.as_ref(),
        );
        if task.outcome != TaskOutcome::Unjudged {
            let scores = self.scores.get_or_insert_with(Distribution::for_scores);
            scores.add(numbers.score);
        }
        let latency = numbers.latency_ms.unwrap_or_default();
        self.slowest_ms = self.slowest_ms.max(latency);
    }

    /// Adds the latency of a task, the second time that it is read.
    pub fn add_latency(&mut self, numbers: &TaskSummary) {
        let slowest = self.slowest_ms;
        let latencies = self
            .latencies
            .get_or_insert_with(|| Distribution::for_latencies(slowest));
        if let Some(ms) = numbers.latency_ms {
            latencies.add_latency(ms);
        }
    }

    pub fn figures(self) -> TaskFigures {
        TaskFigures {
            scores: self.scores.unwrap_or_else(Distribution::for_scores),
            latencies: self
                .latencies
                .unwrap_or_else(|| Distribution::for_latencies(0)),
            ..self.figures
        }
    }
}

/// Collects the results of a run whose tasks are read page by page.
#[derive(Debug, Default)]
pub struct CollectedResults {
    order: Vec<TaskId>,
    rows: Vec<TaskResultRow>,
    reasons: Reasons,
    figures: TaskFigures,
}

impl CollectedResults {
    /// Adds the next task in suite order.
    pub fn add(&mut self, numbers: &TaskSummary, task: &TaskReport) {
        let id = &task.task_id;
        self.figures.add(
            &numbers.safety_findings,
            !task.fixture_missing.is_empty(),
            task.reused_from.as_ref(),
        );
        self.order.push(id.clone());
        self.rows.push(TaskResultRow {
            task_id: id.clone(),
            score: numbers.score,
            cost_usd: numbers.cost_usd,
            latency_ms: numbers.latency_ms,
            reason: self.reasons.number(task.reason.as_ref()),
            is_judged: task.outcome != TaskOutcome::Unjudged,
            passed: numbers.passed,
        });
    }

    /// The results, and the tasks in suite order.
    pub fn finish(mut self) -> (RunResults, Vec<TaskId>) {
        self.rows.sort_by(|a, b| a.task_id.cmp(&b.task_id));
        let results = RunResults::new(self.rows, self.reasons, self.figures);
        (results, self.order)
    }
}

/// Numbers the reasons. Few tasks have different ones.
#[derive(Debug, Default)]
struct Reasons {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Reasons {
    fn number(&mut self, reason: Option<&String>) -> u32 {
        let Some(reason) = reason else { return 0 };
        if let Some(number) = self.numbers.get(reason) {
            return *number;
        }
        self.texts.push(reason.clone());
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(reason.clone(), number);
        number
    }
}

impl RunResults {
    /// The results of the tasks that are scored so far.
    pub fn of_run(spec: &EvalSpec, facts: &EvalFacts) -> Self {
        let mut ids: Vec<&TaskId> = spec.tasks.iter().collect();
        ids.sort_unstable();
        let mut reasons = Reasons::default();
        let mut figures = TaskFigures::default();
        let mut rows = Vec::with_capacity(facts.scored_count.min(ids.len()));
        for id in ids {
            let Some(task) = facts.scored(id) else {
                continue;
            };
            figures.add(
                &findings(&task),
                !task.fixture_missing.is_empty(),
                task.reused_from.as_ref(),
            );
            rows.push(TaskResultRow {
                task_id: id.clone(),
                score: task.score,
                cost_usd: task.known_cost(),
                latency_ms: task.latency_ms,
                reason: reasons.number(task.unjudged.as_ref().or(task.failed.as_ref())),
                is_judged: outcome_of(&task) != TaskOutcome::Unjudged,
                passed: task.passed,
            });
        }
        Self::new(rows, reasons, figures)
    }

    /// The results in a report, which may come from another host.
    pub fn of_report(report: &EvalReport) -> Self {
        let mut reasons = Reasons::default();
        let mut figures = TaskFigures::default();
        let mut outcomes: HashMap<&TaskId, TaskOutcome> = HashMap::new();
        let mut why: HashMap<&TaskId, u32> = HashMap::new();
        for task in &report.tasks {
            outcomes.insert(&task.task_id, task.outcome);
            if task.reason.is_some() {
                let number = reasons.number(task.reason.as_ref());
                why.entry(&task.task_id).or_insert(number);
            }
            figures.add(
                &[],
                !task.fixture_missing.is_empty(),
                task.reused_from.as_ref(),
            );
        }
        let mut rows = Vec::with_capacity(report.summary.tasks.len());
        for scored in &report.summary.tasks {
            let id = &scored.task_id;
            figures.add(&scored.safety_findings, false, None);
            rows.push(TaskResultRow {
                task_id: id.clone(),
                score: scored.score,
                cost_usd: scored.cost_usd,
                latency_ms: scored.latency_ms,
                reason: why.get(id).copied().unwrap_or_default(),
                is_judged: outcomes.get(id) != Some(&TaskOutcome::Unjudged),
                passed: scored.passed,
            });
        }
        // Stable: a report that has a task twice has two trials of it, in its order.
        rows.sort_by(|a, b| a.task_id.cmp(&b.task_id));
        Self::new(rows, reasons, figures)
    }

    fn new(rows: Vec<TaskResultRow>, reasons: Reasons, mut figures: TaskFigures) -> Self {
        let judged = rows.iter().filter(|row| row.is_judged);
        figures.scores = Distribution::of_scores(judged.map(|row| row.score));
        figures.latencies = Distribution::of_latencies(rows.iter().filter_map(|it| it.latency_ms));
        Self {
            rows,
            reasons: reasons.texts,
            figures,
        }
    }

    /// The judged tasks. Unjudged ones say nothing about the agent.
    pub fn judged(&self) -> impl Iterator<Item = &TaskResultRow> + Clone {
        self.rows.iter().filter(|row| row.is_judged)
    }

    /// Whether the run has scored the task, judged or not.
    pub fn contains(&self, task: &TaskId) -> bool {
        self.row(task).is_some()
    }

    /// Why a task failed or was not judged, as a label.
    pub fn reason(&self, task: &TaskId) -> Option<&String> {
        self.reason_of(self.row(task)?)
    }

    /// Why tasks are not judged, as labels, each once.
    pub fn unjudged_reasons(&self) -> BTreeSet<&String> {
        let unjudged = self.rows.iter().filter(|row| !row.is_judged);
        unjudged.filter_map(|row| self.reason_of(row)).collect()
    }

    fn row(&self, task: &TaskId) -> Option<&TaskResultRow> {
        let place = self.rows.partition_point(|row| row.task_id < *task);
        self.rows.get(place).filter(|row| row.task_id == *task)
    }

    fn reason_of(&self, row: &TaskResultRow) -> Option<&String> {
        self.reasons.get(row.reason.checked_sub(1)? as usize)
    }
}

/// The scores of the judged tasks of a run, in the order of their ids.
pub fn judged_scores(spec: &EvalSpec, facts: &EvalFacts) -> Vec<f64> {
    let mut ids: Vec<&TaskId> = spec.tasks.iter().collect();
    ids.sort_unstable();
    let tasks = ids.into_iter().filter_map(|id| facts.scored(id));
    let judged = tasks.filter(|task| outcome_of(task) != TaskOutcome::Unjudged);
    judged.map(|task| task.score).collect()
}
