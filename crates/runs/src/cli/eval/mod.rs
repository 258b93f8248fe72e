//! `touchstone eval`: run a suite against an agent and print the verdict.

pub mod advice;
pub mod case_options;
mod configuration;
pub mod described;
pub mod folder;
pub mod matrix;
pub mod selection;
mod target;
pub mod trials;
mod watching;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::cassette::CassetteOptions;
use crate::cli::compare;
use crate::cli::compare::baseline_file::{BaselineFile, BaselineOptions, ReadAttested};
use crate::cli::eval::described::DescribedAgent;
use crate::cli::eval::selection::SelectionOptions;
use crate::cli::eval::target::{Selected, Subject, Target, subject};
use crate::cli::progress_file::ProgressOptions;
use crate::cli::run::reference::{LATEST, LATEST_PASSED, resolve};
use crate::cli::run::tag::tag;
use crate::cli::watch::{Outputs, Started, watch_beside};
use crate::rules::eval::matching::is_member_pointer;
use crate::rules::eval::suite_rules::SuiteRef;
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{AssertOptions, ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_agents::model::answer_cache::AnswerCache;
use touchstone_agents::model::answer_cache::folder::AnswerFolder;
use touchstone_agents::model::cassette::Cassette;
use touchstone_agents::rules::worker_labels::WorkerLabel;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::shell::quoted;
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::suite::EvalMode;
use touchstone_packs::rules::format::PackFormat;

const EXAMPLES: &str = "\
Exit codes: 0 passed with significance (with --lenient: passed), 1 failed, 2 bad input, 3 could
not complete, 4 inconclusive: some tasks are unjudged, or too few tasks to show that the pass
score is reached.

A FOLDER, or a prompt with cases, needs no signature, installation or new version. Such runs are
local work: gates refuse them by default, because the suite is not signed.

Examples:
  touchstone eval my-agent --model-url http://127.0.0.1:11434/v1 --model llama3.2
  touchstone eval --prompt prompt.md --cases cases.csv \\
    --model-url http://127.0.0.1:11434/v1 --model llama3.2
  touchstone eval --agent-command ./agent.py --cases cases.csv --watch
  touchstone eval --agent-command ./agent.py --cases cases.csv --pass-score 0.8
  touchstone eval --cases promptfooconfig.yaml
  touchstone eval my-agent --agent-command ./agent.py --failed-of run_0199c0de --timeout 30s
  touchstone eval my-agent --agent-command ./agent.py --filter refund --limit 5
  touchstone eval my-agent --agent-command ./agent.py --task-tag billing --task-tag slow
  touchstone eval vendor.acme.evals.triage@1.0.0 \\
    --agent vendor.acme.triage.default
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default@1.1.0 \\
    --model-url http://127.0.0.1:11434/v1 --model llama3.2 --concurrency 8
  touchstone eval vendor.acme.evals.tone@1.0.0 --agent vendor.acme.triage.default \\
    --judge-url http://127.0.0.1:11434/v1 --judge-model qwen2.5
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --baseline latest-passed --junit eval.xml --markdown eval.md --sarif eval.sarif
  touchstone eval capitals --agent-command ./agent.py --baseline logs/capitals.eval
  touchstone eval my-agent --agent-command ./agent.py --baseline main.intoto.jsonl \\
    --baseline-key ci.pub
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --fixture-run refund-basic=latest
  touchstone eval vendor.acme.evals.triage@1.0.0 \\
    --agent vendor.acme.triage.default --trials 5
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --replay triage.cassette.jsonl
  touchstone eval vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default \\
    --agent-command ./agent.py --record triage.cassette.jsonl";

/// Run a suite against an agent and print progress, scorecard and verdict
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Installed suite, by id and exact version; or a pack folder, which is evaluated as it is
    #[arg(value_name = "SUITE@VERSION|FOLDER", value_parser = subject)]
    subject: Option<Subject>,

    #[command(flatten)]
    described: DescribedAgent,

    /// Agent [default version: the highest installed one; default with FOLDER: its only agent]
    #[arg(long, value_name = "AGENT[@VERSION]")]
    agent: Option<String>,

    /// Suite of FOLDER, by id [default: its only suite]
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,

    #[command(flatten)]
    model: ModelEndpoint,

    /// Earlier run of the same suite and version to compare with, by its id or a unique start of
    /// it; `latest` or `latest-passed` of the same agent, in any version, and suite. Or a file,
    /// which changes no verdict: the attestation of a run, `.jsonl`, by a trusted key
    /// (--baseline-key), or a log of Inspect, `.eval` or `.json`, compared by task id
    #[arg(long, value_name = "RUN|FILE", value_parser = compare::baseline)]
    baseline: Option<String>,

    #[command(flatten)]
    baseline_options: BaselineOptions,

    /// Evaluate without a comparison if --baseline is `latest` or `latest-passed` and there is no
    /// such run yet
    #[arg(long, requires = "baseline")]
    baseline_optional: bool,

    /// Answer the tool calls of a task as an earlier run of the same suite and version recorded them;
    /// repeat for several tasks. The run is named as for --baseline. A call that it did not record fails
    /// the task
    #[arg(long = "fixture-run", value_name = "TASK=RUN", value_parser = fixture_run)]
    fixture_runs: Vec<(String, String)>,

    #[command(flatten)]
    selection: SelectionOptions,

    /// Maximum number of tasks in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Where tasks are executed: by the host, or by its workers [default: the host's setting]
    #[arg(long, value_name = "local|cluster", value_parser = ["local", "cluster"])]
    distribution: Option<String>,

    /// Label that workers need for the tasks, such as `gpu` or `region=eu`; repeat for all labels of one
    /// of the sets in `cluster.labels` of the host. The tasks are then executed by workers
    #[arg(long = "worker-label", value_name = "LABEL", value_parser = WorkerLabel::parse)]
    worker_labels: Vec<WorkerLabel>,

    /// Command of workers that acts as the agent instead of a model, by the name that it has in their
    /// configuration. The tasks are then executed by workers that have it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model_url", "replay", "agent_command"])]
    worker_command: Option<String>,

    /// Scoring mode; repeat for several [default: every mode the suite declares; live-shadow only
    /// if it is the only one]. Regression needs --baseline, which adds it
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
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with_all = ["junit", "markdown", "sarif", "lenient", "record", "replay"])]
    trials: Option<u32>,

    /// Tag of the run, for `touchstone run list --tag`; repeat for several. To select tasks by
    /// their tags, use --task-tag
    #[arg(long = "tag", value_name = "TAG", value_parser = tag)]
    tags: Vec<String>,

    /// Run the suite even if it targets another agent
    #[arg(long)]
    any_target: bool,

    /// Command that acts as the agent instead of a model, exchanging one JSON document per line
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["model_url", "replay"])]
    agent_command: Option<String>,

    #[command(flatten)]
    assertions: AssertOptions,

    /// Call the models for every request. Otherwise runs of a folder, or of an agent described by
    /// flags, reuse answers to equal requests of earlier runs
    #[arg(long)]
    no_cache: bool,

    /// Run again when the folder, or a file named by a flag, changes; Ctrl-C ends
    #[arg(long, conflicts_with_all = ["trials", "record", "replay", "save"])]
    watch: bool,

    #[command(flatten)]
    cassette: CassetteOptions,

    #[command(flatten)]
    outputs: Outputs,

    #[command(flatten)]
    progress: ProgressOptions,
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

