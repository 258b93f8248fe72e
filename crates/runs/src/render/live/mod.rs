//! Progress of a run: running tasks, outcomes and cost so far.
//!
//! Uses the same fold as elsewhere, redrawn several times a second, without tasks that have ended. If all tasks fit, they are all
//! shown; otherwise the running tasks and the latest ones that did not pass.

pub mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, Row, Width};
use jiff::Timestamp;
use serde_json::Value;

use crate::render::live::pace::Pace;
use crate::render::words::{NO_SCORE, colour, cost_of, reason_of, sign, task_score};
use crate::rules::eval::report::{TaskOutcome, outcome_of, task_report};
use crate::rules::eval::scoring::task_summary;
use crate::rules::eval::tally::OutcomeCounts;
use crate::rules::run::fold::{RunState, TaskFacts};
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::{duration, plain, usd, usd_or_unknown};
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::AgentInvocationStarted;

/// Rows of a terminal of unknown size.
const DEFAULT_ROWS: usize = 24;
/// Rows besides tasks: bar, table lines, count of hidden tasks, prompt.
const OTHER_ROWS: usize = 7;
/// Maximum number of characters of a task's name.
const NAME_WIDTH: usize = 36;
/// Columns of padding next to a cell's text.
const PADDING: usize = 2;
/// Index of the cost column.
const COSTS: usize = 4;
/// Below this many columns, the table has no cost column.
const NARROWEST_COSTS: u16 = 72;
/// Frames of one second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A running task.
struct Running {
    task: TaskId,
    since: Duration,
    activity: String,
}

/// An ended task.
type Ended = (TaskId, TaskFacts);

/// The known state of a run.
#[derive(Default)]
pub struct Live {
    state: RunState,
    planned: Option<usize>,
    counts: OutcomeCounts,
    score: f64,
    running: Vec<Running>,
    /// Whether a model has answered.
    answered: bool,
    /// Ended tasks in order of their end, limited to [`KEPT`].
    ended: VecDeque<Ended>,
    /// Ended tasks that did not pass, with the same limit.
    not_passed: VecDeque<Ended>,
    /// Number of ended tasks whose facts are in the state.
    unforgotten: usize,
    /// Maximum name width so far, so that columns do not move back and forth.
    widest: usize,
    pace: Pace,
}

/// Maximum number of rows kept, more than any terminal shows.
const KEPT: usize = 200;

