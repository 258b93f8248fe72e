//! Which events of a worker an owner records.
//!
//! A worker reports what happens in an agent's invocation and nothing else: scores, budgets and the
//! status of the run are the owner's.

use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::Event;

/// The event cannot come from an attempt at this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// The event of a worker, if an attempt with this id at `task` can have it.
///
/// # Errors
/// [`Foreign`].
pub fn event(kind: &str, payload: &str, invocation: &str, task: &TaskId) -> Result<Event, Foreign> {
    let parsed = Event::parse(kind, payload);
    let mut event = parsed.ok().flatten().ok_or(Foreign)?;
    let is_own = |id: &str| {
        let nested = id.strip_prefix(invocation);
        nested.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let allowed = match &mut event {
        Event::AgentInvocationStarted(it) => {
            it.is_of_worker() == (it.invocation_id != invocation) && is_own(&it.invocation_id)
        }
        Event::AgentInvocationCompleted(it) => is_own(&it.invocation_id),
        Event::ProviderUsage(usage) => {
            usage.node_id = Some(task.clone());
            true
        }
        Event::AgentReasoned(_)
        | Event::AgentToolCalled(_)
        | Event::AgentToolReturned(_)
        | Event::AgentHandoff(_)
        | Event::AgentDecided(_)
        | Event::RunOrchestratorDecided(_)
        | Event::ModelRetried(_)
        | Event::UsageEstimated(_)
        | Event::TaskAttached(_)
        | Event::TurnAnswered(_)
        | Event::UserOpens(_)
        | Event::UserSaid(_)
        | Event::UserStopped(_)
        | Event::FixtureMissing(_)
        | Event::ReplyRejected(_) => true,
        _ => false,
    };
    if allowed { Ok(event) } else { Err(Foreign) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn started(id: &str, provider: &str) -> Value {
        json!({"invocationId": id, "agentId": "a", "source": "run-api", "resolvedProvider": provider,
            "toolSurfaceCount": 0, "memoryBound": false})
    }

    fn usage(node: &str) -> Value {
        json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1, "totalTokens": 2,
            "currency": "USD", "nodeId": node})
    }

    #[rstest]
    #[case::own("agent.invocation.started", started("inv_1", "openai"), true)]
    #[case::nested(
        "agent.invocation.started",
        started("inv_1:call_2", "scripted-worker"),
        true
    )]
    #[case::nested_as_own("agent.invocation.started", started("inv_1:call_2", "openai"), false)]
    #[case::own_as_nested("agent.invocation.started", started("inv_1", "scripted-worker"), false)]
    #[case::of_another("agent.invocation.started", started("inv_12", "openai"), false)]
    #[case::score("eval.scored", json!({"taskId": "t", "score": 1.0, "passed": true}), false)]
    #[case::end("run.completed", json!({}), false)]
    #[case::cached("touchstone.answer.cached", json!({}), false)]
    #[case::unknown("agent.new", json!({}), false)]
    #[case::shapeless("agent.reasoned", json!([]), false)]
    fn only_events_of_an_invocation_are_recorded(
        #[case] kind: &str,
        #[case] payload: Value,
        #[case] allowed: bool,
    ) {
        let found = event(kind, &payload.to_string(), "inv_1", &TaskId::from("t"));
        assert_eq!(found.is_ok(), allowed, "{found:?}");
    }

    #[test]
    fn usage_counts_for_the_task_of_the_attempt() {
        let task = TaskId::from("t");
        let found = event(
            "provider.usage",
            &usage("another").to_string(),
            "inv_1",
            &task,
        )
        .unwrap();
        let Event::ProviderUsage(found) = found else {
            panic!("{found:?}");
        };
        assert_eq!(found.node_id, Some(task));
    }
}
