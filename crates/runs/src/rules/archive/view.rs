//! The views of a run, computed from its archive.

use std::io::BufRead;

use serde_json::Value;

use super::reader::{Archive, ArchiveFault, read};
use crate::rules::eval::report::{EvalReport, report};
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::eval::statistics::{Evidence, statistics};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunState;
use crate::rules::run::snapshot::snapshot;
use touchstone_kit::keys::PublicKey;

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
    /// holds one run; `None` for a run that is not an eval run.
    pub fn report(&self, kinds: Kinds) -> Option<EvalReport> {
        let contents = &self.archive.contents;
        let eval = contents.record.spec.eval()?;
        let thresholds = contents.thresholds.unwrap_or_default();
        let mut report = report(kinds, &contents.record, eval, &thresholds, &self.state);
        contents.additions.add_to(&mut report);
        let found = statistics(&Evidence::of(&report), None, None);
        account_for_chance(kinds, &mut report, &found);
        Some(report)
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
