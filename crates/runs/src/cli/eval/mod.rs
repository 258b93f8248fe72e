//! `touchstone eval`: run a suite against an agent and print the verdict.

pub mod advice;
pub mod folder;
pub mod trials;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::cassette::CassetteOptions;
use crate::cli::run::reference::resolve;
use crate::cli::watch::{Outputs, Started, watch};
use crate::rules::eval::matching::is_member_pointer;
use crate::rules::eval::suite_rules::SuiteRef;
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::suite::EvalMode;
use touchstone_packs::rules::format::PackFormat;

const EXAMPLES: &str = "\
Exit codes: 0 passed with significance (with --lenient: passed), 1 failed, 2 bad input, 3 could
not complete, 4 inconclusive: some tasks are unjudged, or too few tasks to show that the pass
score is reached.

A FOLDER needs no signature, installation or new version. Its runs are local work: gates refuse
them by default, because the suite is not signed.

Examples:
  touchstone eval my-agent --model-url http://127.0.0.1:11434/v1 --model llama3.2
  touchstone eval vendor.acme.evals.triage@1.0.0 \\
    --agent vendor.acme.triage.default
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default@1.1.0 \\
    --model-url http://127.0.0.1:11434/v1 --model llama3.2 --concurrency 8
  touchstone eval vendor.acme.evals.tone@1.0.0 --agent vendor.acme.triage.default \\
    --judge-url http://127.0.0.1:11434/v1 --judge-model qwen2.5
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --baseline latest-passed --junit eval.xml --markdown eval.md
  touchstone eval vendor.acme.evals.triage@1.0.0 \\
    --agent vendor.acme.triage.default --trials 5
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --replay triage.cassette.jsonl
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --agent-command ./agent.py --record triage.cassette.jsonl";

/// Run a suite against an agent and print progress, scorecard and verdict
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Installed suite, by id and exact version; or a pack folder, which is evaluated as it is
    #[arg(value_name = "SUITE@VERSION|FOLDER", value_parser = subject)]
    subject: Subject,

    /// Agent [default version: the highest installed one; default with FOLDER: its only agent]
    #[arg(long, value_name = "AGENT[@VERSION]")]
    agent: Option<String>,

    /// Suite of FOLDER, by id [default: its only suite]
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,

    #[command(flatten)]
    model: ModelEndpoint,

    /// Earlier run of the same suite and version to compare with, by its id or a unique start of it;
    /// `latest` or `latest-passed` of the same agent, in any version, and suite
    #[arg(long, value_name = "RUN", value_parser = crate::cli::run::run_id)]
    baseline: Option<String>,

    /// Maximum number of tasks in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Scoring mode; repeat for several [default: every mode the suite declares; regression only
    /// with --baseline, live-shadow only if it is the only one]
    #[arg(long = "mode", value_name = "MODE", value_parser = mode)]
    modes: Vec<EvalMode>,

    /// JSON Pointer of a member to ignore when matching; repeat for several. Recorded with the run;
    /// gates reject such runs by default
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    ignore: Vec<String>,

    /// Maximum cost of the run in USD
    #[arg(long, value_name = "X", value_parser = amount, allow_negative_numbers = true)]
    max_cost_usd: Option<f64>,

    /// Number of trials, 1 to 100; results are pooled
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with_all = ["junit", "markdown", "lenient", "record", "replay"])]
    trials: Option<u32>,

    /// Tag of the run, for `touchstone run list --tag`; repeat for several
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    /// Run the suite even if it targets another agent
    #[arg(long)]
    any_target: bool,

    /// Command that acts as the agent instead of a model, exchanging one JSON document per line
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["model_url", "replay"])]
    agent_command: Option<String>,

    #[command(flatten)]
    cassette: CassetteOptions,

    #[command(flatten)]
    outputs: Outputs,
}

/// What to evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// `suiteId@version`.
    Suite(String),
    Folder(PathBuf),
}

