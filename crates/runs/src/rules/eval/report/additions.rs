//! What people added to a run after it was recorded. Nothing of it changes scores or verdict.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{RunTotals, TaskAnnotations, note_annotated};
use crate::rules::eval::attempts::Voided;
use crate::rules::eval::rubric::calibration::Calibration;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::annotation::Annotation;

/// An annotation, and the task that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedAnnotation {
    /// Absent if it is about the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    pub annotation: Annotation,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Additions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<AddedAnnotation>,
    /// The declaration that the run is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voided: Option<Voided>,
    /// The judge's agreement with people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

impl Additions {
    /// Adds them to a report without its tasks, of which `annotated` have annotations.
    pub fn add_to_totals(&self, totals: &mut RunTotals, annotated: usize) {
        self.add_to_run(totals);
        note_annotated(totals, annotated);
    }

    /// The annotations of tasks.
    pub fn by_task(&self) -> TaskAnnotations {
        let mut by_task = TaskAnnotations::new();
        for it in &self.annotations {
            if let Some(task) = &it.task_id {
                let of_task = by_task.entry(task.clone()).or_default();
                of_task.push(it.annotation.clone());
            }
        }
        by_task
    }

    /// The tasks with annotations.
    pub fn annotated_tasks(&self) -> HashSet<&TaskId> {
        let tasks = self.annotations.iter();
        tasks.filter_map(|it| it.task_id.as_ref()).collect()
    }

    fn add_to_run(&self, report: &mut RunTotals) {
        if let Some(voided) = &self.voided {
            report.notes.push(format!(
                "voided by {} at {}: {}; its scores count for no gate",
                voided.principal, voided.at, voided.reason
            ));
        }
        if let Some(judge) = &mut report.judge {
            judge.calibration.clone_from(&self.calibration);
        }
        let of_run = self.annotations.iter().filter(|it| it.task_id.is_none());
        report
            .annotations
            .extend(of_run.map(|it| it.annotation.clone()));
        report.tags.clone_from(&self.tags);
    }
}
