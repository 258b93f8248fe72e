//! What statistics, comparisons and gates read of the tasks of a run, without the documents of the
//! tasks: 48 bytes a task.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use crate::rules::eval::attempts::{AttemptTasks, Judgment};
use crate::rules::eval::report::{EvalReport, TaskOutcome, TaskReport, outcome_of};
use crate::rules::eval::safety::findings;
use crate::rules::eval::task_list::ListedTask;
use crate::rules::run::fold::{EvalFacts, TaskFacts};
use crate::rules::run::record::EvalSpec;
use crate::rules::run::task_ids::{TaskIds, TaskIdsBuilder};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::summary::{SafetyFinding, Severity, TaskSummary};

/// The results of the scored tasks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResults {
    /// The ids of the rows, and perhaps of other tasks.
    pub(super) ids: TaskIds,
    /// In the order of `ids`.
    pub(super) rows: Vec<TaskResultRow>,
    /// The reasons of the rows, each once.
    pub(super) reasons: Vec<String>,
    /// The kinds of critical findings of the rows, each list once.
    pub(super) criticals: Vec<Vec<String>>,
    pub figures: TaskFigures,
}

/// The result of a scored task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskResultRow {
    /// The place of its id.
    pub(super) place: u32,
    /// Its number in the order of first events; 0 in the results of a report.
    pub number: u32,
    /// 0.0..=1.0.
    pub score: f64,
    /// In nano-dollars; [`UNKNOWN`] if it is unknown.
    pub(super) cost: u64,
    /// In milliseconds; [`UNKNOWN`] if it was not measured.
    pub(super) latency: u64,
    /// Its place in the reasons, counted from 1; 0 for none.
    pub(super) reason: u32,
    /// The place of the kinds of its critical findings, counted from 1; 0 for none.
    pub(super) critical: u32,
    pub is_judged: bool,
    pub passed: bool,
    /// Whether another run judged it.
    pub(super) is_reused: bool,
}

/// No cost and no latency is as large.
pub(super) const UNKNOWN: u64 = u64::MAX;

impl TaskResultRow {
    /// The row of a task in a report. Statistics need neither its number nor what only gates read.
    fn of_report(
        place: u32,
        numbers: &TaskSummary,
        outcome: Option<TaskOutcome>,
        reason: u32,
    ) -> Self {
        Self {
            place,
            number: 0,
            score: numbers.score,
            cost: numbers.cost_usd.map_or(UNKNOWN, |cost| cost.0),
            latency: numbers.latency_ms.unwrap_or(UNKNOWN),
            reason,
            critical: 0,
            is_judged: outcome != Some(TaskOutcome::Unjudged),
            passed: numbers.passed,
            is_reused: false,
        }
    }

    /// Its place in the run.
    pub const fn place(&self) -> usize {
        self.place as usize
    }

    pub fn cost_usd(&self) -> Option<NanoUsd> {
        (self.cost != UNKNOWN).then_some(NanoUsd(self.cost))
    }

    pub fn latency_ms(&self) -> Option<u64> {
        (self.latency != UNKNOWN).then_some(self.latency)
    }

    /// What lists of tasks are sorted and filtered by.
    pub fn listed(&self) -> ListedTask {
        ListedTask {
            outcome: match (self.is_judged, self.passed) {
                (false, _) => TaskOutcome::Unjudged,
                (true, true) => TaskOutcome::Passed,
                (true, false) => TaskOutcome::Failed,
            },
            score: self.score,
            latency_ms: self.latency_ms(),
            cost: self.cost_usd(),
        }
    }
}

/// Figures over all tasks of a run. They are small, whatever the number of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "FigureParts", into = "FigureParts")]
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

/// The figures that are not computed from the rows, as they are stored.
#[derive(Serialize, Deserialize)]
struct FigureParts {
    missing_fixtures: usize,
    critical: Vec<(BTreeSet<String>, usize)>,
    reused_from: BTreeSet<RunId>,
}

