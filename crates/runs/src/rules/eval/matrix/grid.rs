//! Which variant passes which task.

use serde::{Deserialize, Serialize};

use super::Variant;
use crate::rules::eval::statistics::{Trials, TrialsByTask};
use touchstone_kit::ids::TaskId;

/// A task and its result with every variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixTask {
    pub task_id: TaskId,
    /// In the order of the variants.
    pub results: Vec<MatrixCell>,
}

impl MatrixTask {
    /// Whether at least one variant passed it, and at least one failed it.
    pub fn is_disputed(&self) -> bool {
        let has = |outcome| self.results.iter().any(|cell| cell.outcome == outcome);
        has(CellOutcome::Passed) && has(CellOutcome::Failed)
    }

    /// Whether every variant has this outcome.
    pub fn all_are(&self, outcome: CellOutcome) -> bool {
        self.results.iter().all(|cell| cell.outcome == outcome)
    }
}

/// The result of a task with a variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixCell {
    pub outcome: CellOutcome,
    /// Mean score of the judged trials, 0.0..=1.0; `null` if none was judged.
    pub score: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellOutcome {
    /// In most trials.
    Passed,
    Failed,
    /// No trial was judged.
    Unjudged,
    /// The task is not in the variant's run.
    Absent,
}

/// The tasks of all variants: those of the first in its order, then those that only others have.
pub fn tasks(variants: &[Variant<'_>], trials: &[TrialsByTask]) -> Vec<MatrixTask> {
    let has = |variant: &Variant<'_>, id: &TaskId| variant.first.run.results.contains(id);
    let of_variants = variants.iter().enumerate().flat_map(|(n, variant)| {
        let earlier = variants.get(..n).unwrap_or_default();
        let order = variant.first.order.iter();
        order.filter(move |id| !earlier.iter().any(|it| has(it, id)))
    });
    of_variants
        .map(|id| MatrixTask {
            results: variants
                .iter()
                .zip(trials)
                .map(|(variant, trials)| cell(trials.get(id.as_str()), has(variant, &id)))
                .collect(),
            task_id: id,
        })
        .collect()
}

fn cell(trials: Option<Trials<'_>>, is_in_run: bool) -> MatrixCell {
    MatrixCell {
        outcome: match (trials, is_in_run) {
            (Some(trials), _) if trials.passes() => CellOutcome::Passed,
            (Some(_), _) => CellOutcome::Failed,
            (None, true) => CellOutcome::Unjudged,
            (None, false) => CellOutcome::Absent,
        },
        score: trials.and_then(Trials::mean_score),
    }
}
