//! One JSON object per task. Columns have the names that `suite import` knows.

use serde_json::{Map, Value, json};

use crate::rules::eval::scoring_document::ScoringDocument;
use touchstone_openwop::suite::{AgentEvalSuite, Task};

pub fn text(suite: &AgentEvalSuite, scoring: Option<&ScoringDocument>) -> String {
    let mut text = String::new();
    for task in &suite.tasks {
        text.push_str(&row(task, scoring).to_string());
        text.push('\n');
    }
    text
}

fn row(task: &Task, scoring: Option<&ScoringDocument>) -> Value {
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    put("id", json!(task.task_id));
    put("input", task.input.clone());
    if let Some(matching) = &task.expected.matching {
        put("expected", matching.value.clone());
        put("match", json!(matching.strategy));
    }
    if let Some(rubric) = &task.expected.rubric {
        put("rubric", json!(rubric));
    }
    if let Some(fixtures) = &task.fixtures {
        put("fixtures", json!(fixtures));
    }
    if let Some(scoring) = scoring.and_then(|it| it.of_task(&task.task_id)) {
        put("assertions", json!(scoring.assertions));
        if let Some(threshold) = scoring.threshold {
            put("threshold", json!(threshold));
        }
    }
    if let Some(conversation) = scoring.and_then(|it| it.conversation(&task.task_id)) {
        put("conversation", json!(conversation));
    }
    let files = scoring.map(|it| it.attachments(&task.task_id));
    let files = files.unwrap_or_default();
    if !files.is_empty() {
        put("attachments", json!(files));
    }
    let tags = scoring.map(|it| it.tags(&task.task_id));
    let tags = tags.unwrap_or_default();
    if !tags.is_empty() {
        put("tags", json!(tags));
    }
    Value::Object(row)
}
