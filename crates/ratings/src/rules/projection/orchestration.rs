//! Projects orchestration: the plan as it was decided, and its outcome.

use serde_json::json;

use super::log::{Entry, EntryKind, InvocationCompleted};
use super::profile::Orchestration;
use super::{Evidence, Task};
use crate::rules::evidence::EventType;

pub fn project(task: &Task<'_>, evidence: &mut Evidence<'_>) {
    let Some(asked) = &task.profile.orchestration else {
        return;
    };
    let mut workers: Vec<&str> = Vec::new();
    let mut stages: Vec<Vec<&str>> = Vec::new();
    let mut first = None;
    for entry in &task.entries {
        let EntryKind::Decided(decided) = &entry.kind else {
            continue;
        };
        if decided.decision.kind != "next-worker" {
            continue;
        }
        first = first.or(Some(*entry));
        // Calling the same worker again does not start a new stage.
        let named = decided.decision.next_worker_ids.iter().map(String::as_str);
        let stage: Vec<&str> = named.filter(|it| !workers.contains(it)).collect();
        workers.extend(&stage);
        if !stage.is_empty() {
            stages.push(stage);
        }
    }
    if let Some(first) = first {
        let data = json!({
            "agents_involved": workers, "dependency_graph": asked.dependency_graph, "parallel_groups": stages,
        });
        evidence.add(task, EventType::OrchestrationPlan, (first, 0), first, data);
    }
    let scored = task.scored;
    let outcome = match (scored.passed, scored.score > 0.0) {
        (true, _) => "success",
        (false, true) => "partial",
        (false, false) => "failure",
    };
    let recovered = asked
        .injected_failures
        .iter()
        .filter(|it| is_recovered(task, asked, it));
    let data = json!({
        "outcome": outcome, "failures_injected": asked.injected_failures.len(),
        "failures_recovered": recovered.count(), "synthesis_quality_score": scored.score,
    });
    evidence.add(
        task,
        EventType::OrchestrationResult,
        (task.judged, 0),
        task.judged,
        data,
    );
}

/// Whether a failed worker, or a substitute for it, completed later.
fn is_recovered(task: &Task<'_>, asked: &Orchestration, worker: &str) -> bool {
    let substitutes = asked.substitutes.get(worker);
    let completed = |it: &&&Entry<'_>, wanted: &dyn Fn(&InvocationCompleted) -> bool| matches!(&it.kind, EntryKind::InvocationCompleted(end) if wanted(end));
    let failed = |end: &InvocationCompleted| {
        end.agent_id == worker && matches!(end.outcome.as_str(), "failed" | "refused")
    };
    let made_good = |end: &InvocationCompleted| {
        let stands_in = substitutes.is_some_and(|all| all.contains(&end.agent_id));
        end.outcome == "completed" && (end.agent_id == worker || stands_in)
    };
    let mut all = task.entries.iter();
    let Some(failure) = all.find(|it| completed(it, &failed)) else {
        return false;
    };
    let mut after = task
        .entries
        .iter()
        .filter(|it| it.sequence > failure.sequence);
    after.any(|it| completed(&it, &made_good))
}
