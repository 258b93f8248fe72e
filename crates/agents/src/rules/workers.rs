//! Scripted workers: the fixtures of a task play other agents.
//!
//! An agent calls a worker like a tool. The scope of the tool's name determines how the call is
//! recorded: as a delegation (`agent.handoff`), or as the decision of an orchestrator
//! (`runOrchestrator.decided`). Neither is recorded as a tool call. A worker's responses are used
//! in order and the last one repeats, so a fixture can inject a failure that a second attempt
//! recovers from.

use serde_json::Value;

use super::{ToolCall, ToolOutcome};
use touchstone_openwop::invocation::InvocationOutcome;
use touchstone_openwop::suite::Fixtures;

const DELEGATE: &str = "aaaf-delegate:";
const WORKER: &str = "aaaf-worker:";
/// Longest recorded reason of a handoff, in characters.
const LONGEST_REASON: usize = 200;

/// How an agent works with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The agent delegates part of its task.
    Delegate,
    /// The agent directs the worker as an orchestrator.
    Worker,
}

/// The worker behind a tool name, and the role it plays; `None` for a tool.
pub fn worker(tool: &str) -> Option<(Role, &str)> {
    let roles = [(Role::Delegate, DELEGATE), (Role::Worker, WORKER)];
    roles.into_iter().find_map(|(role, scope)| {
        let id = tool.strip_prefix(scope)?;
        // Agent ids have at least three characters (OpenWOP `agent.handoff`).
        (id.chars().count() >= 3).then_some((role, id))
    })
}

/// The names of a task's workers, without duplicates; they are offered together with the agent's
/// tools.
pub fn workers_of(fixtures: Option<&Fixtures>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for response in fixtures.into_iter().flat_map(|it| &it.tool_responses) {
        if worker(&response.tool).is_some() && !found.contains(&response.tool) {
            found.push(response.tool.clone());
        }
    }
    found
}

/// The workers that one turn directs: one decision, whose workers run concurrently.
pub fn led(tools: &[(ToolCall, ToolOutcome)]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (call, outcome) in tools {
        if let (Some((Role::Worker, id)), ToolOutcome::Answered(_)) = (worker(&call.tool), outcome)
            && !found.iter().any(|it| it == id)
        {
            found.push(id.to_owned());
        }
    }
    found
}

/// The agent's reason for a handoff.
pub fn reason_of(call: &ToolCall) -> Option<String> {
    let arguments = call.arguments.as_ref().ok()?;
    let reason = arguments.get("reason")?.as_str()?;
    Some(reason.chars().take(LONGEST_REASON).collect())
}

/// How a worker's invocation ended: the member `outcome` of its response, `completed` by default.
pub fn outcome_of(response: &Value) -> InvocationOutcome {
    match response.get("outcome").and_then(Value::as_str) {
        Some("failed") => InvocationOutcome::Failed,
        Some("refused") => InvocationOutcome::Refused,
        _ => InvocationOutcome::Completed,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("aaaf-delegate:tax-desk", Some((Role::Delegate, "tax-desk")))]
    #[case("aaaf-worker:stock", Some((Role::Worker, "stock")))]
    #[case("aaaf-worker:ab", None)]
    #[case("worker:stock", None)]
    #[case("desk:look-up", None)]
    fn only_reserved_scopes_name_workers(
        #[case] tool: &str,
        #[case] expected: Option<(Role, &str)>,
    ) {
        assert_eq!(worker(tool), expected);
    }

    #[test]
    fn each_worker_of_a_task_is_offered_once() {
        let fixtures: Fixtures = serde_json::from_value(json!({"toolResponses": [
            {"tool": "aaaf-worker:stock", "response": {"outcome": "failed"}},
            {"tool": "desk:look-up", "response": 1},
            {"tool": "aaaf-worker:stock", "response": {"figure": 1}},
        ]}))
        .unwrap();
        assert_eq!(workers_of(Some(&fixtures)), ["aaaf-worker:stock"]);
        assert_eq!(workers_of(None), Vec::<String>::new());
    }

    #[rstest]
    #[case(json!({"outcome": "failed"}), InvocationOutcome::Failed)]
    #[case(json!({"outcome": "refused"}), InvocationOutcome::Refused)]
    #[case(json!({"figure": 1}), InvocationOutcome::Completed)]
    #[case(json!("done"), InvocationOutcome::Completed)]
    fn a_response_says_how_the_worker_ended(
        #[case] response: Value,
        #[case] expected: InvocationOutcome,
    ) {
        assert_eq!(outcome_of(&response), expected);
    }
}
