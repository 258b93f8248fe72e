//! The pack that `pack init` creates: one agent, its prompt and schemas, and a suite that evaluates
//! it. And the pack of an agent that consists of a prompt and cases only.

use serde_json::{Value, json};

use crate::rules::archive::MANIFEST;
use crate::rules::build::Files;
use crate::rules::name::is_pack_name;

const FILES: [(&str, &str); 6] = [
    ("README.md", include_str!("new_pack/README.md")),
    (
        "evals/label.json",
        include_str!("new_pack/evals/label.json"),
    ),
    ("pack.json", include_str!("new_pack/pack.json")),
    (
        "prompts/agent.md",
        include_str!("new_pack/prompts/agent.md"),
    ),
    (
        "schemas/label.return.schema.json",
        include_str!("new_pack/schemas/label.return.schema.json"),
    ),
    (
        "schemas/label.task.schema.json",
        include_str!("new_pack/schemas/label.task.schema.json"),
    ),
];

/// The files of a new pack; `None` if the name is not a valid pack name.
pub fn new_pack(name: &str) -> Option<Files> {
    if !is_pack_name(name) {
        return None;
    }
    // The first two segments: the suites belong to the publisher's namespace.
    let space: Vec<&str> = name.split('.').take(2).collect();
    let fill = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{space}}", &space.join("."))
    };
    let files = FILES
        .iter()
        .map(|(file, text)| ((*file).to_owned(), fill(text).into_bytes()));
    Some(files.collect())
}

/// Namespace of the packs of [`prompt_pack`].
const LOCAL_SPACE: &str = "private.local";
const PROMPT: &str = "prompts/agent.md";
const CASES: &str = "evals/cases.json";
const SCORING: &str = "evals/cases.scoring.json";
const ANSWER: &str = "schemas/answer.return.schema.json";

/// An agent that has a prompt and cases, and accepts every input.
pub struct PromptAgent<'a> {
    /// Its name: the last segment of the pack's name.
    pub name: &'a str,
    pub prompt: &'a str,
    /// A suite document. Its id and target are replaced by those of the pack.
    pub suite: Value,
    /// The scoring document of the suite, if it has one.
    pub scoring: Option<Value>,
    /// The tools that it may call.
    pub tools: &'a [String],
    /// Whether its answer is a JSON object; otherwise any text is.
    pub answers_object: bool,
}

/// The files of a pack for this agent.
///
/// # Errors
/// A document cannot be written.
pub fn prompt_pack(agent: PromptAgent<'_>) -> serde_json::Result<Files> {
    let own = segment(agent.name);
    let name = format!("{LOCAL_SPACE}.{own}");
    let agent_id = format!("{name}.default");
    let (mut suite, mut scoring) = (agent.suite, agent.scoring);
    if let Some(members) = suite.as_object_mut() {
        let id = format!("{LOCAL_SPACE}.evals.{own}");
        members.insert("suiteId".to_owned(), id.clone().into());
        if let Some(scoring) = scoring.as_mut().and_then(Value::as_object_mut) {
            scoring.insert("suiteId".to_owned(), id.into());
        }
        members.insert("targetAgentId".to_owned(), agent_id.clone().into());
    }
    let mut entry = json!({
        "agentId": agent_id,
        "persona": own,
        "modelClass": "general",
        "systemPromptRef": PROMPT,
        "evalSuiteRef": CASES,
        "toolAllowlist": agent.tools,
    });
    let mut files = Files::new();
    let mut write = |file: &str, document: &Value| -> serde_json::Result<()> {
        files.insert(file.to_owned(), serde_json::to_vec_pretty(document)?);
        Ok(())
    };
    if agent.answers_object
        && let Some(members) = entry.as_object_mut()
    {
        members.insert("handoff".to_owned(), json!({"returnSchemaRef": ANSWER}));
        write(ANSWER, &json!({"type": "object"}))?;
    }
    write(CASES, &suite)?;
    if let Some(scoring) = &scoring {
        write(SCORING, scoring)?;
    }
    let manifest = json!({
        "name": name,
        "version": "0.1.0",
        "engines": {"openwop": ">=1.1.0 <2.0.0"},
        "peerDependencies": {"aiProviders": "supported"},
        "agents": [entry],
        "runtime": {"language": "remote", "entry": MANIFEST},
    });
    write(MANIFEST, &manifest)?;
    files.insert(PROMPT.to_owned(), agent.prompt.as_bytes().to_vec());
    Ok(files)
}

/// The name as a segment of a pack's name.
fn segment(name: &str) -> String {
    const MAX_CHARS: usize = 64;
    let allowed = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    };
    let segment: String = name.chars().map(allowed).take(MAX_CHARS).collect();
    match segment.chars().next() {
        Some(first) if first.is_ascii_lowercase() => segment,
        _ => format!("agent{segment}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::manifest;

    fn prompt_agent(name: &str, answers_object: bool) -> Files {
        let expected = json!({"kind": "golden", "match": {"strategy": "exact", "value": "b"}});
        let suite = json!({
            "suiteId": "private.imported.evals.x", "version": "1.0.0", "modes": ["golden"],
            "tasks": [{"taskId": "a", "input": "text", "expected": expected}],
        });
        let agent = PromptAgent {
            name,
            prompt: "Answer b.",
            suite,
            scoring: None,
            tools: &["orders".to_owned()],
            answers_object,
        };
        prompt_pack(agent).unwrap()
    }

    #[rstest]
    #[case("triage", false, "private.local.triage")]
    #[case("My Prompt v2.txt", true, "private.local.my-prompt-v2-txt")]
    #[case("2nd", false, "private.local.agent2nd")]
    #[case("", false, "private.local.agent")]
    fn a_prompt_and_cases_make_a_valid_pack(
        #[case] name: &str,
        #[case] answers_object: bool,
        #[case] pack: &str,
    ) {
        let files = prompt_agent(name, answers_object);
        let manifest: Value = serde_json::from_slice(&files[MANIFEST]).unwrap();
        assert_eq!(manifest["name"], pack);
        assert_eq!(manifest["agents"][0]["toolAllowlist"], json!(["orders"]));
        assert_eq!(files.contains_key(ANSWER), answers_object);
        manifest::read(&files[MANIFEST]).unwrap();
        assert_eq!(files[PROMPT], b"Answer b.");
    }

    #[test]
    fn a_pack_template_requires_a_valid_name() {
        assert!(new_pack("ticket-labels").is_none());
    }
}
