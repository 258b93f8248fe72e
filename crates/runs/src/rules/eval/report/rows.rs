//! The tasks of a report, some at a time.

use std::collections::HashMap;

use super::{TaskReport, task_report};
use crate::rules::eval::scoring::task_summary;
use crate::rules::run::fold::EvalFacts;
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::summary::TaskSummary;

/// People's annotations of tasks.
pub type TaskAnnotations = HashMap<TaskId, Vec<Annotation>>;

/// The scored tasks among `most` tasks of the suite from the place `from` on, as they are in a report;
/// `None` after the last task of the suite.
pub fn task_rows(
    spec: &EvalSpec,
    facts: &EvalFacts,
    annotations: &TaskAnnotations,
    from: usize,
    most: usize,
) -> Option<Vec<(TaskSummary, TaskReport)>> {
    (from < spec.tasks.len()).then_some(())?;
    let rows = spec.tasks.from_place(from).take(most).filter_map(|id| {
        let task = facts.scored(&id)?;
        let mut report = task_report(&id, &task);
        if let Some(found) = annotations.get(&id) {
            report.annotations.clone_from(found);
        }
        Some((task_summary(&id, &task), report))
    });
    Some(rows.collect())
}
