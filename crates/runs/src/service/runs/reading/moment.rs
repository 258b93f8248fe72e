//! A run in progress as it is at one moment.

use std::sync::Arc;

use crate::rules::eval::report::{RunTotals, TaskAnnotations, TaskReport, task_rows};
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::run::fold::EvalFacts;
use crate::rules::run::record::EvalSpec;
use crate::service::runs::Runs;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::summary::TaskSummary;

/// A run as it was at one moment: its totals and its tasks agree, whatever is scored later. It has the
/// facts of the tasks, which are a fraction of their documents.
pub struct RunMoment {
    pub totals: RunTotals,
    spec: Arc<EvalSpec>,
    facts: EvalFacts,
    annotations: TaskAnnotations,
}

impl RunMoment {
    /// The scored tasks among `most` tasks of the suite from the place `from` on; `None` after the last
    /// task of the suite.
    pub fn rows(&self, from: usize, most: usize) -> Option<Vec<(TaskSummary, TaskReport)>> {
        task_rows(&self.spec, &self.facts, &self.annotations, from, most)
    }
}

impl Runs {
    /// The run at this moment, with the verdict that accounts for chance.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn moment(&self, tenant: &TenantId, run: &RunId) -> Result<RunMoment, Problem> {
        let (record, spec) = self.eval_record(tenant, run).await?;
        let read = self.evidence_with(&record, &spec, |state| state.eval.clone());
        let (named, additions, facts) = read.await?;
        let (mut named, statistics) = self.assessed(&record, &spec, named).await?;
        account_for_chance(self.library.kinds, &mut named.report, &statistics);
        Ok(RunMoment {
            totals: named.report,
            spec,
            facts,
            annotations: additions.by_task(),
        })
    }
}
