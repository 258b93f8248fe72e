//! Folds events into one record per task (AAAF task record): its description, its outcome and its
//! quality.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::rules::appeal::ExcludedRevisions;
use crate::rules::config::Rules;
use crate::rules::evidence::{
    Cause, CompletionStatus, Data, Severity, TaskAssigned, TaskCompleted, TaskRevised,
};
use crate::rules::scoring::mean::{clamped, count};
use crate::rules::scoring::selection::{Selected, Selection};

pub struct TaskRecord {
    pub id: String,
    /// The time of the completion, or of the assignment if the task is open.
    pub at: Timestamp,
    pub active: bool,
    /// Its weight by age.
    pub weight: f64,
    pub level: Option<u8>,
    pub domain: Option<String>,
    /// The group of similar tasks.
    pub group: Option<String>,
    pub autonomy: Option<u8>,
    pub learning_eligible: bool,
    /// How much of the task is done, 0..=1.
    pub credit: f64,
    /// `None` while the task is open.
    pub quality: Option<Quality>,
    pub speed: Option<f64>,
    /// The share of review items that passed.
    pub review: Option<f64>,
}

/// The quality of a completed task.
#[derive(Clone, Copy)]
pub struct Quality {
    pub revisions: f64,
    pub errors: f64,
    /// 0..=1, of this task alone.
    pub accuracy: f64,
    /// Number of distinct revisions from events.
    pub revision_events: usize,
}

/// The task records, and the number of tasks with any evidence.
pub struct Tasks {
    pub records: Vec<TaskRecord>,
    /// Includes tasks with only tool calls, delegations or orchestration.
    pub with_evidence: usize,
}

impl Tasks {
    /// Folds the events of a selection.
    pub fn of(selection: &Selection<'_>, rules: &Rules, excluded: &ExcludedRevisions<'_>) -> Self {
        let mut by_task: BTreeMap<&str, Vec<Selected<'_>>> = BTreeMap::new();
        for selected in &selection.events {
            let task = selected.event.task_id.as_str();
            by_task.entry(task).or_default().push(*selected);
        }
        let mut with_evidence = 0;
        let mut records = Vec::new();
        for (id, events) in by_task {
            match fold(id, &events, selection, rules, excluded) {
                Fold::Record(record) => records.push(*record),
                Fold::Traces => {}
                Fold::Nothing => continue,
            }
            with_evidence += 1;
        }
        Self {
            records,
            with_evidence,
        }
    }
}

enum Fold {
    Record(Box<TaskRecord>),
    /// There is evidence, but neither an assignment nor a completion.
    Traces,
    /// The task was withdrawn or may still be in progress.
    Nothing,
}

/// The known facts about a task: the assigner's statements, then the agent's last ones.
#[derive(Clone, Copy)]
struct TaskFacts<'a> {
    assigned: Option<&'a TaskAssigned>,
    done: Option<&'a TaskCompleted>,
}

fn fold(
    id: &str,
    events: &[Selected<'_>],
    selection: &Selection<'_>,
    rules: &Rules,
    excluded: &ExcludedRevisions<'_>,
) -> Fold {
    let completed = events.iter().rev().find_map(|it| match &it.event.data {
        Data::TaskCompleted(done) => Some((it, done.as_ref())),
        _ => None,
    });
    let assigned = events.iter().find_map(|it| match &it.event.data {
        Data::TaskAssigned(assigned) => Some((it, assigned.as_ref())),
        _ => None,
    });
    let (anchor, done) = match (completed, assigned) {
        (Some((_, done)), _) if done.completion_status == CompletionStatus::Cancelled => {
            return Fold::Nothing;
        }
        (Some((anchor, done)), _) => (anchor, Some(done)),
        (None, Some((anchor, assigned))) => {
            let age = selection.window_end.duration_since(assigned.assigned_at);
            let grace = SignedDuration::from_secs(i64::from(rules.open_task_grace_seconds));
            if !anchor.active && age < grace {
                return Fold::Nothing;
            }
            (anchor, None)
        }
        (None, None) => return Fold::Traces,
    };
    let known = TaskFacts {
        assigned: selection.assignments.get(id).map(|(_, assigned)| *assigned),
        done,
    };
    Fold::Record(Box::new(TaskRecord {
        id: id.to_owned(),
        at: anchor.event.timestamp,
        active: anchor.active,
        weight: anchor.weight,
        level: known.level(),
        domain: known.domain().map(str::to_owned),
        group: known.group(),
        autonomy: known.autonomy(),
        learning_eligible: known.learning_eligible(),
        credit: done.map_or(0.0, credit),
        quality: done.map(|done| quality(id, done, events, rules, excluded)),
        speed: known.speed(rules),
        review: done.and_then(|done| review(done, rules)),
    }))
}

impl<'a> TaskFacts<'a> {
    fn level(self) -> Option<u8> {
        let stated = self.assigned.map(|it| it.complexity_level);
        stated
            .or(self.done.and_then(|it| it.complexity_level))
            .map(|it| it.get())
    }

    fn domain(self) -> Option<&'a str> {
        let stated = self.assigned.map(|it| it.domain.as_str());
        stated.or(self.done.and_then(|it| it.domain.as_deref()))
    }

    fn group(self) -> Option<String> {
        let stated = self.assigned.and_then(|it| it.task_group.as_deref());
        let named = stated.or(self.done.and_then(|it| it.task_group.as_deref()));
        named.map(str::to_owned).or_else(|| {
            let domain = self.domain().filter(|it| !it.is_empty())?;
            Some(format!("{domain}/L{}", self.level()?))
        })
    }

    fn autonomy(self) -> Option<u8> {
        let stated = self.done.and_then(|it| it.autonomy_level);
        stated
            .or(self.assigned.and_then(|it| it.autonomy_level))
            .map(|it| it.get())
    }

    fn learning_eligible(self) -> bool {
        let stated = self.done.and_then(|it| it.learning_eligible);
        stated
            .or(self.assigned.and_then(|it| it.learning_eligible))
            .unwrap_or(true)
    }

    /// 1 at the baseline or faster, 0 at twice the baseline; only for accepted tasks with a
    /// baseline.
    fn speed(self, rules: &Rules) -> Option<f64> {
        let done = self.done?;
        if done.completion_status != CompletionStatus::Accepted {
            return None;
        }
        let own = self.assigned.and_then(|it| it.baseline_seconds);
        let baseline = own.or_else(|| {
            let level = self.level()?.to_string();
            let by_domain = self
                .domain()
                .and_then(|it| rules.baseline_seconds_by_domain.get(it));
            let found = by_domain.and_then(|levels| levels.get(&level));
            found
                .or(rules.baseline_seconds_by_complexity.get(&level))
                .copied()
        })?;
        Some(clamped(2.0 - done.time_to_complete_seconds / baseline))
    }
}

