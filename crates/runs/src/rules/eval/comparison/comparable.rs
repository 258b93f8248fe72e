//! Which tasks of two runs are comparable.
//!
//! A task is compared if its digests are equal in both runs: they cover its content, and whatever
//! decided about it. So a run is comparable with one of another host, whose suite is not here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conclusion::RunFacts;
use super::document::{ExcludedTask, ExclusionReason};
use crate::rules::eval::rubric::rubric;
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::eval::statistics::Places;
use crate::rules::run::deciders::{Decider, EmbeddingsPin};
use crate::rules::run::record::EvalSpec;
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::Task;

/// What makes two results of a task comparable. Each digest is `sha256-<base64>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDigests {
    /// The task, its assertions, conversation and attachments, and the baseline that its assertions
    /// compare answers with.
    pub content: String,
    /// Judge, embedding model and command, of those that decide about the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciders: Option<String>,
    /// The simulated user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The planned tasks of a run.
pub enum PlannedTasks<'a> {
    /// With their digests.
    Digests(Cow<'a, BTreeMap<TaskId, TaskDigests>>),
    /// Of two runs whose digests are equal ([`decide_alike`]).
    Alike(&'a TaskIds),
}

impl PlannedTasks<'_> {
    fn contains(&self, task: &TaskId) -> bool {
        match self {
            Self::Digests(tasks) => tasks.contains_key(task),
            Self::Alike(tasks) => tasks.contains(task),
        }
    }

    /// Whether both runs plan exactly these tasks, with equal digests.
    fn are_all_of(&self, other: &Self, order: &TaskIds) -> bool {
        match (self, other) {
            (Self::Alike(was), Self::Alike(is)) => *was == order && *is == order,
            _ => false,
        }
    }

    /// Why the task cannot be compared with the same task of another run, if there is a reason;
    /// `None` if only one of the runs has it.
    fn with(&self, other: &Self, task: &TaskId) -> Option<Option<ExclusionReason>> {
        if let (Self::Digests(was), Self::Digests(is)) = (self, other) {
            return Some(unlike(was.get(task)?, is.get(task)?));
        }
        (self.contains(task) && other.contains(task)).then_some(None)
    }
}

/// Whether the tasks that both runs plan have equal digests because whatever the digests cover is the
/// same in both. Digests of a million tasks take longer than the comparison.
pub fn decide_alike(a: &EvalSpec, b: &EvalSpec) -> bool {
    let deciders = |spec: &EvalSpec| {
        (
            spec.judge.as_ref().map(|judge| judge.identity.clone()),
            spec.deciders
                .embeddings
                .as_ref()
                .map(EmbeddingsPin::identity),
            spec.deciders.command.clone(),
            spec.simulated_user
                .as_ref()
                .map(|user| user.identity.clone()),
        )
    };
    let compared = |spec: &EvalSpec| {
        let baseline = spec.baseline.as_ref().filter(|_| spec.compares_answers);
        baseline.map(|baseline| baseline.run_id.clone())
    };
    a.suite_digest == b.suite_digest
        && a.scoring_digest == b.scoring_digest
        && compared(a) == compared(b)
        && deciders(a) == deciders(b)
}

/// Computes the digests of the tasks that a run plans, some tasks of its suite at a time.
pub struct TaskDigester<'a> {
    spec: &'a EvalSpec,
    scoring: Option<&'a ScoringDocument>,
    digests: BTreeMap<TaskId, TaskDigests>,
}

impl<'a> TaskDigester<'a> {
    pub fn new(spec: &'a EvalSpec, scoring: Option<&'a ScoringDocument>) -> Self {
        Self {
            spec,
            scoring,
            digests: BTreeMap::new(),
        }
    }

    /// Adds those of these tasks that the run plans.
    pub fn add(&mut self, tasks: &[Task]) {
        let planned = tasks
            .iter()
            .filter(|it| self.spec.tasks.contains(&it.task_id));
        let digests =
            planned.map(|task| (task.task_id.clone(), digests(self.spec, task, self.scoring)));
        self.digests.extend(digests);
    }

    pub fn finish(self) -> BTreeMap<TaskId, TaskDigests> {
        self.digests
    }
}

