//! The suite of an OASIS evaluation (OASIS.md section 14): an `AgentEvalSuite` whose tasks are scenarios of a profile.
//!
//! A task is a scenario's if its input names one, as `input.oasis.scenarioId`. Its expectation is golden without `match`: what
//! is expected stands in the profile.

use super::verdict;
use crate::domain::ids::TaskId;
use crate::protocol::openwop::suite::{AgentEvalSuite, Task};

/// The scenario a task stands for, if it stands for one.
pub fn scenario_of(task: &Task) -> Option<&str> {
    task.input.get("oasis")?.get("scenarioId")?.as_str()
}

/// Whether a suite has scenarios among its tasks.
pub fn is_oasis(suite: &AgentEvalSuite) -> bool {
    suite.tasks.iter().any(|task| scenario_of(task).is_some())
}

/// The id of a scenario's task: lower case, and `-` for everything that is neither a letter nor a digit.
pub fn task_id(scenario: &str) -> TaskId {
    TaskId::from(verdict::task_id(scenario))
}

/// What is wrong with a suite beside a profile, which says why it lacks a scenario: the index of the task, and why.
pub fn faults<'a>(
    suite: &'a AgentEvalSuite,
    lacks: &'a dyn Fn(&str) -> Option<String>,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let tasks = suite.tasks.iter().enumerate();
    tasks.filter_map(move |(index, task)| {
        let fault = match scenario_of(task) {
            None => Some("is no scenario; in a suite of scenarios every task names one as `input.oasis.scenarioId`".to_owned()),
            Some(id) => match lacks(id) {
                Some(why) => Some(format!("names the scenario `{id}`, {why}")),
                None => (task.task_id != task_id(id)).then(|| {
                    format!("must have the taskId `{}`, which is made from its scenario's id", task_id(id).as_str())
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
    #[case(json!({"prompt": "x"}), "a-b", Some("is no scenario"))]
    #[case(json!({"oasis": {"scenarioId": "a.c"}}), "a-c", Some("does not have"))]
    #[case(json!({"oasis": {"scenarioId": "a.b"}}), "a.b", Some("taskId `a-b`"))]
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