/// A task and a run. Ids of tasks may have a `=`.
fn fixture_run(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((task, run)) if !task.is_empty() && !run.is_empty() => {
            Ok((task.to_owned(), run.to_owned()))
        }
        _ => Err("must be the id of a task, `=` and a run, such as refund-basic=latest".to_owned()),
    }
}

pub fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("must be an amount in USD of at least 0".to_owned()),
    }
}

impl Arguments {
    fn selected(&self) -> Selected<'_> {
        Selected {
            subject: self.subject.as_ref(),
            described: &self.described,
            agent: self.agent.as_deref(),
            suite: self.suite.as_deref(),
            by_command: self.agent_command.is_some(),
        }
    }

    /// The arguments of `eval` that select agent and suite.
    fn again(&self) -> String {
        let mut words = match &self.subject {
            None => return self.described.words(),
            Some(Subject::Suite(suite)) => quoted(suite).into_owned(),
            Some(Subject::Folder(folder)) => quoted(&folder.to_string_lossy()).into_owned(),
        };
        for (flag, value) in [("--agent", &self.agent), ("--suite", &self.suite)] {
            if let Some(value) = value {
                // A later version is compared, so the version of the agent is not repeated.
                let id = value.split('@').next().unwrap_or_default();
                words.push_str(&format!(" {flag} {}", quoted(id)));
            }
        }
        words
    }

    /// The file that the run is compared with, if the baseline is one.
    fn baseline_file(
        &self,
        context: &Context<'_>,
        read: ReadAttested,
    ) -> Result<Option<BaselineFile>, Failure> {
        let baseline = self.baseline.as_deref().unwrap_or_default();
        let file = BaselineFile::open(context, baseline, &self.baseline_options, read)?;
        if file.is_some() && self.trials.is_some() {
            return Err(
                Failure::usage("--trials cannot be compared with a file").or_try(
                    "omit --trials, or compare one of the runs with `touchstone compare FILE RUN`",
                ),
            );
        }
        Ok(file)
    }

    /// Whether the run can start although its baseline was not found.
    fn may_lack(&self, failure: &Failure) -> bool {
        let is_latest = matches!(self.baseline.as_deref(), Some(LATEST | LATEST_PASSED));
        self.baseline_optional && is_latest && failure.code == ErrorCode::NotFound.as_str()
    }

    /// Opens the embedded or remote host with the models that the options select.
    async fn open(
        &self,
        context: &Context<'_>,
        cassette: Option<Cassette>,
    ) -> Result<Session, Failure> {
        self.open_reusing(context, cassette, None).await
    }

    /// As [`Self::open`]. Answers of the agent's command are reused among runs with the same
    /// `program`.
    async fn open_reusing(
        &self,
        context: &Context<'_>,
        cassette: Option<Cassette>,
        program: Option<String>,
    ) -> Result<Session, Failure> {
        // Answers of earlier runs are for local work only, which is no evidence anyway.
        let reuses = self.selected().is_local() && !self.no_cache && cassette.is_none();
        let folder = AnswerFolder::of_user(&|name| std::env::var_os(name)).filter(|_| reuses);
        let own = OwnModels {
            cassette,
            agent_command: self.agent_command.clone(),
            answers: folder.map(|folder| Arc::new(AnswerCache::new(folder).of_program(program))),
            assertions: self.assertions.settings()?,
            ..OwnModels::default()
        };
        work_with(context, self.model.config(), own).await
    }
}

