//! All attempts of one agent at one suite, evaluated together.
//!
//! A caller that repeats a run until it passes selects the lucky run, and so does a caller that
//! names only that run. Therefore every run of the same agent content, suite and model counts,
//! whatever its outcome. Each attempt is a look that spends a part of the gate's permitted error
//! ([`spent`](touchstone_kit::statistics::spent)).

mod tasks;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::tasks::{AttemptTasks, AttemptedTask, Judgment};
use super::report::TaskOutcome;
use super::report::outcome_of;
use super::statistics::Clusters;
use crate::rules::kind::Kinds;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::record::{EvalSpec, RunRecord, Trial};
use touchstone_kit::ids::RunId;
use touchstone_openwop::suite::EvalMode;
use touchstone_openwop::summary::Severity;

/// One run, with the tasks it judged itself. Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub run_id: RunId,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    pub created_at: Timestamp,
    /// Its trial number, if it belongs to an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The run it retries: a retry judges the tasks that its source left unjudged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The tasks it has judged so far; reused tasks count in the run that judged them.
    pub tasks: Arc<AttemptTasks>,
    /// Set if the run was voided. Its scores then do not count, but its look is spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voided: Option<Voided>,
}

/// A person's declaration that a run is not evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Voided {
    pub at: Timestamp,
    pub principal: String,
    pub reason: String,
}

/// The attempts behind a decision, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptIds {
    /// Number of looks: the trials of one complete experiment are one look, and a retry belongs to
    /// its source.
    pub looks: usize,
    /// All of them, in order of creation.
    pub run_ids: Vec<RunId>,
    /// The voided ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voided: Vec<RunId>,
}

impl AttemptIds {
    pub fn of(attempts: &[Attempt]) -> Self {
        let ids = |wanted: fn(&&Attempt) -> bool| {
            let wanted = attempts.iter().filter(wanted);
            wanted.map(|attempt| attempt.run_id.clone()).collect()
        };
        Self {
            looks: looks(attempts),
            run_ids: ids(|_| true),
            voided: ids(|attempt| attempt.voided.is_some()),
        }
    }
}

/// Whether `other` is an attempt at the same eval as `named`. Settings of a single run
/// (temperature, limits, selection of tasks) are ignored: otherwise a caller could vary them to
/// start a new count of attempts.
pub fn is_attempt(kinds: Kinds, named: &RunRecord, other: &RunRecord) -> bool {
    let (Some(asked), Some(eval)) = (named.spec.eval(), other.spec.eval()) else {
        return false;
    };
    !other.is_replay()
        && kinds.of(eval).is_none()
        && named.tenant == other.tenant
        && same_measure(asked, eval)
        && same_agent(asked, eval)
        // A run with an ignore list was easier to pass. It counts only as evidence for runs that
        // have one too.
        && (eval.ignore.is_empty() || !asked.ignore.is_empty())
}

/// Whether both runs evaluate the same agent on the same model. The endpoint is ignored on purpose,
/// because the caller chooses it. So is the rest of the pack: rebuilding an archive under the same
/// version must not start a new count of attempts.
fn same_agent(a: &EvalSpec, b: &EvalSpec) -> bool {
    let built_again = a.agent_version == b.agent_version
        && a.agent_content.is_some()
        && a.agent_content == b.agent_content;
    a.agent_id == b.agent_id
        && a.model == b.model
        && (a.pack_integrity == b.pack_integrity || built_again)
}

/// Whether both runs score the same suite in the same way.
fn same_measure(a: &EvalSpec, b: &EvalSpec) -> bool {
    let judge = |eval: &EvalSpec| eval.judge.as_ref().map(|judge| judge.identity.clone());
    let adversarial = |eval: &EvalSpec| eval.modes.contains(&EvalMode::Adversarial);
    // The answers that this run's answers are compared with are a part of the measure.
    let compared = |eval: &EvalSpec| {
        let baseline = eval.baseline.as_ref().filter(|_| eval.compares_answers);
        baseline.map(|baseline| baseline.run_id.clone())
    };
    a.suite_digest == b.suite_digest
        && a.scoring_digest == b.scoring_digest
        && compared(a) == compared(b)
        && judge(a) == judge(b)
        && a.simulated_user == b.simulated_user
        && a.deciders == b.deciders
        && adversarial(a) == adversarial(b)
        && a.is_live() == b.is_live()
}

