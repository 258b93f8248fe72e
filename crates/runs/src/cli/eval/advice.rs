//! Remedies for refused eval runs, in terms of the command line.

use serde::Deserialize;
use serde_json::Value;

use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::options::with_options;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::near::did_you_mean;

/// Members of the request, and the options that set them. A longer name precedes its own start.
const OPTIONS: [(&str, &str); 23] = [
    ("configurable.baselineRunId", "--baseline"),
    ("configurable.fixtureRuns", "--fixture-run"),
    ("configurable.evalTargetOverride", "--any-target"),
    ("configurable.evalConcurrency", "--concurrency"),
    ("configurable.evalDistribution", "--distribution"),
    ("configurable.evalWorkerCommand", "--worker-command"),
    ("configurable.evalWorkerLabels", "--worker-label"),
    ("configurable.evalModes", "--mode"),
    ("configurable.evalMatch.ignore", "--ignore"),
    ("configurable.evalMatch", "--ignore"),
    ("configurable.budget.maxCostUsd", "--max-cost-usd"),
    ("configurable.budget", "--max-cost-usd"),
    ("configurable.evalTaskTimeoutMs", "--timeout"),
    ("configurable.evalTasks.ids", "--task"),
    ("configurable.evalTasks.filter", "--filter"),
    ("configurable.evalTasks.tags", "--task-tag"),
    ("configurable.evalTasks.failedOf", "--failed-of"),
    ("configurable.evalTasks.limit", "--limit"),
    ("configurable.evalTasks", "--task"),
    ("configurable.trial", "--trials"),
    ("configurable.agentVersion", "--agent AGENT@VERSION"),
    ("evalSuiteRef", "SUITE@VERSION"),
    ("agentId", "--agent"),
];

#[derive(Deserialize)]
struct Suites {
    suites: Vec<Suite>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suite {
    suite_id: String,
    version: String,
}

#[derive(Deserialize)]
struct Packs {
    packs: Vec<Pack>,
}

#[derive(Deserialize)]
struct Pack {
    version: String,
    #[serde(default)]
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    agent_id: String,
}

/// Explains a refused run: names options, not members of the request; the host answers the same for
/// a missing suite and a missing agent, so it says which of them is unknown and suggests similar
/// names.
pub async fn explained(
    context: &Context<'_>,
    client: &Client,
    [suite, agent]: [&str; 2],
    mut failure: Failure,
) -> Failure {
    let detail = |name: &str| failure.details.get(name).and_then(Value::as_str);
    let reason = detail("reason").map(str::to_owned);
    let is_unresolved =
        detail("field") == Some("evalSuiteRef") && failure.remedy.is_none() && reason.is_none();
    if context.is_embedded()
        && let Some(remedy) = reason.as_deref().and_then(missing_part)
    {
        failure.message = with_options(&failure.message, &OPTIONS);
        return failure.or_try(remedy);
    }
    failure.message = with_options(&failure.message, &OPTIONS);
    if !is_unresolved {
        return failure;
    }
    let program = context.program();
    if let Some(message) = missing_suite(client, suite).await {
        failure.message = message;
        return failure.or_try(format!("list suites with {program} suite list"));
    }
    if let Some(message) = missing_agent(client, agent).await {
        failure.message = message;
        return failure.or_try(format!("list agents with {program} pack list"));
    }
    failure.or_try(format!(
        "list suites with {program} suite list, and agents with {program} pack list"
    ))
}

/// The flags for a part that the run needs and that is not configured.
fn missing_part(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "model_missing" => "add --model-url URL --model NAME, or --agent-command COMMAND",
        "judge_missing" => "add --judge-url URL --judge-model NAME",
        "user_missing" => "add --user-url URL --user-model NAME",
        "embeddings_missing" => "add --embeddings-url URL --embeddings-model NAME",
        "assert_command_missing" => "add --assert-command COMMAND",
        _ => return None,
    })
}

/// Says that there is no such suite; `None` if there is one, or the list cannot be read.
async fn missing_suite(client: &Client, suite: &str) -> Option<String> {
    let listed: Suites = client.get("/v1/host/touchstone/suites").await.ok()?;
    let references: Vec<String> = listed
        .suites
        .iter()
        .map(|it| format!("{}@{}", it.suite_id, it.version))
        .collect();
    unknown("suite", suite, &references)
}

/// As `failure`, with similar names if no such agent is installed.
pub async fn with_similar_agents(client: &Client, agent: &str, failure: Failure) -> Failure {
    if failure.code != ErrorCode::NotFound.as_str() {
        return failure;
    }
    match missing_agent(client, agent).await {
        Some(message) => Failure { message, ..failure },
        None => failure,
    }
}

async fn missing_agent(client: &Client, agent: &str) -> Option<String> {
    let listed: Packs = client.get("/v1/host/touchstone/packs").await.ok()?;
    let mut references = Vec::new();
    for pack in &listed.packs {
        for it in &pack.agents {
            references.push(match agent.contains('@') {
                true => format!("{}@{}", it.agent_id, pack.version),
                false => it.agent_id.clone(),
            });
        }
    }
    unknown("agent", agent, &references)
}

fn unknown(what: &str, name: &str, known: &[String]) -> Option<String> {
    if known.iter().any(|it| it == name) {
        return None;
    }
    let unknown = format!("there is no {what} {name}");
    let same_id = |it: &String| {
        let (id, _) = name.split_once('@')?;
        it.strip_prefix(id)?.strip_prefix('@').map(str::to_owned)
    };
    let versions: Vec<String> = known.iter().filter_map(same_id).collect();
    if !versions.is_empty() {
        return Some(format!(
            "{unknown}; installed versions: {}",
            versions.join(", ")
        ));
    }
    Some(match did_you_mean(name, known.iter().map(String::as_str)) {
        Some(near) => format!("{unknown}; {near}"),
        None => unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_options_instead_of_members_of_the_request() {
        let message = "regression needs `configurable.baselineRunId`: a finished eval run";
        assert_eq!(
            with_options(message, &OPTIONS),
            "regression needs --baseline: a finished eval run"
        );
        let message = "`configurable.budget.maxCostUsd` must be at least 0";
        assert_eq!(
            with_options(message, &OPTIONS),
            "--max-cost-usd must be at least 0"
        );
    }

    #[test]
    fn a_missing_part_comes_with_its_flags() {
        let judge = missing_part("judge_missing").unwrap();
        assert!(judge.contains("--judge-url"));
        assert_eq!(missing_part("not_found"), None);
    }

    #[test]
    fn an_unknown_name_comes_with_similar_ones() {
        let known = ["vendor.acme.triage.default".to_owned()];
        assert_eq!(
            unknown("agent", "vendor.acme.triage.defalt", &known).unwrap(),
            "there is no agent vendor.acme.triage.defalt; did you mean vendor.acme.triage.default?"
        );
        assert_eq!(unknown("agent", "vendor.acme.triage.default", &known), None);
        let known = ["a.evals.b@1.0.0".to_owned(), "a.evals.b@1.1.0".to_owned()];
        assert_eq!(
            unknown("suite", "a.evals.b@2.0.0", &known).unwrap(),
            "there is no suite a.evals.b@2.0.0; installed versions: 1.0.0, 1.1.0"
        );
    }
}