pub async fn run(
    context: &Context<'_>,
    kinds: Kinds,
    format: PackFormat,
    read: ReadAttested,
    mut arguments: Arguments,
) -> Result<Exit, Failure> {
    arguments.selected().check()?;
    arguments.outputs.check()?;
    arguments.progress.open()?;
    if arguments.agent_command.is_some() && !context.is_embedded() {
        return Err(commands_are_local());
    }
    arguments.outputs.again = Some(arguments.again());
    // The file of cases comes after the prompt.
    let work = arguments.selected().sources().pop().map(Path::to_owned);
    arguments.outputs.work = work.into_iter().collect();
    arguments.configured(context)?;
    // A file that cannot be used is reported before anything is paid for.
    let file = arguments.baseline_file(context, read)?;
    if arguments.watch {
        return watching::run(context, kinds, format, &arguments, file.as_ref()).await;
    }
    let target = arguments.selected().resolve(context, format).await?;
    let cassette = arguments.cassette.open(context)?;
    let session = arguments.open(context, cassette.clone()).await?;
    let flags = session.model_flags().to_owned();
    let outcome = async {
        if let Some(trials) = arguments.trials {
            return trials::run(context, &session, &arguments, &target, trials).await;
        }
        let started = start(context, &session, &arguments, &target).await?;
        watch_beside(
            context,
            &session,
            kinds,
            &started.run_id,
            &arguments.outputs,
            file.as_ref(),
        )
        .await
    }
    .await;
    session.close().await;
    if context.terminal().interactive()
        && let Some(step) = arguments.described.next_step(context, &flags)
    {
        context.terminal().note(&step);
    }
    match (cassette, outcome) {
        (Some(cassette), Ok(exit)) => Ok(arguments.cassette.finish(context, &cassette, exit)),
        (Some(cassette), Err(failure)) => {
            arguments.cassette.finish(context, &cassette, Exit::NotDone);
            Err(failure)
        }
        (None, outcome) => outcome,
    }
}

/// The failure for a command on another host.
fn commands_are_local() -> Failure {
    Failure::usage(
        "--agent-command works only with the embedded host: no other host executes commands",
    )
    .or_try("omit --server")
}

/// Creates the run.
async fn start(
    context: &Context<'_>,
    session: &Session,
    arguments: &Arguments,
    target: &Target,
) -> Result<Started, Failure> {
    let client = session.client();
    let body = resolved_request(context, client, arguments, target).await?;
    post(context, client, target, &body).await
}

/// As [`start`] with this body; a refusal comes with a remedy.
async fn post(
    context: &Context<'_>,
    client: &Client,
    target: &Target,
    body: &Value,
) -> Result<Started, Failure> {
    match client.post("/v1/runs", body).await {
        Err(failure) => {
            let names = [target.suite.as_str(), target.agent.as_str()];
            Err(advice::explained(context, client, names, failure).await)
        }
        started => started,
    }
}

