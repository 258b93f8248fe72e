//! An agent that knows the answers of the stress-test library, except for a few tasks it cannot do.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};
use touchstone_agents::rules::{Message, ModelReply, ModelRequest, TokenUsage, ToolCall};
use touchstone_ratings::rules::stress_test::library::{Subject, Test, prepare};

pub const CLERK: &str = "community.bench.clerk.default";
/// Tools that the agent may call.
pub const TOOLS: [&str; 2] = ["desk:look-up", "desk:file"];

/// Expected answers, by task.
static ANSWERS: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let answers = tasks().into_iter().map(|task| {
        let id = task["taskId"].as_str().unwrap().to_owned();
        (id, expected_of(&task))
    });
    answers.collect()
});

/// The tasks of the library.
fn tasks() -> Vec<Value> {
    let subject = Subject {
        taxonomy: None,
        own: Vec::new(),
        agent: CLERK.parse().unwrap(),
        reached_by: None,
        domain: None,
        tools: TOOLS.map(str::to_owned).to_vec(),
    };
    let suites = Test::ALL.map(|test| prepare(test, &subject).unwrap().suite);
    let tasks = suites
        .iter()
        .map(|suite| suite["tasks"].as_array().unwrap());
    tasks.flatten().cloned().collect()
}

fn expected_of(task: &Value) -> String {
    task["expected"]["match"]["value"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Expected answers, by input: for agents that receive only the input.
pub fn expected() -> Vec<(Value, String)> {
    let tasks = tasks().into_iter();
    tasks
        .map(|task| (task["input"].clone(), expected_of(&task)))
        .collect()
}

/// Tasks it cannot do: the hardest level, and those it has not learned yet.
const BEYOND: [&str; 6] = [
    "level-5", "case-01", "case-02", "case-03", "case-04", "case-05",
];

/// The workers it calls in orchestration tasks, turn by turn; a worker that failed is called again.
const TURNS: [(&str, &[&[&str]]); 3] = [
    (
        "quarter-report",
        &[&["sales", "stock"], &["stock"], &["analyst"], &["writer"]],
    ),
    (
        "recall",
        &[&["finder"], &["caller", "packer"], &["caller"], &["clerk"]],
    ),
    (
        "move",
        &[
            &["planner"],
            &["electrician", "carrier"],
            &["carrier"],
            &["tester"],
            &["tester"],
            &["opener"],
        ],
    ),
];

/// The workers to call now: one to hand the task to, or those of the next turn.
fn workers(task: &str, turn: usize, expected: &str) -> Vec<String> {
    if let Some((_, turns)) = TURNS.iter().find(|(name, _)| *name == task) {
        let next = turns.get(turn).copied().unwrap_or_default();
        return next.iter().map(|id| format!("aaaf-worker:{id}")).collect();
    }
    match expected
        .strip_prefix("DONE-")
        .and_then(|it| it.split_once(':'))
    {
        Some((_, other)) if other != "self" && turn == 0 => vec![format!("aaaf-delegate:{other}")],
        _ => Vec::new(),
    }
}

/// The agent's answer to a task of the library.
pub fn answer(request: &ModelRequest<'_>) -> Option<ModelReply> {
    let task = request.task?;
    let own = task.input.get("own").and_then(Value::as_str);
    let expected = own.or_else(|| ANSWERS.get(task.id.as_str()).map(String::as_str))?;
    let usage = Some(TokenUsage {
        input: 10,
        output: 5,
        cached_input: None,
    });
    let turns = request.messages.iter();
    let turn = turns
        .filter(|it| matches!(it, Message::Assistant { .. }))
        .count();
    let called = workers(task.id.as_str(), turn, expected);
    if !called.is_empty() {
        let calls = called.into_iter().enumerate();
        let calls = calls.map(|(n, tool)| ToolCall {
            id: format!("call-{turn}-{n}"),
            tool,
            arguments: Ok(json!({"reason": task.id.as_str()})),
        });
        return Some(ModelReply {
            tool_calls: calls.collect(),
            usage,
            ..ModelReply::default()
        });
    }
    let told = request.messages.iter().find_map(|message| match message {
        Message::Tool { content, .. } => Some(content.clone()),
        _ => None,
    });
    let text = match (task.input.get("tool"), told) {
        (Some(tool), None) => {
            let call = ToolCall {
                id: "call-1".to_owned(),
                tool: tool.as_str().unwrap().to_owned(),
                arguments: Ok(json!({})),
            };
            return Some(ModelReply {
                tool_calls: vec![call],
                usage,
                ..ModelReply::default()
            });
        }
        (Some(_), Some(told)) => {
            let told: Value = serde_json::from_str(&told).unwrap();
            format!("RECEIPT={}", told["receipt"].as_str().unwrap())
        }
        (None, _) if BEYOND.contains(&task.id.as_str()) => "I do not know.".to_owned(),
        (None, _) => format!("It comes to {expected}."),
    };
    Some(ModelReply {
        text: Some(text),
        usage,
        ..ModelReply::default()
    })
}