/// A suite has a version, and no `/` in its id.
fn subject(text: &str) -> Result<Subject, String> {
    let path = Path::new(text);
    if path.is_dir() || text.contains('/') || !text.contains('@') {
        return Ok(Subject::Folder(path.to_owned()));
    }
    suite(text).map(Subject::Suite)
}

pub fn suite(text: &str) -> Result<String, String> {
    text.parse::<SuiteRef>()
        .map(|suite| suite.to_string())
        .map_err(|fault| fault.to_string())
}

fn pointer(text: &str) -> Result<String, String> {
    if is_member_pointer(text) {
        Ok(text.to_owned())
    } else {
        Err("must be a JSON Pointer to a member, such as /rationale".to_owned())
    }
}

fn mode(text: &str) -> Result<EvalMode, String> {
    EvalMode::parse(text).ok_or_else(|| {
        let known: Vec<&str> = EvalMode::ALL.iter().map(|mode| mode.as_str()).collect();
        format!("must be one of {}", known.join(", "))
    })
}

pub fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("must be an amount in USD of at least 0".to_owned()),
    }
}

pub async fn run(
    context: &Context<'_>,
    kinds: Kinds,
    format: PackFormat,
    mut arguments: Arguments,
) -> Result<Exit, Failure> {
    arguments.outputs.check()?;
    if arguments.agent_command.is_some() && !context.is_embedded() {
        return Err(Failure::usage(
            "--agent-command works only with the embedded host: no other host executes commands",
        )
        .or_try("omit --server"));
    }
    match &arguments.subject {
        Subject::Suite(_) if arguments.suite.is_some() => {
            return Err(
                Failure::usage("--suite chooses a suite of a FOLDER").or_try("omit --suite")
            );
        }
        Subject::Suite(_) if arguments.agent.is_none() => {
            return Err(Failure::usage("--agent is missing").or_try(format!(
                "list agents with {} pack list, and add --agent AGENT",
                context.program()
            )));
        }
        Subject::Suite(_) => {}
        Subject::Folder(path) => {
            let (agent, suite) = (arguments.agent.as_deref(), arguments.suite.as_deref());
            let local = folder::install(context, format, path, agent, suite).await?;
            arguments.agent = Some(local.agent);
            arguments.subject = Subject::Suite(local.suite);
        }
    }
    resolve_baseline(context, &mut arguments).await?;
    let cassette = arguments.cassette.open(context)?;
    let own = OwnModels {
        cassette: cassette.clone(),
        agent_command: arguments.agent_command.clone(),
    };
    let session = work_with(context, arguments.model.config(), own).await?;
    let body = request(&arguments);
    let outcome = async {
        if let Some(trials) = arguments.trials {
            return trials::run(context, &session, &arguments, trials).await;
        }
        let client = session.client();
        let started: Started = match client.post("/v1/runs", &body).await {
            Err(failure) => return Err(advised(context, client, &arguments, failure).await),
            started => started?,
        };
        watch(
            context,
            &session,
            kinds,
            &started.run_id,
            &arguments.outputs,
        )
        .await
    }
    .await;
    session.close().await;
    match (cassette, outcome) {
        (Some(cassette), Ok(exit)) => Ok(arguments.cassette.finish(context, &cassette, exit)),
        (Some(cassette), Err(failure)) => {
            arguments.cassette.finish(context, &cassette, Exit::NotDone);
            Err(failure)
        }
        (None, outcome) => outcome,
    }
}

/// Replaces the name of the baseline by its id.
async fn resolve_baseline(context: &Context<'_>, arguments: &mut Arguments) -> Result<(), Failure> {
    let Some(baseline) = &mut arguments.baseline else {
        return Ok(());
    };
    let agent = arguments.agent.as_deref().unwrap_or_default();
    let agent = agent.split_once('@').map_or(agent, |(agent, _)| agent);
    let mut among = vec![("agentId", agent.to_owned())];
    if let Subject::Suite(suite) = &arguments.subject
        && let Some((suite, version)) = suite.split_once('@')
    {
        among.push(("suiteId", suite.to_owned()));
        among.push(("suiteVersion", version.to_owned()));
    }
    let session = context.read().await?;
    *baseline = resolve(context, session.client(), baseline, &among).await?;
    Ok(())
}