const BASELINE: &str = "/configurable/baselineRunId";
const FIXTURE_RUNS: &str = "/configurable/fixtureRuns";

/// As [`request`], with the ids of the runs that the options name. `latest` is one of the same
/// agent and suite.
async fn resolved_request(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
    target: &Target,
) -> Result<Value, Failure> {
    let mut body = request(arguments, target);
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut among = vec![("agentId", text("agentId").unwrap_or_default())];
    if let Some((suite, version)) = target.suite.split_once('@') {
        among.push(("suiteId", suite.to_owned()));
        among.push(("suiteVersion", version.to_owned()));
    }
    if let Some(Value::Object(runs)) = body.pointer_mut(FIXTURE_RUNS) {
        for run in runs.values_mut() {
            let name = run.as_str().unwrap_or_default();
            *run = json!(resolve(context, client, name, &among).await?);
        }
    }
    for named in [BASELINE, "/configurable/evalTasks/failedOf"] {
        if let Some(Value::String(name)) = body.pointer_mut(named) {
            match resolve(context, client, name, &among).await {
                Ok(run) => *name = run,
                Err(failure) if named == BASELINE && arguments.may_lack(&failure) => {
                    let note = format!("no comparison: {}", failure.message);
                    context.terminal().note(&note);
                    if let Some(Value::Object(members)) = body.get_mut("configurable") {
                        members.remove("baselineRunId");
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(body)
}

/// The body of `POST /v1/runs` (OpenWOP run-options; RFC 0081 §B).
fn request(arguments: &Arguments, target: &Target) -> Value {
    let mut configurable = Map::new();
    let mut set = |key: &str, value: Value| configurable.insert(key.to_owned(), value);
    let (agent, version) = match target.agent.split_once('@') {
        Some((agent, version)) => (agent, Some(version)),
        None => (target.agent.as_str(), None),
    };
    if let Some(version) = version {
        set("agentVersion", json!(version));
    }
    // Without a list, the host scores every mode the suite declares, so no intended mode is skipped
    // silently.
    if !arguments.modes.is_empty() {
        set("evalModes", json!(arguments.modes));
    }
    // The host knows its runs; a file is compared here.
    let run = arguments.baseline.as_ref();
    let is_file = |it: &str| compare::is_log(it) || compare::is_attestation(it);
    if let Some(baseline) = run.filter(|it| !is_file(it)) {
        set("baselineRunId", json!(baseline));
    }
    if !arguments.fixture_runs.is_empty() {
        let runs = arguments.fixture_runs.iter();
        let runs: Map<String, Value> = runs.map(|(task, run)| (task.clone(), json!(run))).collect();
        set("fixtureRuns", Value::Object(runs));
    }
    if let Some(concurrency) = arguments.concurrency {
        set("evalConcurrency", json!(concurrency));
    }
    if let Some(distribution) = &arguments.distribution {
        set("evalDistribution", json!(distribution));
    }
    if let Some(command) = &arguments.worker_command {
        set("evalWorkerCommand", json!(command));
    }
    if !arguments.worker_labels.is_empty() {
        set("evalWorkerLabels", json!(arguments.worker_labels));
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
    arguments.selection.set(&mut configurable);
    let mut body = json!({
        "mode": "eval",
        "evalSuiteRef": target.suite,
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
        let arguments = Line::try_parse_from(line).unwrap().arguments;
        let target = Target {
            agent: arguments.agent.clone().unwrap_or_default(),
            suite: "vendor.acme.evals.triage@1.0.0".to_owned(),
        };
        request(&arguments, &target)
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
            "--fixture-run",
            "a=b=run_2",
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
        assert_eq!(
            request.fixture_runs,
            [("a=b".into(), "run_2".into())].into()
        );
        assert_eq!(request.concurrency, Some(8));
        assert_eq!(request.ignore, ["/rationale"]);
        assert!(request.target_override);
        assert_eq!(request.budget.max_cost.map(|cost| cost.usd()), Some(0.5));
    }

    #[test]
    fn recorded_fixtures_name_a_task_and_a_run() {
        for wrong in ["task", "=run_1", "task=", "="] {
            let line = ["eval", "s@1.0.0", "--agent", "a", "--fixture-run", wrong];
            assert!(Line::try_parse_from(line).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_log_as_baseline_is_not_part_of_the_request() {
        let agent = "vendor.acme.triage.default";
        let request = eval_request(&body(&[agent, "--baseline", "logs/triage.eval"]));
        assert_eq!(request.baseline_run_id, None);
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
