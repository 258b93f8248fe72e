//! Evidence folded a few tasks at a time: one record per task is kept, however many events there
//! are.

use crate::rules::appeal::{self, ExcludedRevisions, Override, OverrideFault};
use crate::rules::assessment::{Assessment, Measured};
use crate::rules::config::Config;
use crate::rules::evidence::Event;
use crate::rules::scoring::capability::{self, Traces};
use crate::rules::scoring::digest::EvidenceDigest;
use crate::rules::scoring::interval::{self, Resampled};
use crate::rules::scoring::performance::{self, WeightedTasks};
use crate::rules::scoring::selection::Selection;
use crate::rules::scoring::task::{TaskRecord, Tasks};

/// The evidence added so far.
#[derive(Default)]
pub struct FoldedEvidence {
    records: Vec<TaskRecord>,
    /// Number of tasks with any evidence.
    with_evidence: usize,
    traces: Traces,
    basis: EvidenceDigest,
}

impl FoldedEvidence {
    /// Adds all events of some tasks, modified by overrides.
    ///
    /// # Errors
    /// An override that does not fit.
    pub fn add(
        &mut self,
        events: &[Event],
        assessment: &Assessment,
        config: &Config,
        overrides: &[Override],
    ) -> Result<(), OverrideFault> {
        let seen = appeal::view(events, overrides)?;
        let selection = Selection::of(seen.iter().map(AsRef::as_ref), assessment, &config.rules);
        let tasks = Tasks::of(&selection, &config.rules, &ExcludedRevisions::by(overrides));
        self.records.extend(tasks.records);
        self.with_evidence += tasks.with_evidence;
        self.traces.add(&selection, &config.rules);
        self.basis.add(&selection);
        Ok(())
    }

    /// Number of tasks that count for performance, and for capability.
    pub fn tasks(&self) -> (usize, usize) {
        (self.records.len(), self.with_evidence)
    }

    /// Measures resampled tasks.
    pub fn resampled(&mut self, config: &Config) -> Resampled {
        self.sort();
        interval::resampled(&self.records, config)
    }

    fn sort(&mut self) {
        self.records
            .sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    }

    pub fn measured(mut self, config: &Config) -> Measured {
        self.sort();
        let records: Vec<&TaskRecord> = self.records.iter().collect();
        Measured {
            performance: performance::measure(WeightedTasks::by_age(&records), &config.rules),
            capability: capability::measure(&records, &self.traces, config),
            tasks_performance: records.len(),
            tasks_capability: self.with_evidence,
            evidence: self.basis.finish(),
        }
    }
}