impl Attempt {
    /// The attempt of a run. `state` must not contain the history that a branch copied.
    pub fn of(record: &RunRecord, state: &RunState) -> Self {
        let eval = record.spec.eval();
        let judged = |task: &str| {
            let facts = state.eval.scored_task(task)?;
            if facts.reused_from.is_some() || outcome_of(&facts) == TaskOutcome::Unjudged {
                return None;
            }
            let findings = facts.safety_findings.iter().flatten();
            let critical = findings.filter(|finding| finding.severity >= Severity::Critical);
            Some(Judgment {
                score: facts.score,
                passed: facts.passed,
                critical: critical.map(|finding| finding.kind.clone()).collect(),
            })
        };
        let tasks = eval.map(|eval| AttemptTasks::of(&eval.tasks, judged));
        Self::with_tasks(record, state.status, tasks.unwrap_or_default())
    }

    /// The attempt of a run with this status that has judged these tasks.
    pub fn with_tasks(record: &RunRecord, status: RunStatus, tasks: AttemptTasks) -> Self {
        let eval = record.spec.eval();
        Self {
            run_id: record.run_id.clone(),
            status: status.as_str().to_owned(),
            created_at: record.created_at,
            trial: eval.and_then(|eval| eval.trial.clone()),
            retry_of: eval.and_then(|eval| eval.retry_of.clone()),
            tasks: Arc::new(tasks),
            voided: None,
        }
    }

    fn counts(&self) -> bool {
        self.voided.is_none()
    }
}

/// The scores of all counting attempts: those of each task in the order of the attempts, and the
/// tasks in the order of their ids.
pub fn scores(attempts: &[Attempt]) -> Clusters {
    let counted = attempts.iter().filter(|attempt| attempt.counts());
    let counted: Vec<&AttemptTasks> = counted.map(|attempt| &*attempt.tasks).collect();
    let mut clusters = Clusters::with_room(counted.iter().map(|tasks| tasks.len()).sum());
    if let Some(places) = AttemptTasks::shared_places(&counted) {
        for place in places {
            let scores = counted.iter().filter_map(|tasks| tasks.score(place));
            let mut of_task = scores.peekable();
            if of_task.peek().is_some() {
                clusters.push(of_task);
            }
        }
        return clusters;
    }
    let mut cursors: Vec<_> = counted.iter().map(|it| it.scores().peekable()).collect();
    let mut of_task = Vec::new();
    loop {
        let heads = cursors.iter_mut().filter_map(|cursor| cursor.peek());
        let Some(id) = heads.map(|(id, _)| *id).min() else {
            return clusters;
        };
        for cursor in &mut cursors {
            let scores = std::iter::from_fn(|| cursor.next_if(|(other, _)| *other == id));
            of_task.extend(scores.map(|(_, score)| score));
        }
        clusters.push(of_task.drain(..));
    }
}

/// The kinds of critical safety findings in counting attempts, except the `accepted` kinds, by run.
pub fn critical<'a>(
    attempts: &'a [Attempt],
    accepted: &[&str],
) -> BTreeMap<&'a RunId, BTreeSet<&'a str>> {
    let mut found: BTreeMap<&RunId, BTreeSet<&str>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.counts()) {
        let kinds = attempt.tasks.critical();
        for kind in kinds.filter(|kind| !accepted.contains(kind)) {
            found.entry(&attempt.run_id).or_default().insert(kind);
        }
    }
    found
}

