//! Parses the request body (OpenWOP run-options). Unknown members are rejected, and every error
//! names its field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::budget::budget;
use super::fixtures;
use super::options::{RunOptions, members};
use super::selection::TaskSelection;
use super::workflow::{CreateWorkflow, parse_workflow};
use crate::rules::eval::matching::is_member_pointer;
use crate::rules::eval::suite_rules::SuiteRef;
use crate::rules::kind::Kinds;
use crate::rules::run::record::{ChannelPin, Trial};
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::rules::distribution::Distribution;
use touchstone_agents::rules::worker_labels::{
    MAX_COMMAND, MAX_LABEL, MAX_LABELS, WorkerLabel, WorkerLabels, is_command_name,
};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{AgentId, RunId, TaskId};
use touchstone_openwop::channel::Channel;
use touchstone_openwop::suite::EvalMode;

const MAX_IGNORE: usize = 100;
const MAX_TRIALS: u64 = 100;
const MAX_EXPERIMENT_CHARS: usize = 64;

/// A well-formed request for an eval run.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRun {
    /// `suiteId@version`.
    pub suite: SuiteRef,
    /// The agent to evaluate.
    pub agent_id: AgentId,
    /// `configurable.agentVersion`: a version instead of the highest installed one.
    pub agent_version: Option<String>,
    /// `configurable.agentChannel`: the version that is active on a channel.
    pub agent_channel: Option<Channel>,
    /// The result of resolving the channel, once it is resolved.
    pub channel_pin: Option<ChannelPin>,
    /// `configurable.evalModes`; `None` means all modes the suite declares.
    pub modes: Option<Vec<EvalMode>>,
    /// `configurable.baselineRunId`.
    pub baseline_run_id: Option<RunId>,
    /// `configurable.fixtureRuns`.
    pub fixture_runs: BTreeMap<TaskId, RunId>,
    /// `configurable.evalMatch.ignore`.
    pub ignore: Vec<String>,
    /// `configurable.evalTargetOverride`: run a suite against an agent it was not written for.
    pub target_override: bool,
    /// `configurable.evalTasks`.
    pub tasks: TaskSelection,
    /// `configurable.evalTaskTimeoutMs`: the longest time of one task's agent.
    pub task_timeout_ms: Option<u64>,
    /// `configurable.evalConcurrency`.
    pub concurrency: Option<u32>,
    /// `configurable.temperature`.
    pub temperature: Option<f64>,
    /// `configurable.maxTokens`.
    pub max_tokens: Option<u64>,
    /// `configurable.maxLoopIterations`.
    pub max_loop_iterations: Option<u32>,
    /// Where its tasks are executed; the host's default if absent.
    pub distribution: Option<Distribution>,
    /// `configurable.evalWorkerLabels`: the labels that workers need for its tasks.
    pub worker_labels: WorkerLabels,
    /// `configurable.evalWorkerCommand`: the command of workers that answers for the agent.
    pub worker_command: Option<String>,
    /// `configurable.budget`.
    pub budget: BudgetSpec,
    /// `configurable.trial`.
    pub trial: Option<Trial>,
    /// The options of every kind of run. Their `configurable` contains the member of the requested
    /// evaluation kind, checked by that kind.
    pub options: RunOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Eval(Box<CreateRun>),
    Workflow(Box<CreateWorkflow>),
}

impl Request {
    /// The options of every kind of run.
    pub fn options(&self) -> &RunOptions {
        match self {
            Self::Eval(request) => &request.options,
            Self::Workflow(request) => &request.options,
        }
    }

    /// The options, mutable.
    pub fn options_mut(&mut self) -> &mut RunOptions {
        match self {
            Self::Eval(request) => &mut request.options,
            Self::Workflow(request) => &mut request.options,
        }
    }
}

