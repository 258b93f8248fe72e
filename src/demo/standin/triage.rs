//! The simulated model's rules: words for each queue, and what each of the two models overlooks.

use std::time::Duration;

use serde_json::{Value, json};

/// The skills of a model.
#[derive(Clone, Copy, Debug)]
pub struct Skill {
    /// Response time.
    pub thinks_for: Duration,
    /// Reads the whole ticket, not only its subject and first sentence.
    reads_on: bool,
    /// Notices that "not about billing" excludes billing.
    hears_denials: bool,
    /// Treats capital letters as urgent.
    easily_alarmed: bool,
    knows_german: bool,
    /// Calls the account lookup tool when it needs the customer's plan.
    looks_up: bool,
    /// Reads its memory.
    remembers: bool,
}

impl Skill {
    pub const LARGE: Self = Self {
        thinks_for: crate::demo::standin::LARGE_THINKS,
        reads_on: true,
        hears_denials: true,
        easily_alarmed: false,
        knows_german: true,
        looks_up: true,
        remembers: true,
    };
    pub const SMALL: Self = Self {
        thinks_for: crate::demo::standin::SMALL_THINKS,
        reads_on: false,
        hears_denials: false,
        easily_alarmed: true,
        knows_german: false,
        looks_up: false,
        remembers: false,
    };
}

/// The input of a model.
#[derive(Clone, Debug, Default)]
pub struct ModelInput {
    pub ticket: Value,
    /// Wire name of the account lookup tool, if it is available.
    pub lookup: Option<String>,
    /// Result of the tool call.
    pub looked_up: Option<Value>,
    /// Memory entries.
    pub memory: Vec<Value>,
}

/// The output of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelOutput {
    /// A final answer.
    Text(String),
    /// A tool call.
    Call {
        /// Wire name of the tool.
        tool: String,
        arguments: Value,
    },
}

/// Queue, word, and the word's weight for that queue.
const WORDS: &[(&str, &str, u32)] = &[
    ("billing", "invoice", 2),
    ("billing", "billing", 2),
    ("billing", "refund", 3),
    ("billing", "charged", 3),
    ("billing", "vat ", 3),
    ("billing", "plan", 2),
    ("app", "error 500", 4),
    ("app", "page", 2),
    ("app", "print", 2),
    ("app", "blank", 2),
    ("app", "sign-in", 2),
    ("app", "login", 2),
    ("app", "password", 2),
    ("app", "dashboard", 3),
    ("app", "load", 1),
    ("carriers", "parcel", 1),
    ("carriers", "carrier", 2),
    ("carriers", "pickup", 2),
    ("carriers", "tracking", 2),
    ("carriers", "scan", 2),
    ("carriers", "lost", 2),
    ("carriers", "crushed", 2),
    ("carriers", "damaged", 3),
    ("api", "api", 2),
    ("api", "webhook", 3),
    ("api", "connection", 3),
    ("api", "unauthorised", 2),
    ("success", "how do i", 4),
    ("success", "how to", 4),
    ("success", "is there a way", 3),
    ("success", "could you", 2),
    ("success", "thank", 4),
    ("success", "wish", 3),
    ("trust", "gdpr", 4),
    ("trust", "erase", 3),
    ("trust", "phishing", 5),
    ("trust", "other people's data", 6),
];

/// The same for German.
const GERMAN: &[(&str, &str, u32)] = &[
    ("app", "drucken", 4),
    ("app", "gedruckt", 4),
    ("billing", "rechnung", 3),
    ("carriers", "paket", 2),
];

const NOBODY_CAN_SHIP: &[&str] = &["nobody here can ship", "nichts versenden"];
const GRAVE: &[&str] = &[
    "no way round",
    "charged twice",
    "lost",
    "damaged",
    "broken",
    "gdpr",
    "phishing",
];
const HARMLESS: &[&str] = &["we would like", "thank", "?"];