fn credit(done: &TaskCompleted) -> f64 {
    let part = || done.milestone_fraction.map_or(0.0, clamped);
    match done.completion_status {
        CompletionStatus::Accepted if done.human_intervention != Some(true) => 1.0,
        CompletionStatus::Accepted | CompletionStatus::Partial => part(),
        _ => 0.0,
    }
}

fn quality(
    id: &str,
    done: &TaskCompleted,
    events: &[Selected<'_>],
    rules: &Rules,
    excluded: &ExcludedRevisions<'_>,
) -> Quality {
    let revised: Vec<&TaskRevised> = events
        .iter()
        .filter_map(|it| match &it.event.data {
            Data::TaskRevised(revised) => Some(revised),
            _ => None,
        })
        .collect();
    // A revision that is known not to be an error stays that way, whatever other events state.
    let mut no_errors: BTreeSet<u32> = excluded.of_task(id).collect();
    let not_the_agents = revised.iter().filter(|it| it.cause != Cause::Error);
    no_errors.extend(not_the_agents.map(|it| it.revision_number.get()));
    let counted: BTreeMap<u32, Severity> = revised
        .iter()
        .filter(|it| !no_errors.contains(&it.revision_number.get()))
        .map(|it| (it.revision_number.get(), it.reason_code))
        .collect();

    let severities = &rules.error_severity_weights;
    let sum = |all: &mut dyn Iterator<Item = Severity>| -> f64 { severity_sum(all, severities) };
    let stated = f64::from(done.revision_count.get()) - count(no_errors.len());
    let mut revisions = stated.max(count(counted.len())).max(0.0);
    // The three sources describe the same faults.
    let mut errors = sum(&mut done.errors.iter().map(|it| it.severity))
        .max(sum(&mut counted.values().copied()))
        .max(done.quality_score.map_or(0.0, |it| 1.0 - clamped(it)));
    if done.completion_status.is_failure() {
        revisions = revisions.max(1.0);
        errors = errors.max(1.0);
    }
    let accuracy = super::performance::blend_accuracy(
        clamped(1.0 - revisions),
        1.0 - (errors / rules.error_baseline_per_task).min(1.0),
    );
    Quality {
        revisions,
        errors,
        accuracy,
        revision_events: revised.len(),
    }
}

/// Counts by severity before multiplying: ten minor errors are then exactly 1, which a sum of
/// tenths is not.
fn severity_sum(
    all: &mut dyn Iterator<Item = Severity>,
    severities: &crate::rules::config::Severities,
) -> f64 {
    let (mut critical, mut major, mut minor) = (0, 0, 0);
    for severity in all {
        match severity {
            Severity::Critical => critical += 1,
            Severity::Major => major += 1,
            Severity::Minor => minor += 1,
        }
    }
    count(critical) * severities.critical
        + count(major) * severities.major
        + count(minor) * severities.minor
}

fn review(done: &TaskCompleted, rules: &Rules) -> Option<f64> {
    let submitted = done.review_checklist.as_ref()?;
    let (mut passed, mut applicable) = (0, 0);
    let mut count_item = |item: Option<&Option<bool>>| match item {
        // The item is not applicable.
        Some(None) => {}
        found => {
            applicable += 1;
            passed += usize::from(found == Some(&Some(true)));
        }
    };
    if rules.review_checklist_items.is_empty() {
        submitted.values().for_each(|item| count_item(Some(item)));
    } else {
        // A missing item fails.
        let asked = rules.review_checklist_items.iter();
        asked.for_each(|name| count_item(submitted.get(name)));
    }
    (applicable > 0).then(|| count(passed) / count(applicable))
}