/// Parses the body of `POST /v1/runs`.
///
/// # Errors
/// `validation_error` naming the field; `capability_not_provided` for what this host does not
/// offer.
pub fn parse(kinds: Kinds, body: &Value) -> Result<Request, Problem> {
    let body = members(body)?;
    match body.text("mode")? {
        // An eval run needs no workflow, but a given `workflowId` must be a valid name.
        Some("eval") => {
            body.text("workflowId")?;
            parse_eval(kinds, &body).map(|request| Request::Eval(Box::new(request)))
        }
        Some(_) => Err(body.invalid("mode", "must be \"eval\"")),
        None => match body.text("workflowId")? {
            Some(id) => parse_workflow(&body, id).map(|request| Request::Workflow(Box::new(request))),
            None => Err(body.invalid(
                "mode",
                "is missing; send `mode: \"eval\"` with `evalSuiteRef` and `agentId`, or a `workflowId`",
            )),
        },
    }
}

fn parse_eval(kinds: Kinds, body: &Fields<'_>) -> Result<CreateRun, Problem> {
    let reference = required(body, "evalSuiteRef")?;
    let suite = reference
        .parse::<SuiteRef>()
        .map_err(|fault| body.invalid("evalSuiteRef", &fault.to_string()))?;
    let agent_id = AgentId::from(required(body, "agentId")?);
    let configurable = body.object("configurable")?.unwrap_or_default();
    let fields = Fields::of(&configurable, "configurable");
    reject_unsupported(&fields)?;
    let ignore = match fields.object("evalMatch")? {
        None => Vec::new(),
        Some(matching) => {
            if let Some(unknown) = matching.keys().find(|key| *key != "ignore") {
                return Err(fields.invalid(
                    &format!("evalMatch.{unknown}"),
                    "is not a known member; the only member is `ignore`",
                ));
            }
            ignore_list(&matching)?
        }
    };
    let budget = match fields.object("budget")? {
        None => BudgetSpec::default(),
        Some(members) => budget(&members)?,
    };
    let agent_version = fields.text("agentVersion")?.map(str::to_owned);
    let agent_channel = fields
        .text("agentChannel")?
        .map(|name| {
            name.parse::<Channel>().map_err(|fault| {
                fields.invalid("agentChannel", &format!("is not a channel: {fault}"))
            })
        })
        .transpose()?;
    if agent_version.is_some() && agent_channel.is_some() {
        return Err(fields.invalid(
            "agentChannel",
            "cannot be combined with `agentVersion`; name a version or a channel (RFC 0082 §A)",
        ));
    }
    Ok(CreateRun {
        suite,
        agent_id,
        agent_version,
        agent_channel,
        channel_pin: None,
        modes: modes(&fields)?,
        baseline_run_id: fields.text("baselineRunId")?.map(RunId::from),
        fixture_runs: fixtures::read(&fields)?,
        ignore,
        tasks: TaskSelection::read(&fields)?,
        task_timeout_ms: fields.whole("evalTaskTimeoutMs", 1)?,
        target_override: fields.boolean("evalTargetOverride")?.unwrap_or(false),
        concurrency: fields
            .whole("evalConcurrency", 1)?
            .map(|tasks| u32::try_from(tasks).unwrap_or(u32::MAX)),
        temperature: fields.number("temperature", 0.0, 2.0)?,
        max_tokens: fields.whole("maxTokens", 1)?,
        distribution: distribution(&fields)?,
        worker_labels: worker_labels(&fields)?,
        worker_command: worker_command(&fields)?,
        max_loop_iterations: fields
            .whole("maxLoopIterations", 1)?
            .map(|turns| u32::try_from(turns).unwrap_or(u32::MAX)),
        budget,
        trial: match fields.get("trial") {
            None => None,
            Some(members) => Some(trial(members)?),
        },
        options: {
            for kind in kinds.iter() {
                fields
                    .get(kind.name())
                    .map_or(Ok(()), |it| kind.check(it))?;
            }
            RunOptions::read(body)?
        },
    })
}

fn required<'a>(body: &Fields<'a>, name: &str) -> Result<&'a str, Problem> {
    body.text(name)?
        .ok_or_else(|| body.invalid(name, "is required with `mode: \"eval\"`"))
}

fn distribution(fields: &Fields<'_>) -> Result<Option<Distribution>, Problem> {
    let name = "evalDistribution";
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    let known = Distribution::parse(text);
    let wrong = || fields.invalid(name, "must be \"local\" or \"cluster\"");
    known.ok_or_else(wrong).map(Some)
}

