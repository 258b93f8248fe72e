//! The runs that are judged together.

use std::sync::Arc;

use super::results::{CollectedResults, RunResults, TaskFigures};
use crate::rules::eval::attempts::Attempt;
use crate::rules::eval::report::additions::Additions;
use crate::rules::eval::report::{EvalReport, RunTotals, totals};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::rules::run::task_ids::TaskIds;
use touchstone_openwop::suite::Thresholds;

/// A run as evidence: its report without the tasks, and their results.
#[derive(Clone, Debug)]
pub struct EvidenceRun {
    pub report: RunTotals,
    pub results: Arc<RunResults>,
}

impl EvidenceRun {
    pub fn of(report: &EvalReport) -> Self {
        Self {
            report: report.totals(),
            results: RunResults::of_report(report).into(),
        }
    }

    /// The same from the record of the run, its suite's thresholds, and its state.
    pub fn of_run(
        kinds: Kinds,
        record: &RunRecord,
        spec: &EvalSpec,
        thresholds: &Thresholds,
        state: &RunState,
    ) -> Self {
        Self {
            report: totals(kinds, record, spec, thresholds, state),
            results: RunResults::of_run(spec, &state.eval).into(),
        }
    }

    /// Adds what people added to the run after it was recorded.
    pub fn add(&mut self, additions: &Additions) {
        let annotated = additions.annotated_tasks().into_iter();
        let annotated = annotated.filter(|id| self.results.contains(id)).count();
        additions.add_to_totals(&mut self.report, annotated);
    }

    pub fn figures(&self) -> &TaskFigures {
        &self.results.figures
    }

    pub(super) fn unjudged(&self) -> usize {
        self.report.task_totals.unwrap_or_default().unjudged
    }
}

/// A run as evidence, with its scored tasks in suite order.
#[derive(Clone, Debug)]
pub struct ListedRun {
    pub run: EvidenceRun,
    pub order: TaskIds,
}

impl ListedRun {
    pub fn of(report: &EvalReport) -> Self {
        Self {
            run: EvidenceRun::of(report),
            order: report.tasks.iter().map(|it| &it.task_id).collect(),
        }
    }

    /// Evidence from the totals of a report and all of its tasks.
    pub fn collected(report: RunTotals, tasks: CollectedResults) -> Self {
        let results = Arc::new(tasks.finish());
        Self {
            order: results.ids.clone(),
            run: EvidenceRun { report, results },
        }
    }
}

/// The runs that are judged together.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The named run.
    pub run: EvidenceRun,
    /// The other trials of its experiment.
    pub further: Vec<EvidenceRun>,
    /// Number of missing trials of the experiment.
    pub missing: usize,
    /// Every attempt of the same agent at the same suite, including these runs; empty if attempts
    /// were not looked up.
    pub attempts: Vec<Attempt>,
}

impl Evidence {
    /// A single run.
    pub fn of(run: &EvalReport) -> Self {
        Self::of_run(EvidenceRun::of(run))
    }

    pub const fn of_run(run: EvidenceRun) -> Self {
        Self {
            run,
            further: Vec::new(),
            missing: 0,
            attempts: Vec::new(),
        }
    }

    /// All trials, in order.
    pub fn trials(&self) -> Vec<&EvidenceRun> {
        let mut trials: Vec<&EvidenceRun> =
            std::iter::once(&self.run).chain(&self.further).collect();
        trials.sort_by_key(|run| run.report.trial.as_ref().map(|trial| trial.index));
        trials
    }

    /// The reports of all trials, in order.
    pub fn reports(&self) -> impl Iterator<Item = &RunTotals> {
        self.trials().into_iter().map(|run| &run.report)
    }
}