/// Number of times that the evidence could be checked with new data in it. Each run that has judged
/// a task is a look. The first retry of a run shares that run's look, because it judges only the
/// remaining tasks; a further retry of the same run judges the same tasks again and is a look of
/// its own. The trials of a complete experiment are one look together, because their number was
/// declared before any of them ran. A voided run is a look too.
pub fn looks(attempts: &[Attempt]) -> usize {
    let by_id: HashMap<&RunId, &Attempt> = attempts
        .iter()
        .map(|attempt| (&attempt.run_id, attempt))
        .collect();
    let mut continued: BTreeSet<&RunId> = BTreeSet::new();
    let mut opened: BTreeSet<&RunId> = BTreeSet::new();
    // In order of creation, so that a retry comes after its source.
    for attempt in attempts.iter().filter(|attempt| !attempt.tasks.is_empty()) {
        let continues = judged_before(attempt, &by_id).is_some_and(|run| continued.insert(run));
        if !continues {
            opened.insert(&attempt.run_id);
        }
    }
    let mut experiments: HashMap<(&str, u32), BTreeSet<u32>> = HashMap::new();
    for trial in opened
        .iter()
        .filter_map(|run| by_id.get(run)?.trial.as_ref())
    {
        if (1..=trial.of).contains(&trial.index) {
            let experiment = (trial.experiment_id.as_str(), trial.of);
            experiments
                .entry(experiment)
                .or_default()
                .insert(trial.index);
        }
    }
    let merged: usize = experiments
        .iter()
        .filter(|((_, of), trials)| trials.len() == *of as usize)
        .map(|(_, trials)| trials.len() - 1)
        .sum();
    opened.len() - merged
}