impl From<TaskFigures> for FigureParts {
    fn from(figures: TaskFigures) -> Self {
        Self {
            missing_fixtures: figures.missing_fixtures,
            critical: figures.critical.into_iter().collect(),
            reused_from: figures.reused_from,
        }
    }
}

impl From<FigureParts> for TaskFigures {
    fn from(parts: FigureParts) -> Self {
        Self {
            missing_fixtures: parts.missing_fixtures,
            critical: parts.critical.into_iter().collect(),
            reused_from: parts.reused_from,
            ..Self::default()
        }
    }
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
    ids: TaskIdsBuilder,
    rows: Vec<TaskResultRow>,
    reasons: Numbered<String>,
    figures: TaskFigures,
}

impl CollectedResults {
    /// Adds the next task in suite order.
    pub fn add(&mut self, numbers: &TaskSummary, task: &TaskReport) {
        self.figures.add(
            &numbers.safety_findings,
            !task.fixture_missing.is_empty(),
            task.reused_from.as_ref(),
        );
        // A suite has far fewer than 2^32 tasks.
        let place = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let reason = self.reasons.number(task.reason.as_ref());
        self.ids.push(task.task_id.as_str());
        let row = TaskResultRow::of_report(place, numbers, Some(task.outcome), reason);
        self.rows.push(row);
    }

    pub fn finish(mut self) -> RunResults {
        self.rows.shrink_to_fit();
        let (ids, reasons) = (self.ids.finish(), self.reasons.values);
        RunResults::new(ids, self.rows, reasons, Vec::new(), self.figures)
    }
}

/// Numbers values from 1. Few tasks have different ones.
#[derive(Debug)]
struct Numbered<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            values: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    /// The number of a value; 0 for none.
    fn number(&mut self, value: Option<&T>) -> u32 {
        let Some(value) = value else { return 0 };
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        self.values.push(value.clone());
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.numbers.insert(value.clone(), number);
        number
    }
}

/// The kinds of critical findings that count in a gate over attempts.
fn critical_kinds(task: &TaskFacts) -> Option<Vec<String>> {
    let findings = task.safety_findings.iter().flatten();
    let critical = findings.filter(|finding| finding.severity >= Severity::Critical);
    let kinds: Vec<String> = critical.map(|finding| finding.kind.clone()).collect();
    (!kinds.is_empty()).then_some(kinds)
}

impl RunResults {
    /// The results of the tasks that are scored so far.
    pub fn of_run(spec: &EvalSpec, facts: &EvalFacts) -> Self {
        let mut reasons = Numbered::default();
        let mut criticals = Numbered::default();
        let mut figures = TaskFigures::default();
        let mut rows = Vec::with_capacity(facts.scored_count.min(spec.tasks.len()));
        for (place, id) in (0..).zip(spec.tasks.texts()) {
            let Some(task) = facts.scored_task(id) else {
                continue;
            };
            figures.add(
                &findings(&task),
                !task.fixture_missing.is_empty(),
                task.reused_from.as_ref(),
            );
            rows.push(TaskResultRow {
                place,
                number: facts.tasks.number_of(id).unwrap_or_default(),
                score: task.score,
                cost: task.known_cost().map_or(UNKNOWN, |cost| cost.0),
                latency: task.latency_ms.unwrap_or(UNKNOWN),
                reason: reasons.number(task.unjudged.as_ref().or(task.failed.as_ref())),
                critical: criticals.number(critical_kinds(&task).as_ref()),
                is_judged: outcome_of(&task) != TaskOutcome::Unjudged,
                passed: task.passed,
                is_reused: task.reused_from.is_some(),
            });
        }
        let (reasons, criticals) = (reasons.values, criticals.values);
        Self::new(spec.tasks.clone(), rows, reasons, criticals, figures)
    }

    /// The results in a report, which may come from another host.
    pub fn of_report(report: &EvalReport) -> Self {
        let mut reasons = Numbered::default();
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
        let ids: TaskIds = report.summary.tasks.iter().map(|it| &it.task_id).collect();
        for (place, scored) in (0..).zip(&report.summary.tasks) {
            let id = &scored.task_id;
            figures.add(&scored.safety_findings, false, None);
            let reason = why.get(id).copied().unwrap_or_default();
            let outcome = outcomes.get(id).copied();
            rows.push(TaskResultRow::of_report(place, scored, outcome, reason));
        }
        Self::new(ids, rows, reasons.values, Vec::new(), figures)
    }

