//! From the facts of two runs to the comparison.

use std::collections::HashSet;

use serde_json::Value;

use super::change::{change, change_kind, flips_note, score_change};
use super::comparable::{PlannedTasks, excluded, nothing_in_common};
use super::document::{
    ComparedRun, Difference, ExcludedTask, NothingInCommon, Regression, RunComparison, TaskChange,
    TaskResult, UnchangedTasks, is_whole,
};
use super::notes::notes;
use crate::rules::eval::statistics::{
    CONFIDENCE, Evidence, Pairs, Places, REGRESSION_CONFIDENCE, RunResults, Trials, TrialsByTask,
    by_task, difference,
};
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::statistics::RegressionVerdict;

/// What a comparison reads of a run, from the host's records or from an attestation.
pub struct RunFacts<'a> {
    pub run: ComparedRun,
    pub evidence: &'a Evidence,
    /// The planned tasks, in order.
    pub order: TaskIds,
    pub tasks: PlannedTasks<'a>,
    /// The settings that can differ, most important first.
    pub settings: Vec<(&'static str, Value)>,
    /// Whether it has the mode `adversarial`, in which safety findings count.
    pub is_adversarial: bool,
    /// The identity of the judge of safety.
    pub safety_judge: Option<&'a str>,
    pub ignore: &'a [String],
}

impl RunFacts<'_> {
    fn suite_ref(&self) -> String {
        format!("{}@{}", self.run.suite_id, self.run.suite_version)
    }
}

/// Compares two runs. `suites_differ` makes the first notes, from the number of compared tasks.
///
/// # Errors
/// [`NothingInCommon`].
pub fn conclude(
    baseline: RunFacts<'_>,
    candidate: RunFacts<'_>,
    suites_differ: impl FnOnce(usize) -> Vec<String>,
    diff_ref: String,
) -> Result<RunComparison, NothingInCommon> {
    let [before, now] = [&baseline, &candidate].map(|run| {
        let trials = run.evidence.trials().into_iter();
        let results: Vec<&RunResults> = trials.map(|run| &*run.results).collect();
        by_task(&results)
    });
    let order = &candidate.order;
    let places = [&before, &now].map(|it| it.places_in(order));
    let left_out = excluded(&baseline, &candidate, &places);
    if nothing_in_common(&candidate, &left_out) {
        return Err(NothingInCommon {
            baseline: baseline.suite_ref(),
            candidate: candidate.suite_ref(),
        });
    }
    let left: HashSet<&str> = left_out.iter().map(|task| task.task_id.as_str()).collect();
    let before = before.without(|task| left.contains(task));
    let now = now.without(|task| left.contains(task));
    let places = match left.is_empty() {
        true => places,
        false => [&before, &now].map(|it| it.places_in(order)),
    };
    let mut all_notes = suites_differ(now.count());
    all_notes.extend(notes(&baseline, &candidate, &left_out));
    let comparable = Comparable {
        evidence: [baseline.evidence, candidate.evidence],
        differences: differences(baseline.settings, candidate.settings),
        notes: all_notes,
        order: candidate.order,
        runs: [baseline.run, candidate.run],
        before,
        now,
        places,
        left_out,
    };
    Ok(comparable.concluded(diff_ref))
}

/// The settings that differ.
fn differences(
    baseline: Vec<(&'static str, Value)>,
    candidate: Vec<(&'static str, Value)>,
) -> Vec<Difference> {
    let pairs = baseline.into_iter().zip(candidate);
    pairs
        .filter(|((_, was), (_, is))| was != is)
        .map(|((what, baseline), (_, candidate))| Difference {
            what: what.to_owned(),
            baseline,
            candidate,
        })
        .collect()
}

/// Two runs and their comparable tasks. Pairs are baseline and candidate.
struct Comparable<'a> {
    runs: [ComparedRun; 2],
    evidence: [&'a Evidence; 2],
    /// The candidate's tasks.
    order: TaskIds,
    before: TrialsByTask,
    now: TrialsByTask,
    /// Where the tasks of both are in `order`.
    places: [Places; 2],
    left_out: Vec<ExcludedTask>,
    differences: Vec<Difference>,
    notes: Vec<String>,
}

impl Comparable<'_> {
    fn concluded(mut self, diff_ref: String) -> RunComparison {
        let [was, is] = &self.runs;
        let tasks = Pairs::of(&self.before, &self.now);
        let tested = difference(&tasks, &was.run_id);
        self.notes.extend(flips_note(&tested));
        let is_whole = is_whole(was.missing_trials + is.missing_trials, &self.left_out);
        RunComparison {
            n_tasks: self.now.count(),
            score: score_change(&tasks),
            cost_usd: change(&tasks, Trials::mean_cost),
            latency_ms: change(&tasks, Trials::mean_latency),
            confidence: CONFIDENCE,
            fixed: tested.fixed,
            broke: tested.broken,
            mcnemar_p: tested.mcnemar_p,
            regression: Regression {
                verdict: match tested.verdict {
                    // An unjudged task may be one that got worse.
                    RegressionVerdict::NotWorse if !is_whole => RegressionVerdict::Inconclusive,
                    // A run is identical to itself, so there is no sampling error.
                    RegressionVerdict::Inconclusive if was.run_ids == is.run_ids && is_whole => {
                        RegressionVerdict::NotWorse
                    }
                    verdict => verdict,
                },
                margin: tested.margin,
                confidence: REGRESSION_CONFIDENCE,
                low: tested.low,
                high: tested.high,
            },
            changes: self.changes(),
            unchanged: self.unchanged(),
            baseline: was.clone(),
            candidate: is.clone(),
            differences: self.differences,
            notes: self.notes,
            left_out: self.left_out,
            diff_ref,
        }
    }

    fn changes(&self) -> Vec<TaskChange> {
        let [baseline, candidate] = self.evidence;
        let changed = |place: usize| {
            let (was, is) = self.pair(place)?;
            let turn = change_kind(was, is)?;
            let task_id = self.order.get(place)?;
            Some(TaskChange {
                turn,
                baseline: TaskResult::of(was, baseline.reason(&task_id)),
                candidate: TaskResult::of(is, candidate.reason(&task_id)),
                task_id,
            })
        };
        let places = 0..self.order.len();
        let mut changes: Vec<TaskChange> = places.filter_map(changed).collect();
        changes.sort_by_key(|change| change.turn);
        changes
    }

    fn unchanged(&self) -> UnchangedTasks {
        let same = |(number, place): (u32, usize)| {
            let (was, is) = self.pair(place)?;
            let score = is.mean_score().unwrap_or_default();
            let is_same = change_kind(was, is).is_none();
            is_same.then(|| (number, is.passes(), score))
        };
        let places = (0..).zip(0..self.order.len());
        UnchangedTasks::of(&self.order, places.filter_map(same))
    }

    /// The trials of the task at a place, before and now.
    fn pair(&self, place: usize) -> Option<(Trials<'_>, Trials<'_>)> {
        let [was, is] = &self.places;
        let before = self.before.at_place(was, place)?;
        Some((before, self.now.at_place(is, place)?))
    }
}
