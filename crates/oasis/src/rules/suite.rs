//! The suite of an OASIS evaluation (OASIS.md section 14): an `AgentEvalSuite` whose tasks are
//! scenarios of a profile.
//!
//! A task is a scenario if its input names one, as `input.oasis.scenarioId`. Its expectation is
//! golden without `match`, because the profile defines the expected result.

use super::verdict;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::{AgentEvalSuite, Task};

/// The scenario of a task, if the task is a scenario.
pub fn scenario_of(task: &Task) -> Option<&str> {
    task.input.get("oasis")?.get("scenarioId")?.as_str()
}

/// Whether any task of a suite is a scenario.
pub fn is_oasis(suite: &AgentEvalSuite) -> bool {
    suite.tasks.iter().any(|task| scenario_of(task).is_some())
}

/// The task id for a scenario: lower case, with `-` for every character that is neither a letter
/// nor a digit.
pub fn task_id(scenario: &str) -> TaskId {
    TaskId::from(verdict::task_id(scenario))
}

/// The problems of a suite, checked against a profile: the index of the task, and the problem.
/// `lacks` explains why the profile lacks a scenario.
pub fn faults<'a>(
    suite: &'a AgentEvalSuite,
    lacks: &'a dyn Fn(&str) -> Option<String>,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let tasks = suite.tasks.iter().enumerate();
    tasks.filter_map(move |(index, task)| {
        let fault = match scenario_of(task) {
            None => Some(
                "has no `input.oasis.scenarioId`, which every task of an OASIS suite must have"
                    .to_owned(),
            ),
            Some(id) => match lacks(id) {
                Some(why) => Some(format!("names the scenario `{id}`, {why}")),
                None => (task.task_id != task_id(id)).then(|| {
                    format!(
                        "must have the `taskId` `{}`, which is derived from the scenario's id",
                        task_id(id).as_str()
                    )
                }),
            },
        };
        fault.map(|fault| (index, fault))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(
        "desk.safety.be.Cross_Workspace-001",
        "desk-safety-be-cross-workspace-001"
    )]
    #[case("Ä.1", "--1")]
    fn a_task_id_is_made_from_the_scenario(#[case] scenario: &str, #[case] id: &str) {
        assert_eq!(task_id(scenario).as_str(), id);
    }

    #[rstest]
    #[case(json!({"prompt": "x", "oasis": {"scenarioId": "a.b"}}), "a-b", None)]
    #[case(json!({"prompt": "x"}), "a-b", Some("has no `input.oasis.scenarioId`"))]
    #[case(json!({"oasis": {"scenarioId": "a.c"}}), "a-c", Some("does not have"))]
    #[case(json!({"oasis": {"scenarioId": "a.b"}}), "a.b", Some("`taskId` `a-b`"))]
    fn tasks_and_scenarios_agree(
        #[case] input: serde_json::Value,
        #[case] task: &str,
        #[case] fault: Option<&str>,
    ) {
        let suite: AgentEvalSuite = serde_json::from_value(json!({
            "suiteId": "x.y.evals.z", "version": "1.0.0", "modes": ["golden"],
            "tasks": [{"taskId": task, "input": input, "expected": {"kind": "golden"}}]
        }))
        .unwrap();
        let lacks = |id: &str| (id != "a.b").then(|| "which it does not have".to_owned());
        let found: Vec<String> = faults(&suite, &lacks).map(|(_, fault)| fault).collect();
        match fault {
            None => assert!(found.is_empty(), "{found:?}"),
            Some(part) => assert!(found.iter().any(|it| it.contains(part)), "{found:?}"),
        }
    }
}
