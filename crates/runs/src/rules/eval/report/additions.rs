//! What people added to a run after it was recorded. Nothing of it changes scores or verdict.

use serde::{Deserialize, Serialize};

use super::{EvalReport, annotate};
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
    /// Adds them to the report as recorded.
    pub fn add_to(&self, report: &mut EvalReport) {
        if let Some(voided) = &self.voided {
            report.notes.push(format!(
                "voided by {} at {}: {}; its scores count for no gate",
                voided.principal, voided.at, voided.reason
            ));
        }
        if let Some(judge) = &mut report.judge {
            judge.calibration.clone_from(&self.calibration);
        }
        let mut of_tasks = Vec::new();
        for it in &self.annotations {
            match &it.task_id {
                Some(task) => of_tasks.push((task.clone(), it.annotation.clone())),
                None => report.annotations.push(it.annotation.clone()),
            }
        }
        annotate(report, of_tasks.into_iter());
        report.tags.clone_from(&self.tags);
    }
}
