//! The views of a run, computed from its archive.

use std::io::BufRead;

use serde_json::Value;

use super::reader::{Archive, ArchiveFault, read};
use crate::rules::eval::report::{EvalReport, RunTotals, TaskReport, task_rows};
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::eval::statistics::{Evidence, EvidenceRun, Statistics, statistics};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunState;
use crate::rules::run::snapshot::snapshot;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::summary::TaskSummary;

/// Tasks of the suite that are read at a time for the whole report.
const PAGE: usize = 1000;

/// An archived run and the fold of its log.
pub struct ArchivedRun {
    pub archive: Archive,
    state: RunState,
}

impl ArchivedRun {
    /// Reads an archive, folds its log, and passes every event to `event`.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read<R: BufRead>(
        file: R,
        key: Option<&PublicKey>,
        mut event: impl FnMut(&[u8]),
    ) -> Result<Self, ArchiveFault> {
        let mut state = RunState::default();
        let archive = read(file, key, |sequence, body| {
            state.apply_stored(sequence, body);
            event(body);
        })?;
        Ok(Self { archive, state })
    }

    /// The report that the host answered with if the version had no other attempt, because an archive
    /// holds one run, without its tasks; and the statistics of the run. `None` for a run that is not an
    /// eval run.
    pub fn assessed(&self, kinds: Kinds) -> Option<(RunTotals, Statistics)> {
        let contents = &self.archive.contents;
        let (record, state) = (&contents.record, &self.state);
        let eval = record.spec.eval()?;
        let thresholds = contents.thresholds.unwrap_or_default();
        let mut run = EvidenceRun::of_run(kinds, record, eval, &thresholds, state);
        run.add(&contents.additions);
        let evidence = Evidence::of_run(run);
        let found = statistics(&evidence, None, None);
        let mut totals = evidence.run.report;
        account_for_chance(kinds, &mut totals, &found);
        Some((totals, found))
    }

    /// The tasks of that report in suite order, `most` tasks of the suite at a time.
    pub fn rows(&self, most: usize) -> impl Iterator<Item = Vec<(TaskSummary, TaskReport)>> {
        let contents = &self.archive.contents;
        let annotations = contents.additions.by_task();
        let eval = contents.record.spec.eval();
        (0..).map_while(move |page| {
            task_rows(eval?, &self.state.eval, &annotations, page * most, most)
        })
    }

    /// That report with its tasks.
    pub fn report(&self, kinds: Kinds) -> Option<EvalReport> {
        let (totals, _) = self.assessed(kinds)?;
        Some(totals.with_tasks(self.rows(PAGE).flatten()))
    }

    /// The snapshot of the run.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn snapshot(&self, kinds: Kinds) -> Result<Value, serde_json::Error> {
        let record = &self.archive.contents.record;
        serde_json::to_value(snapshot(kinds, record, &self.state, false))
    }
}
