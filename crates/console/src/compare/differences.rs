//! The settings in which two runs differ, in words.

use serde_json::Value;

use touchstone_host::render::words::plain;

/// Characters of a digest that are shown.
const DIGEST: usize = 19;

pub struct Difference {
    pub what: String,
    pub baseline: String,
    pub candidate: String,
}

impl Difference {
    pub fn of(found: &touchstone_runs::rules::eval::comparison::Difference) -> Self {
        Self {
            what: name(&found.what),
            baseline: text(&found.baseline),
            candidate: text(&found.candidate),
        }
    }
}

fn name(what: &str) -> String {
    let name = match what {
        "suiteId" => "Suite",
        "suiteVersion" => "Suite version",
        "suiteDigest" => "Content of the suite",
        "scoringDigest" => "Content of the scoring document",
        "passScore" => "Pass score",
        "agentId" => "Agent",
        "agentVersion" => "Agent version",
        "packIntegrity" => "Content of the agent's pack",
        "model" => "Model",
        "judge" => "Judge",
        "safetyJudge" => "Safety judge",
        "embeddings" => "Embedding model",
        "assertCommand" => "Assertion command",
        "simulatedUser" => "Simulated user",
        "modes" => "Modes",
        "ignore" => "Ignored parts of answers",
        "temperature" => "Temperature",
        "maxTokens" => "Maximum tokens of an answer",
        "maxLoopIterations" => "Maximum steps of a task",
        "trials" => "Trials",
        other => return plain(other),
    };
    name.to_owned()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => shortened(&plain(text)),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => plain(&other.to_string()),
    }
}

/// A digest by its start; other text as it is.
fn shortened(text: &str) -> String {
    match text.get(..DIGEST).filter(|_| text.starts_with("sha256-")) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_have_names_and_values_for_people() {
        assert_eq!(name("packIntegrity"), "Content of the agent's pack");
        assert_eq!(name("a new one"), "a new one");
        assert_eq!(text(&json!(null)), "none");
        assert_eq!(text(&json!([])), "none");
        assert_eq!(text(&json!(["golden", "rubric"])), "golden, rubric");
        assert_eq!(text(&json!(0.5)), "0.5");
        let digest = format!("sha256-{}", "a".repeat(44));
        assert_eq!(text(&json!(digest)), "sha256-aaaaaaaaaaaa…");
    }
}