fn digests(spec: &EvalSpec, task: &Task, document: Option<&ScoringDocument>) -> TaskDigests {
    let id = &task.task_id;
    let scoring = document.and_then(|it| it.of_task(id));
    let has = |wanted: &dyn Fn(&Check) -> bool| scoring.as_ref().is_some_and(|it| it.has(wanted));
    let conversation = document.and_then(|it| it.conversation(id));
    let compares =
        spec.compares_answers && scoring.as_ref().is_some_and(|it| it.compares_answers());
    let is_judged = rubric(task).is_some() || has(&Check::is_judged);
    let needs = |decider: Decider| has(&|check| Decider::of(check) == Some(decider));
    let embeddings = spec.deciders.embeddings.as_ref();
    let deciders = [
        spec.judge
            .as_ref()
            .filter(|_| is_judged)
            .map(|judge| judge.identity.clone()),
        embeddings
            .filter(|_| needs(Decider::Embeddings))
            .map(EmbeddingsPin::identity),
        spec.deciders
            .command
            .clone()
            .filter(|_| needs(Decider::Command)),
    ];
    let user = spec.simulated_user.as_ref();
    TaskDigests {
        content: digest(&json!({
            "task": task,
            "assertions": scoring.as_ref().map(|it| &it.assertions),
            "threshold": scoring.as_ref().and_then(|it| it.threshold),
            "conversation": conversation,
            "attachments": document.map_or(&[][..], |it| it.attachments(id)),
            "baseline": spec.baseline.as_ref().filter(|_| compares).map(|it| &it.run_id),
        })),
        deciders: deciders
            .iter()
            .any(Option::is_some)
            .then(|| digest(&json!(deciders))),
        user: user
            .filter(|_| conversation.is_some_and(|it| it.user.is_some()))
            .map(|user| user.identity.clone()),
    }
}

fn digest(document: &Value) -> String {
    integrity::of(canonical_text(document).as_bytes())
}

/// The excluded tasks: the candidate's tasks in its order, then tasks that it does not have.
/// `judged`: where the judged tasks of each run are among the candidate's tasks.
pub fn excluded(
    baseline: &RunFacts<'_>,
    candidate: &RunFacts<'_>,
    judged: &[Places; 2],
) -> Vec<ExcludedTask> {
    let are_equal = baseline
        .tasks
        .are_all_of(&candidate.tasks, &candidate.order);
    let places = 0..candidate.order.len();
    let of_candidate = places.filter_map(|place| {
        let is_judged = judged.iter().all(|it| it.has(place));
        if are_equal && is_judged {
            return None;
        }
        let id = candidate.order.get(place)?;
        let reason = match baseline.tasks.with(&candidate.tasks, &id) {
            Some(Some(reason)) => reason,
            Some(None) if is_judged => return None,
            Some(None) => ExclusionReason::Unjudged,
            None => ExclusionReason::OnlyCandidate,
        };
        Some((id, reason))
    });
    let of_baseline = (!are_equal).then(|| baseline.order.iter());
    let of_baseline = of_baseline
        .into_iter()
        .flatten()
        .filter(|id| !candidate.tasks.contains(id))
        .map(|id| (id, ExclusionReason::OnlyBaseline));
    let excluded = of_candidate.chain(of_baseline);
    excluded
        .map(|(id, reason)| ExcludedTask {
            task_id: id,
            reason,
        })
        .collect()
}

/// Why scores of a task cannot be compared; `None` if they can.
fn unlike(was: &TaskDigests, is: &TaskDigests) -> Option<ExclusionReason> {
    if was.content != is.content {
        Some(ExclusionReason::TaskChanged)
    } else if was.user != is.user {
        Some(ExclusionReason::UserChanged)
    } else if was.deciders != is.deciders {
        Some(ExclusionReason::JudgeChanged)
    } else {
        None
    }
}

/// Whether the candidate has no task of the baseline.
pub fn nothing_in_common(candidate: &RunFacts<'_>, left_out: &[ExcludedTask]) -> bool {
    let incomparable = |task: &&ExcludedTask| {
        matches!(
            task.reason,
            ExclusionReason::OnlyCandidate | ExclusionReason::TaskChanged
        )
    };
    left_out.iter().filter(incomparable).count() == candidate.order.len()
}