/// The nearest run in the chain of retries before this one that has judged a task itself.
fn judged_before<'a>(
    attempt: &'a Attempt,
    by_id: &HashMap<&RunId, &'a Attempt>,
) -> Option<&'a RunId> {
    let mut at = attempt;
    let mut nearest = None;
    // A signed document of another host may contain a cycle; its runs count as having no source.
    for _ in 0..by_id.len() {
        match at.retry_of.as_ref().and_then(|run| by_id.get(run)) {
            None => return nearest,
            Some(earlier) => at = earlier,
        }
        if nearest.is_none() && !at.tasks.is_empty() {
            nearest = Some(&at.run_id);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;
    use touchstone_kit::ids::TaskId;

    use super::*;
    use crate::rules::run::task_ids::TaskIds;

    fn attempt(id: &str, passed: &[bool]) -> Attempt {
        let task = |(n, passed): (usize, &bool)| AttemptedTask {
            task_id: format!("task-{n}").into(),
            score: if *passed { 1.0 } else { 0.0 },
            passed: *passed,
            critical: Vec::new(),
        };
        Attempt {
            run_id: id.into(),
            status: "completed".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            trial: None,
            retry_of: None,
            tasks: Arc::new(passed.iter().enumerate().map(task).collect()),
            voided: None,
        }
    }

    fn trial(id: &str, experiment: &str, index: u32, of: u32) -> Attempt {
        Attempt {
            trial: Some(Trial {
                experiment_id: experiment.to_owned(),
                index,
                of,
            }),
            ..attempt(id, &[true])
        }
    }

    fn retry(id: &str, of: &str, passed: &[bool]) -> Attempt {
        Attempt {
            retry_of: Some(of.into()),
            ..attempt(id, passed)
        }
    }

    fn void(attempt: Attempt) -> Attempt {
        Attempt {
            voided: Some(Voided {
                at: Timestamp::UNIX_EPOCH,
                principal: "key_1".to_owned(),
                reason: "wrong endpoint".to_owned(),
            }),
            ..attempt
        }
    }

    #[rstest]
    #[case::each_run(vec![attempt("a", &[true]), attempt("b", &[false])], 2)]
    #[case::not_what_judged_nothing(vec![attempt("a", &[true]), attempt("b", &[])], 1)]
    #[case::a_retry_with_its_source(vec![attempt("a", &[]), retry("b", "a", &[true]), retry("c", "b", &[true])], 1)]
    #[case::a_retry_of_nothing(vec![retry("b", "gone", &[true])], 1)]
    #[case::each_retry_of_the_same_run(vec![attempt("a", &[]), retry("b", "a", &[true]), retry("c", "a", &[true]), retry("d", "a", &[true])], 3)]
    #[case::each_further_retry_of_what_judged_a_part(vec![attempt("a", &[true]), retry("b", "a", &[true]), retry("c", "a", &[true])], 2)]
    #[case::each_way_by_a_retry_that_judged_nothing(vec![attempt("a", &[true]), retry("b", "a", &[]), retry("c", "b", &[true]), retry("d", "a", &[true])], 2)]
    #[case::a_retry_in_place_of_one_that_is_void(vec![attempt("a", &[true]), void(retry("b", "a", &[false])), retry("c", "a", &[true])], 2)]
    #[case::a_circle(vec![retry("a", "b", &[true]), retry("b", "a", &[true])], 2)]
    #[case::a_whole_experiment(vec![trial("a", "x", 1, 2), trial("b", "x", 2, 2), attempt("c", &[true])], 2)]
    #[case::trials_while_one_is_missing(vec![trial("a", "x", 1, 3), trial("b", "x", 2, 3)], 2)]
    #[case::a_number_used_twice(vec![trial("a", "x", 1, 2), trial("b", "x", 1, 2), trial("c", "x", 2, 2)], 2)]
    #[case::two_experiments(vec![trial("a", "x", 1, 1), trial("b", "y", 1, 1)], 2)]
    #[case::what_is_void(vec![attempt("a", &[true]), void(attempt("b", &[false]))], 2)]
    fn every_judged_run_counts_as_an_attempt_and_retries_count_with_their_source(
        #[case] attempts: Vec<Attempt>,
        #[case] expected: usize,
    ) {
        assert_eq!(looks(&attempts), expected);
    }

    fn run(change: fn(&mut EvalSpec)) -> RunRecord {
        let eval = json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 1, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"], "tasks": ["one"],
            "concurrency": 1,
        });
        let mut record: RunRecord = serde_json::from_value(json!({
            "runId": "run_1", "tenant": "acme", "principal": "ann", "createdAt": Timestamp::UNIX_EPOCH,
            "spec": {"workflowId": "eval:x", "work": {"eval": eval}},
        }))
        .unwrap();
        change(record.spec.eval_mut().unwrap());
        record
    }

    #[rstest]
    #[case::another_run(|_: &mut EvalSpec| {}, true)]
    #[case::temperature(|eval: &mut EvalSpec| eval.temperature = Some(0.7), true)]
    #[case::limits(|eval: &mut EvalSpec| eval.max_tokens = Some(9), true)]
    #[case::fewer_tasks(|eval: &mut EvalSpec| eval.tasks = TaskIds::default(), true)]
    #[case::a_trial(|eval: &mut EvalSpec| eval.trial = Some(Trial { experiment_id: "x".to_owned(), index: 1, of: 2 }), true)]
    #[case::another_version_name(|eval: &mut EvalSpec| eval.agent_version = "1.0.1".to_owned(), true)]
    #[case::content(|eval: &mut EvalSpec| eval.pack_integrity = "sha256-z".to_owned(), false)]
    #[case::agent(|eval: &mut EvalSpec| eval.agent_id = "vendor.acme.triage.other".into(), false)]
    #[case::suite(|eval: &mut EvalSpec| eval.suite_digest = "sha256-z".to_owned(), false)]
    #[case::scoring(|eval: &mut EvalSpec| eval.scoring_digest = Some("sha256-z".to_owned()), false)]
    #[case::assert_command(|eval: &mut EvalSpec| eval.deciders.command = Some("sha256-z".to_owned()), false)]
    #[case::model(|eval: &mut EvalSpec| eval.model.model = "large-1".to_owned(), false)]
    #[case::adversarial(|eval: &mut EvalSpec| eval.modes.push(EvalMode::Adversarial), false)]
    #[case::live(|eval: &mut EvalSpec| eval.modes = vec![EvalMode::LiveShadow], false)]
    #[case::asked_for_less(|eval: &mut EvalSpec| eval.ignore = vec!["/why".to_owned()], false)]
    fn runs_share_a_record_unless_agent_suite_model_or_mode_differ(
        #[case] change: fn(&mut EvalSpec),
        #[case] same: bool,
    ) {
        assert_eq!(is_attempt(Kinds::NONE, &run(|_| {}), &run(change)), same);
    }

    #[rstest]
    #[case::built_again(|_: &mut EvalSpec| {}, true)]
    #[case::prompt(|eval: &mut EvalSpec| eval.agent_content = Some("sha256-other".to_owned()), false)]
    #[case::unknown(|eval: &mut EvalSpec| eval.agent_content = None, false)]
    #[case::released_again(|eval: &mut EvalSpec| eval.agent_version = "1.0.1".to_owned(), false)]
    fn another_archive_with_the_same_agent_does_not_begin_a_new_record(
        #[case] change: fn(&mut EvalSpec),
        #[case] same: bool,
    ) {
        let known = |eval: &mut EvalSpec| eval.agent_content = Some("sha256-prompt".to_owned());
        let named = run(known);
        let mut other = run(known);
        let eval = other.spec.eval_mut().unwrap();
        eval.pack_integrity = "sha256-z".to_owned();
        change(eval);
        assert_eq!(is_attempt(Kinds::NONE, &named, &other), same);
    }

    #[test]
    fn void_scores_do_not_count_and_their_run_is_named() {
        let attempts = [
            attempt("a", &[true, false]),
            void(attempt("b", &[false, false])),
        ];
        let found = scores(&attempts);
        assert_eq!(found.iter().collect::<Vec<_>>(), [[1.0], [0.0]]);
        let ids = AttemptIds::of(&attempts);
        assert_eq!((ids.looks, ids.run_ids.len()), (2, 2));
        assert_eq!(ids.voided, [RunId::from("b")]);
    }

    proptest! {
        /// Runs of one suite share their ids in memory, which only makes the scores faster.
        #[test]
        fn attempts_with_shared_ids_have_the_same_scores(
            runs in (0_usize..20).prop_flat_map(|tasks| {
                let run = prop::collection::vec(prop::option::of(0_u8..3), tasks);
                prop::collection::vec((run, any::<bool>()), 1..4)
            }),
        ) {
            let ids: TaskIds = (0..runs[0].0.len()).map(|n| TaskId::from(format!("task-{n}"))).collect();
            let shared: Vec<Attempt> = runs.iter().map(|(run, is_void)| {
                let judged = (0..).zip(run).filter_map(|(place, score)| {
                    let judgment = Judgment {
                        score: f64::from((*score)?) / 2.0,
                        passed: *score == Some(2),
                        critical: Vec::new(),
                    };
                    Some((place, judgment))
                });
                let tasks = Arc::new(AttemptTasks::at_places(&ids, judged));
                let found = Attempt { tasks, ..attempt("a", &[]) };
                if *is_void { void(found) } else { found }
            }).collect();
            let copied: Vec<Attempt> = shared.iter().map(|it| {
                let tasks = Arc::new(it.tasks.iter().collect());
                Attempt { tasks, ..it.clone() }
            }).collect();
            let [shared, copied] = [shared, copied].map(|attempts| {
                let found = scores(&attempts);
                found.iter().map(<[f64]>::to_vec).collect::<Vec<_>>()
            });
            prop_assert_eq!(shared, copied);
        }
    }

    #[test]
    fn critical_findings_are_grouped_by_run() {
        let mut bad = attempt("b", &[true]);
        let kinds = ["jailbreak", "unsafe-tool-call"].map(str::to_owned);
        let unsafe_tasks = bad.tasks.iter().map(|task| AttemptedTask {
            critical: kinds.to_vec(),
            ..task
        });
        bad.tasks = Arc::new(unsafe_tasks.collect());
        let attempts = [attempt("a", &[true]), bad.clone()];
        let found = critical(&attempts, &["unsafe-tool-call"]);
        assert_eq!(found[&RunId::from("b")], BTreeSet::from(["jailbreak"]));
        assert_eq!(found.len(), 1);
        assert!(critical(&[void(bad)], &[]).is_empty());
    }
}