impl Live {
    /// Applies an event; all events must be given in order. `now` is the time since any fixed
    /// moment.
    pub fn apply(&mut self, event: &Value, now: Duration) {
        // The display needs no numbers. A skipped event must not hide later ones, and some logs
        // begin with the number 0.
        let mut numbered = event.clone();
        if let Some(sequence) = numbered.get_mut("sequence") {
            *sequence = (self.state.sequence + 1).into();
        }
        // An invalid event only affects the display: the result is fetched separately.
        if self.state.apply(numbered.to_string().as_bytes()).is_err() {
            return;
        }
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let payload = event.get("payload").unwrap_or(&Value::Null);
        let task = || text("nodeId").map(TaskId::from);
        let at = text("timestamp").and_then(|at| at.parse::<Timestamp>().ok());
        match text("type") {
            Some("eval.started") => {
                let planned = payload.get("taskCount").and_then(Value::as_u64);
                self.planned = planned.and_then(|tasks| usize::try_from(tasks).ok());
            }
            // The agent's own invocation encloses its workers' invocations.
            Some("agent.handoff" | "runOrchestrator.decided") => {
                self.set_activity(task(), "delegates");
            }
            Some("agent.invocation.started") if is_of_worker(payload) => {}
            Some("agent.invocation.started") => {
                self.pace.begins(at);
                if let Some(task) = task() {
                    self.begin(task, now);
                }
            }
            Some("agent.toolCalled") => {
                let tool = payload.get("toolName").and_then(Value::as_str);
                self.set_activity(task(), &format!("calls {}", tool.unwrap_or("a tool")));
            }
            Some("agent.toolReturned") => self.set_activity(task(), ASKING),
            Some("touchstone.model.retried") => self.set_activity(task(), "retries"),
            Some("agent.invocation.completed") => {
                let tasks = &self.state.eval.tasks;
                let facts = task().and_then(|task| tasks.get(&task));
                let still_open = facts.is_some_and(|facts| facts.open_invocation.is_some());
                self.set_activity(task(), if still_open { ASKING } else { "is scored" });
            }
            Some("eval.scored") => {
                let task = payload.get("taskId").and_then(Value::as_str);
                if let Some(task) = task.map(TaskId::from) {
                    let worked = self.running.iter().any(|running| running.task == task);
                    if worked {
                        self.pace.ends(at, now);
                    }
                    self.end(task);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, task: TaskId, now: Duration) {
        self.widest = self.widest.max(task.as_str().len().min(NAME_WIDTH));
        self.running.retain(|other| other.task != task);
        self.running.push(Running {
            task,
            since: now,
            activity: ASKING.to_owned(),
        });
    }

    fn set_activity(&mut self, task: Option<TaskId>, activity: &str) {
        let of_task = |running: &&mut Running| Some(&running.task) == task.as_ref();
        if let Some(running) = self.running.iter_mut().find(of_task) {
            activity.clone_into(&mut running.activity);
        }
    }

    fn end(&mut self, task: TaskId) {
        self.widest = self.widest.max(task.as_str().len().min(NAME_WIDTH));
        self.running.retain(|other| other.task != task);
        let Some(facts) = self.state.eval.scored(&task) else {
            return;
        };
        let ended = (task, facts.into_owned());
        self.score += ended.1.score;
        let outcome = outcome_of(&ended.1);
        self.counts.add(outcome);
        if outcome != TaskOutcome::Passed {
            keep(&mut self.not_passed, ended.clone());
        }
        keep(&mut self.ended, ended);
        self.unforgotten += 1;
        if self.unforgotten > KEPT {
            self.forget_ended();
        }
    }

    /// Removes ended tasks from the state: the display has counted them, and a run may have a million.
    fn forget_ended(&mut self) {
        let tasks = &mut self.state.eval.tasks;
        self.answered |= tasks.answered() > 0;
        let unscored = tasks.unscored();
        *tasks = unscored.map(|(id, facts)| (id, facts.clone())).collect();
        self.unforgotten = 0;
    }

    /// Total number of tasks, once known.
    pub fn planned(&self) -> Option<u64> {
        self.planned.map(|tasks| tasks as u64)
    }

    /// Number of ended tasks.
    pub fn ended(&self) -> u64 {
        self.counts.all() as u64
    }

    /// The outcome and the score of a task that has just ended.
    pub fn outcome(&self, task: &TaskId) -> Option<(TaskOutcome, f64)> {
        let mut latest = self.ended.iter().rev();
        let (_, facts) = latest.find(|(id, _)| id == task)?;
        Some((outcome_of(facts), facts.score))
    }

    /// Estimated remaining time, once it can be estimated.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let to_come = self.planned?.checked_sub(self.counts.all())?;
        self.pace.left(to_come, now)
    }

    /// The status on one line.
    pub fn line(&self, style: Style) -> String {
        let (counts, colors) = (self.counts, style.colors);
        let count = |outcome, n: usize, paint: &dyn Fn(&str) -> String| {
            let text = format!("{} {n}", sign(outcome));
            if n > 0 {
                paint(&text)
            } else {
                colors.faint(&text)
            }
        };
        let mut parts = vec![
            count(TaskOutcome::Passed, counts.passed, &|text| {
                colors.good(text)
            }),
            count(TaskOutcome::Failed, counts.failed, &|text| colors.bad(text)),
            count(TaskOutcome::Unjudged, counts.unjudged, &|text| {
                colors.doubtful(text)
            }),
        ];
        match counts.all() {
            0 => {}
            unjudged if unjudged == counts.unjudged => parts.push(format!("score {NO_SCORE}")),
            all => parts.push(format!("score {:.2}", self.score / all as f64)),
        }
        // Without an answer, there is no cost yet, whatever the price.
        match self.state.eval.total_cost.known() {
            None => parts.push("cost unknown".to_owned()),
            Some(cost) if self.answered || self.state.eval.tasks.answered() > 0 => {
                parts.push(usd(cost))
            }
            Some(_) => {}
        }
        parts.join("  ")
    }

    /// The task table, for a terminal with `rows` rows.
    pub fn tasks(&self, now: Duration, rows: Option<u16>, style: Style) -> String {
        let room = rows
            .map_or(DEFAULT_ROWS, usize::from)
            .saturating_sub(OTHER_ROWS);
        let fits = self.planned.is_some_and(|tasks| tasks <= room);
        let ended: Vec<&Ended> = match fits {
            true => self.ended.iter().collect(),
            false => {
                // Running tasks come first, with room for the latest tasks that did not pass.
                let least = self.not_passed.len().min(room / 3);
                let left = room.saturating_sub(self.running.len()).max(least);
                last(&self.not_passed, left).collect()
            }
        };
        let shown = room.saturating_sub(ended.len()).min(self.running.len());
        if ended.is_empty() && shown == 0 {
            return String::new();
        }
        let mut table = table::begin(style);
        for (task, facts) in ended {
            table.add_row(ended_row(task, facts));
        }
        // The longest-running tasks first.
        for running in self.running.iter().take(shown) {
            let cost = self.state.eval.tasks.get(&running.task);
            let cost = cost
                .filter(|facts| facts.answers > 0)
                .map(|facts| usd_or_unknown(facts.cost.known()))
                .unwrap_or_default();
            table.add_row(running_row(running, &cost, now));
        }
        let columns = style.width.unwrap_or(u16::MAX);
        let name = self.widest.min(usize::from(columns / 3));
        for (column, width) in table.column_iter_mut().zip([name, 1, 4, 8, 9]) {
            let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        let costs = table
            .column_mut(COSTS)
            .filter(|_| columns < NARROWEST_COSTS);
        if let Some(costs) = costs {
            costs.set_constraint(ColumnConstraint::Hidden);
        }
        let mut text = table.trim_fmt();
        let more = self.running.len() - shown;
        if more > 0 {
            let more = format!("\n   and {more} more running");
            text.push_str(&style.colors.faint(&more));
        }
        text
    }
}

const ASKING: &str = "waits for an answer";

fn is_of_worker(started: &Value) -> bool {
    let provider = started.get("resolvedProvider").and_then(Value::as_str);
    provider == Some(AgentInvocationStarted::WORKER_PROVIDER)
}

fn ended_row(task: &TaskId, facts: &TaskFacts) -> Row {
    let (numbers, report) = (task_summary(task, facts), task_report(task, facts));
    row(
        task,
        (sign(report.outcome), colour(report.outcome)),
        [
            task_score(&numbers, &report, 2),
            numbers.latency_ms.map(duration).unwrap_or_default(),
            cost_of(&numbers, &report),
        ],
        &reason_of(&numbers, &report),
    )
}

fn running_row(running: &Running, cost: &str, now: Duration) -> Row {
    let took = now.saturating_sub(running.since);
    let turn = took.as_millis() / 100 % SPINNER.len() as u128;
    let spinner = usize::try_from(turn)
        .ok()
        .and_then(|turn| SPINNER.get(turn));
    let seconds = format!("{} s", took.as_secs());
    row(
        &running.task,
        (spinner.copied().unwrap_or_default(), Color::Cyan),
        [String::new(), seconds, cost.to_owned()],
        &running.activity,
    )
}

fn row(task: &TaskId, (sign, colour): (&str, Color), numbers: [String; 3], activity: &str) -> Row {
    let mut name: String = plain(task.as_str()).chars().take(NAME_WIDTH).collect();
    if task.as_str().chars().count() > NAME_WIDTH {
        name.pop();
        name.push('…');
    }
    let mut cells = vec![Cell::new(name), Cell::new(sign).fg(colour)];
    let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
    cells.extend(numbers.map(right));
    // Labels come from the log, possibly of another host, and are untrusted.
    cells.push(Cell::new(plain(activity)));
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

fn keep(tasks: &mut VecDeque<Ended>, task: Ended) {
    if tasks.len() == KEPT {
        tasks.pop_front();
    }
    tasks.push_back(task);
}

fn last(tasks: &VecDeque<Ended>, n: usize) -> impl Iterator<Item = &Ended> {
    tasks.iter().skip(tasks.len().saturating_sub(n))
}