fn worker_labels(fields: &Fields<'_>) -> Result<WorkerLabels, Problem> {
    let name = "evalWorkerLabels";
    let texts = fields.texts(name, MAX_LABELS, MAX_LABEL)?;
    let labels = texts.unwrap_or_default().into_iter();
    let labels: Result<Vec<WorkerLabel>, String> = labels
        .map(|text| {
            WorkerLabel::parse(&text).map_err(|problem| format!("contains a label that {problem}"))
        })
        .collect();
    let labels = labels.and_then(WorkerLabels::new);
    labels.map_err(|problem| fields.invalid(name, &problem))
}

fn worker_command(fields: &Fields<'_>) -> Result<Option<String>, Problem> {
    let name = "evalWorkerCommand";
    let Some(command) = fields.text(name)? else {
        return Ok(None);
    };
    if !is_command_name(command) {
        let rule = format!(
            "must have 1 to {MAX_COMMAND} letters, digits, `-`, `_` and `.`: the name of a command in the configuration of workers"
        );
        return Err(fields.invalid(name, &rule));
    }
    Ok(Some(command.to_owned()))
}

fn trial(members: &Value) -> Result<Trial, Problem> {
    let members = Fields::closed(
        members,
        "configurable.trial",
        &["experimentId", "index", "of"],
        Nulls::Wrong,
    )?;
    let is_label = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let experiment_id = members
        .text("experimentId")?
        .filter(|id| (1..=MAX_EXPERIMENT_CHARS).contains(&id.len()) && id.chars().all(is_label))
        .ok_or_else(|| {
            members.invalid(
                "experimentId",
                "must be 1 to 64 letters, digits, `-`, `_` or `.`",
            )
        })?;
    let within = |name: &str, most: u64| {
        members
            .whole(name, 1)?
            .filter(|count| *count <= most)
            .and_then(|count| u32::try_from(count).ok())
            .ok_or_else(|| members.invalid(name, &format!("must be an integer from 1 to {most}")))
    };
    let of = within("of", MAX_TRIALS)?;
    Ok(Trial {
        experiment_id: experiment_id.to_owned(),
        index: within("index", u64::from(of))?,
        of,
    })
}

fn modes(fields: &Fields<'_>) -> Result<Option<Vec<EvalMode>>, Problem> {
    let name = "evalModes";
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let shape = "must be a non-empty list of modes without duplicates";
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        return Err(fields.invalid(name, shape));
    };
    let mut modes = Vec::with_capacity(items.len());
    for item in items {
        let Some(mode) = item.as_str().and_then(EvalMode::parse) else {
            return Err(fields.invalid(name, "contains an unknown mode"));
        };
        if modes.contains(&mode) {
            return Err(fields.invalid(name, shape));
        }
        modes.push(mode);
    }
    Ok(Some(modes))
}

/// Settings that would change the agent or the model. The verdict must describe what was requested,
/// so a request with one of them is rejected; ignoring the setting would be misleading.
fn reject_unsupported(fields: &Fields<'_>) -> Result<(), Problem> {
    const REFUSED: &[&str] = &[
        "model",
        "ai.provider",
        "ai.model",
        "ai.credentialRef",
        "promptOverrides",
        "mockProvider",
    ];
    match REFUSED.iter().find(|name| fields.get(name).is_some()) {
        Some(name) => Err(fields.invalid(
            name,
            "is not supported by this host: prompts come from the pack, models from the host's configuration; leave it out",
        )),
        None => Ok(()),
    }
}

fn ignore_list(matching: &Map<String, Value>) -> Result<Vec<String>, Problem> {
    let fields = Fields::of(matching, "configurable.evalMatch");
    let Some(value) = fields.get("ignore") else {
        return Ok(Vec::new());
    };
    let shape =
        format!("must be a list of at most {MAX_IGNORE} JSON Pointers such as \"/rationale\"");
    let items = value.as_array().filter(|items| items.len() <= MAX_IGNORE);
    items
        .and_then(|items| {
            items
                .iter()
                .map(|item| {
                    item.as_str()
                        .filter(|pointer| is_member_pointer(pointer))
                        .map(str::to_owned)
                })
                .collect::<Option<Vec<_>>>()
        })
        .ok_or_else(|| fields.invalid("ignore", &shape))
}
