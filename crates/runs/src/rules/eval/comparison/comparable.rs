//! Which tasks of two runs are comparable.
//!
//! A task is compared if its digests are equal in both runs: they cover its content, and whatever
//! decided about it. So a run is comparable with one of another host, whose suite is not here.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conclusion::RunFacts;
use super::document::{ExcludedTask, ExclusionReason};
use crate::rules::eval::rubric::rubric;
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::eval::statistics::TrialsByTask;
use crate::rules::run::deciders::{Decider, EmbeddingsPin};
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::{AgentEvalSuite, Task};

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

/// The digests of the tasks that a run plans.
pub fn task_digests(
    spec: &EvalSpec,
    suite: &AgentEvalSuite,
    scoring: Option<&ScoringDocument>,
) -> BTreeMap<TaskId, TaskDigests> {
    let planned: HashSet<&TaskId> = spec.tasks.iter().collect();
    let tasks = suite
        .tasks
        .iter()
        .filter(|it| planned.contains(&it.task_id));
    tasks
        .map(|task| (task.task_id.clone(), digests(spec, task, scoring)))
        .collect()
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
/// `before` and `now` are the judged tasks.
pub fn excluded(
    baseline: &RunFacts<'_>,
    candidate: &RunFacts<'_>,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<ExcludedTask> {
    let is_judged = |id: &TaskId| before.contains_key(id) && now.contains_key(id);
    let of_candidate = candidate.order.iter().filter_map(|id| {
        let reason = match (baseline.tasks.get(id), candidate.tasks.get(id)) {
            (Some(was), Some(is)) => {
                unlike(was, is).or_else(|| (!is_judged(id)).then_some(ExclusionReason::Unjudged))?
            }
            _ => ExclusionReason::OnlyCandidate,
        };
        Some((id, reason))
    });
    let of_baseline = baseline.order.iter();
    let of_baseline = of_baseline
        .filter(|id| !candidate.tasks.contains_key(*id))
        .map(|id| (id, ExclusionReason::OnlyBaseline));
    let excluded = of_candidate.chain(of_baseline);
    excluded
        .map(|(id, reason)| ExcludedTask {
            task_id: id.clone(),
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