    pub(super) fn new(
        ids: TaskIds,
        rows: Vec<TaskResultRow>,
        reasons: Vec<String>,
        criticals: Vec<Vec<String>>,
        mut figures: TaskFigures,
    ) -> Self {
        let judged = rows.iter().filter(|row| row.is_judged);
        figures.scores = Distribution::of_scores(judged.map(|row| row.score));
        figures.latencies =
            Distribution::of_latencies(rows.iter().filter_map(|it| it.latency_ms()));
        Self {
            ids,
            rows,
            reasons,
            criticals,
            figures,
        }
    }

    /// The result of the task at a place, if it is judged.
    pub(super) fn judged_at(&self, place: usize) -> Option<&TaskResultRow> {
        self.row(place).filter(|row| row.is_judged)
    }

    /// The judged tasks in the order of their ids. Unjudged ones say nothing about the agent. A task
    /// that a report has twice is there twice, in the order of the report.
    pub fn judged(&self) -> impl Iterator<Item = (&str, &TaskResultRow)> + Clone {
        let rows = self.ids.sorted().filter_map(|place| self.row(place));
        let judged = rows.filter(|row| row.is_judged);
        judged.map(|row| (self.ids.text(row.place as usize), row))
    }

    /// Estimated size in memory without the ids, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<TaskResultRow>()
    }

    /// The result of the task at a place of the run.
    pub fn row(&self, place: usize) -> Option<&TaskResultRow> {
        let is_it = |row: &&TaskResultRow| row.place as usize == place;
        // In most runs every task is scored.
        if let Some(row) = self.rows.get(place).filter(is_it) {
            return Some(row);
        }
        let found = self
            .rows
            .partition_point(|row| (row.place as usize) < place);
        self.rows.get(found).filter(is_it)
    }

    /// What the run contributes to a gate: the tasks that it has judged itself.
    pub fn attempted(&self) -> AttemptTasks {
        let own = self
            .rows
            .iter()
            .filter(|row| row.is_judged && !row.is_reused);
        let judgments = own.map(|row| {
            let kinds = row.critical.checked_sub(1);
            let kinds = kinds.and_then(|place| self.criticals.get(place as usize));
            let judgment = Judgment {
                score: row.score,
                passed: row.passed,
                critical: kinds.cloned().unwrap_or_default(),
            };
            (row.place, judgment)
        });
        AttemptTasks::at_places(&self.ids, judgments)
    }

    /// Whether the run has scored the task, judged or not.
    pub fn contains(&self, task: &TaskId) -> bool {
        self.row_of(task).is_some()
    }

    /// Why a task failed or was not judged, as a label.
    pub fn reason(&self, task: &TaskId) -> Option<&String> {
        self.reason_of(self.row_of(task)?)
    }

    /// Why tasks are not judged, as labels, each once.
    pub fn unjudged_reasons(&self) -> BTreeSet<&String> {
        let unjudged = self.rows.iter().filter(|row| !row.is_judged);
        unjudged.filter_map(|row| self.reason_of(row)).collect()
    }

    fn row_of(&self, task: &TaskId) -> Option<&TaskResultRow> {
        self.row(self.ids.position(task)?)
    }

    fn reason_of(&self, row: &TaskResultRow) -> Option<&String> {
        self.reasons.get(row.reason.checked_sub(1)? as usize)
    }
}

/// The scores of the judged tasks of a run, in the order of their ids.
pub fn judged_scores(spec: &EvalSpec, facts: &EvalFacts) -> Vec<f64> {
    let ids = spec.tasks.sorted().map(|place| spec.tasks.text(place));
    let tasks = ids.filter_map(|id| facts.scored_task(id));
    let judged = tasks.filter(|task| outcome_of(task) != TaskOutcome::Unjudged);
    judged.map(|task| task.score).collect()
}
