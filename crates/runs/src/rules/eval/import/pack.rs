//! A pack for an imported suite: one agent per prompt.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::draft::{Imported, slug};

/// The files of a pack by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A prompt that becomes the instructions of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentDraft {
    pub label: String,
    pub prompt: String,
}

const WITHOUT_PROMPT: &str = "Answer the question in the message.\n";

/// The name of the pack for a suite: `vendor.acme.evals.triage` belongs to `vendor.acme.triage`.
pub fn pack_name(suite_id: &str) -> String {
    suite_id.replacen(".evals.", ".", 1)
}

/// The ids of the pack's agents, in order.
pub fn agent_ids(imported: &Imported, pack: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for agent in &imported.agents {
        let name = match slug(&agent.label) {
            name if name.is_empty() => "prompt".to_owned(),
            name => name,
        };
        let mut id = format!("{pack}.{name}");
        let mut number = 2;
        while ids.contains(&id) {
            id = format!("{pack}.{name}-{number}");
            number += 1;
        }
        ids.push(id);
    }
    match ids.is_empty() {
        true => vec![format!("{pack}.default")],
        false => ids,
    }
}

/// The files of the pack.
pub fn files(imported: &Imported) -> Files {
    let suite_id = member(&imported.suite, "suiteId");
    let version = member(&imported.suite, "version");
    let pack = pack_name(suite_id);
    let suite_name = suite_id.rsplit('.').next().unwrap_or("suite");
    let suite_file = format!("evals/{suite_name}.json");
    let mut files = Files::new();
    let mut agents = Vec::new();
    let ids = agent_ids(imported, &pack);
    for (index, id) in ids.iter().enumerate() {
        let name = id.rsplit('.').next().unwrap_or("agent");
        let prompt_file = format!("prompts/{name}.md");
        let agent = imported.agents.get(index);
        let prompt = agent.map_or(WITHOUT_PROMPT.to_owned(), instructions);
        files.insert(prompt_file.clone(), prompt.into_bytes());
        let persona = agent.map_or("Imported agent", |agent| agent.label.as_str());
        let persona: String = persona.chars().take(100).collect();
        agents.push(json!({
            "agentId": id,
            "persona": persona,
            "modelClass": "general",
            "role": "skill",
            "systemPromptRef": prompt_file,
            "evalSuiteRef": suite_file,
            "toolAllowlist": imported.tools,
            "memoryShape": {"scratchpad": false, "conversation": false, "longTerm": false},
            "handoff": {},
        }));
    }
    let manifest = json!({
        "name": pack,
        "version": version,
        "description": "Imported prompts and tasks.",
        "engines": {"openwop": ">=1.1.0 <2.0.0"},
        "peerDependencies": {"aiProviders": "supported"},
        "agents": agents,
        "runtime": {"language": "remote", "entry": "pack.json"},
    });
    files.insert("pack.json".to_owned(), pretty(&manifest));
    files.insert(suite_file, pretty(&imported.suite));
    if let Some(scoring) = &imported.scoring {
        files.insert(format!("evals/{suite_name}.scoring.json"), pretty(scoring));
    }
    files
}

fn member<'a>(document: &'a Value, name: &str) -> &'a str {
    document
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn pretty(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}

/// The prompt, with an explanation of its variables: the input of a task has their values.
pub fn instructions(agent: &AgentDraft) -> String {
    let prompt = agent.prompt.trim_end();
    match prompt.contains("{{") {
        true => format!(
            "{prompt}\n\nThe message is a JSON object. A name in double braces above stands for \
             the member of that name.\n"
        ),
        false => format!("{prompt}\n"),
    }
}