/// Adds a remedy to a refused run.
async fn advised(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
    failure: Failure,
) -> Failure {
    let suite = match &arguments.subject {
        Subject::Suite(suite) => suite.as_str(),
        Subject::Folder(_) => "",
    };
    let agent = arguments.agent.as_deref().unwrap_or_default();
    advice::explained(context, client, [suite, agent], failure).await
}

/// The body of `POST /v1/runs` (OpenWOP run-options; RFC 0081 §B).
fn request(arguments: &Arguments) -> Value {
    let mut configurable = Map::new();
    let mut set = |key: &str, value: Value| configurable.insert(key.to_owned(), value);
    let agent = arguments.agent.as_deref().unwrap_or_default();
    let (agent, version) = match agent.split_once('@') {
        Some((agent, version)) => (agent, Some(version)),
        None => (agent, None),
    };
    let suite = match &arguments.subject {
        Subject::Suite(suite) => suite.as_str(),
        Subject::Folder(_) => "",
    };
    if let Some(version) = version {
        set("agentVersion", json!(version));
    }
    // Without a list, the host scores every mode the suite declares, so no intended mode is skipped
    // silently.
    if !arguments.modes.is_empty() {
        set("evalModes", json!(arguments.modes));
    }
    if let Some(baseline) = &arguments.baseline {
        set("baselineRunId", json!(baseline));
    }
    if let Some(concurrency) = arguments.concurrency {
        set("evalConcurrency", json!(concurrency));
    }
    if !arguments.ignore.is_empty() {
        set("evalMatch", json!({"ignore": arguments.ignore}));
    }
    if let Some(most) = arguments.max_cost_usd {
        set("budget", json!({"maxCostUsd": most}));
    }
    if arguments.any_target {
        set("evalTargetOverride", json!(true));
    }
    let mut body = json!({
        "mode": "eval",
        "evalSuiteRef": suite,
        "agentId": agent,
        "configurable": configurable,
    });
    if let (Some(members), false) = (body.as_object_mut(), arguments.tags.is_empty()) {
        members.insert("tags".to_owned(), json!(arguments.tags));
    }
    body
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::rules::run::request::{CreateRun, Request, parse};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn body(line: &[&str]) -> Value {
        let start = ["eval", "vendor.acme.evals.triage@1.0.0", "--agent"];
        let line = start.iter().chain(line);
        request(&Line::try_parse_from(line).unwrap().arguments)
    }

    fn eval_request(body: &Value) -> CreateRun {
        match parse(Kinds::NONE, body).unwrap() {
            Request::Eval(request) => *request,
            Request::Workflow(request) => panic!("{request:?} is for a workflow"),
        }
    }

    #[test]
    fn cli_options_build_a_valid_run_request() {
        let body = body(&[
            "vendor.acme.triage.default@1.1.0",
            "--baseline",
            "run_1",
            "--concurrency",
            "8",
            "--ignore",
            "/rationale",
            "--max-cost-usd",
            "0.5",
            "--any-target",
        ]);
        let request = eval_request(&body);
        assert_eq!(request.agent_id.as_str(), "vendor.acme.triage.default");
        assert_eq!(request.agent_version.as_deref(), Some("1.1.0"));
        assert_eq!(request.modes, None);
        assert_eq!(request.baseline_run_id, Some("run_1".into()));
        assert_eq!(request.concurrency, Some(8));
        assert_eq!(request.ignore, ["/rationale"]);
        assert!(request.target_override);
        assert_eq!(request.budget.max_cost.map(|cost| cost.usd()), Some(0.5));
    }

    #[test]
    fn the_suite_says_how_it_is_scored_unless_the_caller_does() {
        let agent = "vendor.acme.triage.default";
        let request = eval_request(&body(&[agent]));
        assert_eq!((request.modes, request.agent_version), (None, None));
        let request = eval_request(&body(&[agent, "--mode", "golden"]));
        assert_eq!(request.modes, Some(vec![EvalMode::Golden]));
    }
}