pub fn answer(skill: Skill, input: &ModelInput) -> ModelOutput {
    let text = |name: &str| {
        input
            .ticket
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (subject, body) = (text("subject"), text("body"));
    if !skill.knows_german && !body.is_ascii() {
        return ModelOutput::Text(
            "I am sorry, I could not make out what this ticket is about.".to_owned(),
        );
    }
    let mut plan = text("plan").to_owned();
    if skill.looks_up && plan.is_empty() {
        match (&input.looked_up, &input.lookup, text("accountId")) {
            (Some(account), _, _) => account
                .get("plan")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .clone_into(&mut plan),
            (None, Some(tool), account) if !account.is_empty() => {
                return ModelOutput::Call {
                    tool: tool.clone(),
                    arguments: json!({"accountId": account}),
                };
            }
            _ => {}
        }
    }
    let body = if skill.reads_on {
        body
    } else {
        body.split_inclusive(". ").next().unwrap_or(body)
    };
    let ticket = format!("{subject}. {body}").to_lowercase();
    if skill.remembers
        && let Some(queue) = incident(&input.memory, &ticket)
    {
        return decision(queue, "urgent");
    }
    let queue = queue(skill, &ticket);
    let priority = priority(skill, queue, &ticket);
    decision(queue, raised(priority, &plan))
}

fn decision(queue: &str, priority: &str) -> ModelOutput {
    ModelOutput::Text(json!({"queue": queue, "priority": priority}).to_string())
}

fn queue(skill: Skill, ticket: &str) -> &'static str {
    let mut best = ("success", 0);
    for name in ["billing", "app", "carriers", "api", "success", "trust"] {
        if skill.hears_denials && ticket.contains(&format!("not about {name}")) {
            continue;
        }
        let german = if skill.knows_german { GERMAN } else { &[] };
        let weight = WORDS
            .iter()
            .chain(german)
            .filter(|(queue, word, _)| *queue == name && ticket.contains(word))
            .map(|(_, _, weight)| weight)
            .sum();
        if weight > best.1 {
            best = (name, weight);
        }
    }
    best.0
}

fn priority(skill: Skill, queue: &str, ticket: &str) -> &'static str {
    let holds = |words: &[&str]| words.iter().any(|word| ticket.contains(word));
    if holds(NOBODY_CAN_SHIP)
        || ticket.contains("other people's data")
        || (skill.easily_alarmed && ticket.contains("urgent"))
    {
        "urgent"
    } else if holds(GRAVE) {
        "high"
    } else if queue == "success" || holds(HARMLESS) {
        "low"
    } else {
        "normal"
    }
}

fn raised<'a>(priority: &'a str, plan: &str) -> &'a str {
    match (plan, priority) {
        ("enterprise", "normal") => "high",
        ("enterprise", "low") => "normal",
        _ => priority,
    }
}

/// The queue of a running incident that shares at least two longer words with the ticket.
fn incident<'a>(memory: &'a [Value], ticket: &str) -> Option<&'a str> {
    let fits = |entry: &&Value| {
        let summary = entry
            .get("summary")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_lowercase();
        let mut words: Vec<&str> = summary
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.len() > 3 && ticket.contains(word))
            .collect();
        words.sort_unstable();
        words.dedup();
        words.len() >= 2
    };
    memory
        .iter()
        .filter(|entry| is(entry, "kind", "incident") && is(entry, "state", "running"))
        .find(fits)
        .and_then(|entry| entry.get("queue").and_then(Value::as_str))
}

fn is(entry: &Value, member: &str, value: &str) -> bool {
    entry.get(member).and_then(Value::as_str) == Some(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::demo::pack::Release;
    use crate::kinds::KINDS;
    use touchstone_runs::rules::eval::suite_rules::read_suite;

    /// Runs the whole suite directly, without host and protocol.
    #[rstest]
    #[case(Skill::LARGE, &["lost-in-settings"])]
    #[case(Skill::SMALL, &[
        "invoice-page-error", "other-shops-orders", "returns-setup", "tracking-incident", "phishing-mail",
        "german-labels", "house-font", "lost-in-settings", "slow-mornings",
    ])]
    fn each_stand_in_model_fails_exactly_its_expected_tasks(
        #[case] skill: Skill,
        #[case] expected: &[&str],
    ) {
        let files = Release::Present.files();
        let suite = read_suite(KINDS, &files["evals/support-triage.json"])
            .unwrap()
            .suite;
        let mut failed = Vec::new();
        for task in &suite.tasks {
            let fixtures = task.fixtures.clone().unwrap_or_default();
            let memory = fixtures.memory_seed.into_iter().map(Value::Object);
            let mut input = ModelInput {
                ticket: task.input.clone(),
                lookup: Some("parcelport_account_lookup".to_owned()),
                looked_up: None,
                memory: memory.collect(),
            };
            let mut output = answer(skill, &input);
            if let ModelOutput::Call { .. } = output {
                input.looked_up = Some(fixtures.tool_responses[0].response.clone());
                output = answer(skill, &input);
            }
            let wanted = &task.expected.matching.as_ref().unwrap().value;
            let right = match output {
                ModelOutput::Text(text) => {
                    serde_json::from_str::<Value>(&text).is_ok_and(|v| v == *wanted)
                }
                ModelOutput::Call { .. } => false,
            };
            if !right {
                failed.push(task.task_id.to_string());
            }
        }
        assert_eq!(failed, expected);
    }
}
