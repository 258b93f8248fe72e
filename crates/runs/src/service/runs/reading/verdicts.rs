//! The verdicts of the list of runs, as the reports of the runs have them.
//!
//! The verdict of a run depends on the other runs of the same agent version and suite. So the end of
//! a run decides the verdicts of all of them again, when the next list needs them.

use std::collections::{HashMap, HashSet};

use tracing::warn;

use crate::rules::eval::report::Verdict;
use crate::rules::run::listing::RunSubject;
use crate::service::runs::Runs;
use crate::service::runs::shared::Assessed;
use crate::store::run_list::verdicts::{self, JudgedRun, Version};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_packs::rules::build::local::is_local;

/// Maximum number of reports that one list builds. The following lists build the others.
const MAX_REPORTS: u32 = 200;

impl Runs {
    /// Decides the verdicts of runs that have ended since the last list, and of those that depend on
    /// them.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn decide_missing_verdicts(&self, tenant: &TenantId) -> Result<(), Problem> {
        let found = verdicts::undecided(&self.store, tenant, MAX_REPORTS).await;
        let mut reports = MAX_REPORTS;
        for version in found.map_err(|cause| internal(&cause))? {
            if reports == 0 {
                break;
            }
            self.decide_version(tenant, &version, &mut reports).await?;
        }
        Ok(())
    }

    /// Builds at most `reports` reports, and counts them.
    async fn decide_version(
        &self,
        tenant: &TenantId,
        version: &Version,
        reports: &mut u32,
    ) -> Result<(), Problem> {
        let runs = verdicts::of_version(&self.store, tenant, version).await;
        let runs = runs.map_err(|cause| internal(&cause))?;
        let is_local = is_local(&version.agent_version);
        let mut found: HashMap<&RunId, Verdict> = HashMap::new();
        // If there are too many, those without a verdict come first.
        let (missing, others): (Vec<_>, Vec<_>) = runs.iter().partition(|it| it.decided.is_none());
        for run in missing.iter().chain(&others) {
            if found.contains_key(&run.run_id) || (is_local && run.decided.is_some()) {
                continue;
            }
            // The trials of local work depend on each other, whatever their verdict.
            if run.lenient != Verdict::Pass && !(is_local && run.subject.trial.is_some()) {
                found.insert(&run.run_id, run.lenient);
                continue;
            }
            let Some(left) = reports.checked_sub(1) else {
                break;
            };
            *reports = left;
            let assessed = match self.shared_totals(tenant, &run.run_id).await {
                Ok(assessed) => assessed,
                // It was deleted meanwhile.
                Err(problem) if problem.code == ErrorCode::NotFound => continue,
                // A damaged run must not keep others out of the list.
                Err(problem) => {
                    warn!(run_id = %run.run_id, cause = %problem.message, "could not decide the run's verdict for the list of runs");
                    continue;
                }
            };
            found.insert(&run.run_id, assessed.report.verdict);
            let same = decided_by_the_same(run, &assessed);
            let same = |other: &&JudgedRun| {
                other.lenient == Verdict::Pass
                    && same.contains(&other.run_id)
                    && belongs_together(&run.subject, &other.subject)
            };
            for other in runs.iter().filter(same) {
                let verdict = assessed.statistics.gate.verdict.into();
                found.entry(&other.run_id).or_insert(verdict);
            }
        }
        for verdict in [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive] {
            let changed: Vec<&RunId> = runs
                .iter()
                .filter(|run| found.get(&run.run_id) == Some(&verdict))
                .filter(|run| run.decided != Some(verdict))
                .map(|run| &run.run_id)
                .collect();
            if !changed.is_empty() {
                // The list is readable while the database is not writable.
                if let Err(cause) = verdicts::decide(&self.store, &changed, verdict).await {
                    let cause = anyhow::Error::new(cause);
                    warn!(
                        cause = format!("{cause:#}"),
                        "could not store verdicts for the list of runs"
                    );
                }
            }
        }
        Ok(())
    }
}

/// The runs whose scores decide the verdict of `run`, if they decide theirs too.
fn decided_by_the_same<'a>(run: &JudgedRun, assessed: &'a Assessed) -> HashSet<&'a RunId> {
    let attempts = &assessed.statistics.gate.attempts;
    let runs: HashSet<&RunId> = match run.subject.trial {
        Some(_) => assessed.statistics.run_ids.iter().collect(),
        // Where runs are void, tasks of some runs are missing. A run with an ignore list counts only
        // for runs that have one too.
        None if !attempts.voided.is_empty() || !assessed.report.ignore.is_empty() => HashSet::new(),
        None => attempts.run_ids.iter().collect(),
    };
    // A replay is not one of the attempts that decide its verdict.
    match runs.contains(&run.run_id) {
        true => runs,
        false => HashSet::new(),
    }
}

/// Whether both are trials of one experiment, or single runs that judged all of their tasks
/// themselves.
fn belongs_together(a: &RunSubject, b: &RunSubject) -> bool {
    let is_single = |it: &RunSubject| it.retry_of.is_none() && it.fork_of.is_none();
    match (&a.trial, &b.trial) {
        (Some(a), Some(b)) => a.experiment_id == b.experiment_id,
        (None, None) => is_single(a) && is_single(b),
        _ => false,
    }
}
