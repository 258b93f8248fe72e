//! `POST /v1/runs`: from a body to a run with every reference pinned.
//!
//! Two steps, both pure. [`parse`] checks the shape (a closed body; OpenWOP run-options); [`plan`] carries out the checks of
//! an eval run in the order the protocol gives them (RFC 0081 §B). Every refusal names the field and the remedy.

use serde_json::{Map, Value};

use super::record::{Baseline, BudgetSpec, EvalSpec, ModelPin, RunSpec};
use crate::domain::eval::matching::is_member_pointer;
use crate::domain::eval::suite_rules::SuiteRef;
use crate::domain::ids::{AgentId, RunId, TaskId};
use crate::domain::money::NanoUsd;
use crate::protocol::error::Problem;
use crate::protocol::openwop::suite::{AgentEvalSuite, EvalMode, ExpectedKind, ModelClass};

/// Modes this host really scores; what discovery advertises.
pub const SCORED_MODES: &[EvalMode] = &[EvalMode::Golden, EvalMode::Regression];

/// One text for every reason why a suite or an agent cannot be used, so that another tenant's looks like no one's.
const UNRESOLVABLE: &str = "no such suite or agent is installed for this tenant; \
    install the pack or import the suite, and name both exactly (`suiteId@version`, agent id)";

/// One text for every reason why a baseline cannot be used.
const NO_BASELINE: &str = "regression needs `configurable.baselineRunId`: a finished eval run of this tenant \
    over the same suite and version";

const MAX_TAGS: usize = 100;
const MAX_TAG_CHARS: usize = 256;
const MAX_METADATA_BYTES: usize = 8192;
const MAX_METADATA_DEPTH: usize = 4;
const MAX_IGNORE: usize = 100;

/// What the host allows a run to ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLimits {
    /// Tasks in one run.
    pub max_tasks_per_suite: usize,
    /// Money one run may spend.
    pub max_cost_per_suite: Option<NanoUsd>,
    /// Longest duration of a run.
    pub max_run_duration_ms: u64,
    /// Tasks in flight when the caller does not say.
    pub default_concurrency: u32,
    /// Tasks in flight at most.
    pub max_concurrency: u32,
}

/// A well-formed create request.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRun {
    /// `suiteId@version`.
    pub suite: SuiteRef,
    /// The agent.
    pub agent_id: AgentId,
    /// `configurable.agentVersion`: a version instead of the highest installed one.
    pub agent_version: Option<String>,
    /// `configurable.evalModes`; `None`: all modes the suite declares.
    pub modes: Option<Vec<EvalMode>>,
    /// `configurable.baselineRunId`.
    pub baseline_run_id: Option<RunId>,
    /// `configurable.evalMatch.ignore`.
    pub ignore: Vec<String>,
    /// `configurable.evalTargetOverride`: run a suite against an agent it was not written for.
    pub target_override: bool,
    /// `configurable.evalConcurrency`.
    pub concurrency: Option<u32>,
    /// `configurable.temperature`.
    pub temperature: Option<f64>,
    /// `configurable.maxTokens`.
    pub max_tokens: Option<u64>,
    /// `configurable.runTimeoutMs`.
    pub run_timeout_ms: Option<u64>,
    /// `configurable.budget`.
    pub budget: BudgetSpec,
    /// `tenantId`, which must be the key's own.
    pub tenant_id: Option<String>,
    /// `configurable` as it came, without nulls.
    pub configurable: Map<String, Value>,
    /// `inputs` as they came.
    pub inputs: Map<String, Value>,
    /// `tags`.
    pub tags: Vec<String>,
    /// `metadata`.
    pub metadata: Map<String, Value>,
}

/// Reads the body of `POST /v1/runs`.
///
/// # Errors
/// `validation_error` naming the field; `capability_not_provided` for what this host does not offer.
pub fn parse(body: &Value) -> Result<CreateRun, Problem> {
    const FIELDS: &[&str] = &[
        "workflowId",
        "inputs",
        "tenantId",
        "scopeId",
        "callbackUrl",
        "residency",
        "mode",
        "evalSuiteRef",
        "agentId",
        "configurable",
        "tags",
        "metadata",
    ];
    let Some(body) = body.as_object() else {
        return Err(Problem::validation("", "the body must be a JSON object"));
    };
    if let Some(unknown) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(Problem::validation(
            unknown,
            format!("unknown field; known are {}", FIELDS.join(", ")),
        ));
    }
    let body = Fields {
        members: body,
        prefix: "",
    };
    match body.text("mode")? {
        // An eval run names no workflow; one that is named anyway is at least a name.
        Some("eval") => {
            body.text("workflowId")?;
        }
        Some(_) => return Err(body.invalid("mode", "must be \"eval\"")),
        None => {
            return Err(match body.text("workflowId")? {
                Some(_) => body.invalid(
                    "workflowId",
                    "no such workflow; this host runs evals: send `mode: \"eval\"`",
                ),
                None => body.invalid(
                    "mode",
                    "is missing; send `mode: \"eval\"` with `evalSuiteRef` and `agentId`",
                ),
            });
        }
    }
    for unsupported in ["callbackUrl", "residency", "scopeId"] {
        if body.get(unsupported).is_some() {
            return Err(body.invalid(unsupported, "is not supported by this host; leave it out"));
        }
    }
    let reference = body.required_text("evalSuiteRef")?;
    let suite = reference
        .parse::<SuiteRef>()
        .map_err(|fault| body.invalid("evalSuiteRef", &fault.to_string()))?;
    let agent_id = AgentId::from(body.required_text("agentId")?);
    let configurable = body.object("configurable")?.unwrap_or_default();
    let fields = Fields {
        members: &configurable,
        prefix: "configurable.",
    };
    refuse_what_would_be_ignored(&fields)?;
    // Bounds of workflows; an eval has no loops of its own, but a senseless value is refused all the same.
    fields.whole("recursionLimit", 1)?;
    fields.whole("maxLoopIterations", 1)?;
    fields.number("escalationThreshold", 0.0, 1.0)?;
    let ignore = match fields.object("evalMatch")? {
        None => Vec::new(),
        Some(matching) => {
            if let Some(unknown) = matching.keys().find(|key| *key != "ignore") {
                return Err(fields.invalid(
                    &format!("evalMatch.{unknown}"),
                    "is unknown; the only member is `ignore`",
                ));
            }
            ignore_list(&matching)?
        }
    };
    let budget = match fields.object("budget")? {
        None => BudgetSpec::default(),
        Some(members) => budget(&members)?,
    };
    // An eval task has no nodes and no loops to bound, so these are checked and recorded, and have nothing to do.
    for unused in ["recursionLimit", "maxLoopIterations"] {
        fields.whole(unused, 1)?;
    }
    Ok(CreateRun {
        suite,
        agent_id,
        agent_version: fields.text("agentVersion")?.map(str::to_owned),
        modes: modes(&fields)?,
        baseline_run_id: fields.text("baselineRunId")?.map(RunId::from),
        ignore,
        target_override: fields.boolean("evalTargetOverride")?.unwrap_or(false),
        concurrency: fields
            .whole("evalConcurrency", 1)?
            .map(|tasks| u32::try_from(tasks).unwrap_or(u32::MAX)),
        temperature: fields.number("temperature", 0.0, 2.0)?,
        max_tokens: fields.whole("maxTokens", 1)?,
        run_timeout_ms: fields.whole("runTimeoutMs", 1)?,
        budget,
        tenant_id: body.text("tenantId")?.map(str::to_owned),
        inputs: body.object("inputs")?.unwrap_or_default(),
        tags: tags(&body)?,
        metadata: metadata(&body)?,
        configurable: configurable
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
    })
}

/// The agent a run is planned for.
pub struct AgentFacts<'a> {
    /// Its id.
    pub agent_id: &'a AgentId,
    /// The version of its pack.
    pub version: &'a str,
    /// The digest of its pack.
    pub pack_integrity: &'a str,
    /// Its class.
    pub model_class: ModelClass,
    /// Whether its task schema accepts an input.
    pub accepts: &'a dyn Fn(&Value) -> bool,
    /// The model configured for its class.
    pub model: Option<ModelPin>,
}

/// The suite a run is planned for.
pub struct SuiteFacts<'a> {
    /// The document.
    pub document: &'a AgentEvalSuite,
    /// Its digest.
    pub digest: &'a str,
    /// Whether a trusted signature covers it.
    pub signed: bool,
}

/// A finished eval run that may serve as a baseline.
pub struct BaselineFacts<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Whether it completed.
    pub completed: bool,
    /// Its suite.
    pub suite_id: &'a str,
    /// The suite's version.
    pub suite_version: &'a str,
    /// Its aggregate score.
    pub aggregate_score: f64,
}

/// Pins everything, or says why the run cannot be.
///
/// # Errors
/// `validation_error` naming the field, in the order of the protocol's checks.
pub fn plan(
    request: CreateRun,
    limits: &HostLimits,
    suite: Option<&SuiteFacts<'_>>,
    agent: Option<&AgentFacts<'_>>,
    baseline: Option<&BaselineFacts<'_>>,
) -> Result<RunSpec, Problem> {
    let Some(suite) = suite else {
        return Err(Problem::validation("evalSuiteRef", UNRESOLVABLE));
    };
    let Some(agent) = agent else {
        return Err(Problem::validation("evalSuiteRef", UNRESOLVABLE));
    };
    let document = suite.document;
    if let Some(target) = &document.target_agent_id
        && target != agent.agent_id
        && !request.target_override
    {
        return Err(Problem::validation(
            "agentId",
            format!(
                "the suite is written for agent `{target}`; set `configurable.evalTargetOverride` to run it anyway"
            ),
        ));
    }
    if let Some(allowed) = &document.allowed_models
        && !allowed.contains(&agent.model_class)
    {
        return Err(Problem::validation(
            "agentId",
            format!(
                "the suite does not allow the agent's model class `{}`",
                agent.model_class.as_str()
            ),
        ));
    }
    let modes = usable_modes(&request, document)?;
    let tasks: Vec<TaskId> = document
        .tasks
        .iter()
        .filter(|task| {
            task.expected.kind == ExpectedKind::Golden || modes.contains(&EvalMode::Rubric)
        })
        .map(|task| task.task_id.clone())
        .collect();
    if tasks.is_empty() {
        return Err(Problem::validation(
            "configurable.evalModes",
            "no task of the suite can be scored in these modes; its tasks are rubric tasks",
        ));
    }
    if document.tasks.len() > limits.max_tasks_per_suite {
        return Err(Problem::validation(
            "evalSuiteRef",
            format!(
                "the suite has {} tasks, this host runs at most {} (`limits.max_tasks_per_suite` in its configuration)",
                document.tasks.len(),
                limits.max_tasks_per_suite
            ),
        ));
    }
    if let Some(task) = document
        .tasks
        .iter()
        .find(|task| !(agent.accepts)(&task.input))
    {
        return Err(Problem::validation(
            "evalSuiteRef",
            format!(
                "the input of task `{}` does not satisfy the agent's task schema",
                task.task_id
            ),
        ));
    }
    let baseline = match baseline {
        None => None,
        Some(facts)
            if facts.completed
                && facts.suite_id == document.suite_id
                && facts.suite_version == document.version =>
        {
            Some(Baseline {
                run_id: facts.run_id.clone(),
                aggregate_score: facts.aggregate_score,
            })
        }
        Some(_) => {
            return Err(Problem::validation(
                "configurable.baselineRunId",
                NO_BASELINE,
            ));
        }
    };
    let named = request.baseline_run_id.is_some();
    let regression = modes.contains(&EvalMode::Regression);
    if baseline.is_none() && (named || regression && modes.len() == 1) {
        return Err(Problem::validation(
            "configurable.baselineRunId",
            NO_BASELINE,
        ));
    }
    if named && !regression {
        return Err(Problem::validation(
            "configurable.baselineRunId",
            "a baseline is compared in `regression` mode; add it to `configurable.evalModes`, or leave the baseline out",
        ));
    }
    // ADR 8: RFC 0081 has no field for the baseline, so a client that knows only the RFC asks for `regression` beside other
    // modes and cannot name one. Those modes are run; the one that cannot be is left out, and the run says so.
    let left_out: Vec<EvalMode> = if regression && baseline.is_none() {
        vec![EvalMode::Regression]
    } else {
        Vec::new()
    };
    let modes: Vec<EvalMode> = modes
        .into_iter()
        .filter(|mode| !left_out.contains(mode))
        .collect();
    let Some(model) = agent.model.clone() else {
        return Err(Problem::validation(
            "agentId",
            format!(
                "no model is configured for class `{}`; add a `[[models]]` entry for it or for `*`",
                agent.model_class.as_str()
            ),
        ));
    };
    let concurrency = request
        .concurrency
        .unwrap_or(limits.default_concurrency)
        .clamp(1, limits.max_concurrency.max(1));
    Ok(RunSpec {
        workflow_id: format!("eval:{}@{}", document.suite_id, document.version),
        eval: EvalSpec {
            suite_id: document.suite_id.clone(),
            suite_version: document.version.clone(),
            suite_digest: suite.digest.to_owned(),
            suite_signed: suite.signed,
            suite_task_count: document.tasks.len(),
            agent_id: agent.agent_id.clone(),
            agent_version: agent.version.to_owned(),
            pack_integrity: agent.pack_integrity.to_owned(),
            model_class: agent.model_class,
            model,
            modes,
            modes_left_out: left_out,
            tasks,
            baseline,
            ignore: request.ignore,
            concurrency,
            temperature: request.temperature,
            max_tokens: request.max_tokens,
            // The host's ceiling is a brake; the suite's `maxCostUsd` is a bar and does not stop the run.
            cost_ceiling: limits.max_cost_per_suite,
            budget: request.budget,
            run_timeout_ms: request
                .run_timeout_ms
                .map_or(limits.max_run_duration_ms, |asked| {
                    asked.min(limits.max_run_duration_ms)
                }),
            retry_of: None,
        },
        configurable: request.configurable,
        inputs: request.inputs,
        tags: request.tags,
        metadata: request.metadata,
    })
}

fn usable_modes(request: &CreateRun, suite: &AgentEvalSuite) -> Result<Vec<EvalMode>, Problem> {
    let field = "configurable.evalModes";
    let modes = request.modes.clone().unwrap_or_else(|| suite.modes.clone());
    for mode in &modes {
        if !suite.modes.contains(mode) {
            return Err(Problem::validation(
                field,
                format!("the suite does not declare the mode `{}`", mode.as_str()),
            ));
        }
        if !SCORED_MODES.contains(mode) {
            let scored: Vec<&str> = SCORED_MODES.iter().map(|mode| mode.as_str()).collect();
            return Err(Problem::validation(
                field,
                format!(
                    "this host does not score the mode `{}`; it scores {}",
                    mode.as_str(),
                    scored.join(", ")
                ),
            ));
        }
    }
    if modes.contains(&EvalMode::LiveShadow) && modes.len() > 1 {
        return Err(Problem::validation(
            field,
            "`live-shadow` cannot be mixed with other modes",
        ));
    }
    Ok(modes)
}

fn modes(fields: &Fields<'_>) -> Result<Option<Vec<EvalMode>>, Problem> {
    let name = "evalModes";
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let shape = "must be a non-empty list of modes without repetition";
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        return Err(fields.invalid(name, shape));
    };
    let mut modes = Vec::with_capacity(items.len());
    for item in items {
        let Some(mode) = item.as_str().and_then(EvalMode::parse) else {
            return Err(fields.invalid(name, "holds an unknown mode"));
        };
        if modes.contains(&mode) {
            return Err(fields.invalid(name, shape));
        }
        modes.push(mode);
    }
    Ok(Some(modes))
}

/// Settings that would make it another agent or another model. A verdict must be about what was asked for, so a request that
/// sets one is refused instead of being carried out without it.
fn refuse_what_would_be_ignored(fields: &Fields<'_>) -> Result<(), Problem> {
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
    let fields = Fields {
        members: matching,
        prefix: "configurable.evalMatch.",
    };
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

fn budget(members: &Map<String, Value>) -> Result<BudgetSpec, Problem> {
    const SERVED: &[&str] = &["maxTokens", "maxCostUsd"];
    let fields = Fields {
        members,
        prefix: "configurable.budget.",
    };
    if let Some((other, _)) = members
        .iter()
        .find(|(key, value)| !SERVED.contains(&key.as_str()) && !value.is_null())
    {
        return Err(fields.invalid(
            other,
            "is not enforced by this host; it enforces maxTokens and maxCostUsd",
        ));
    }
    let max_cost = match fields.number("maxCostUsd", 0.0, f64::MAX)? {
        None => None,
        Some(usd) => Some(
            NanoUsd::from_usd(usd).ok_or_else(|| fields.invalid("maxCostUsd", "is too large"))?,
        ),
    };
    Ok(BudgetSpec {
        max_tokens: fields.whole("maxTokens", 1)?,
        max_cost,
    })
}

fn tags(body: &Fields<'_>) -> Result<Vec<String>, Problem> {
    let Some(value) = body.get("tags") else {
        return Ok(Vec::new());
    };
    let shape =
        format!("must be a list of at most {MAX_TAGS} texts of 1 to {MAX_TAG_CHARS} characters");
    let items = value.as_array().filter(|items| items.len() <= MAX_TAGS);
    items
        .and_then(|items| {
            items
                .iter()
                .map(|item| {
                    item.as_str()
                        .filter(|tag| (1..=MAX_TAG_CHARS).contains(&tag.chars().count()))
                        .map(str::to_owned)
                })
                .collect::<Option<Vec<_>>>()
        })
        .ok_or_else(|| body.invalid("tags", &shape))
}

fn metadata(body: &Fields<'_>) -> Result<Map<String, Value>, Problem> {
    let metadata = body.object("metadata")?.unwrap_or_default();
    if metadata
        .values()
        .any(|value| depth(value) > MAX_METADATA_DEPTH - 1)
    {
        return Err(body.invalid(
            "metadata",
            &format!("must not be nested deeper than {MAX_METADATA_DEPTH}"),
        ));
    }
    if Value::Object(metadata.clone()).to_string().len() > MAX_METADATA_BYTES {
        return Err(body.invalid(
            "metadata",
            &format!("must not be larger than {MAX_METADATA_BYTES} bytes"),
        ));
    }
    Ok(metadata)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Members of an object, read with errors that name the field. `null` counts as absent: the published client sends every
/// reserved key it knows as null.
struct Fields<'a> {
    members: &'a Map<String, Value>,
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn invalid(&self, name: &str, message: &str) -> Problem {
        let field = format!("{}{name}", self.prefix);
        Problem::validation(&field, format!("`{field}` {message}"))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.invalid(name, "must be a non-empty text")),
        }
    }

    fn required_text(&self, name: &str) -> Result<&'a str, Problem> {
        self.text(name)?
            .ok_or_else(|| self.invalid(name, "is required with `mode: \"eval\"`"))
    }

    fn object(&self, name: &str) -> Result<Option<Map<String, Value>>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members.clone())),
            Some(_) => Err(self.invalid(name, "must be an object")),
        }
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.invalid(name, "must be true or false")),
        }
    }

    fn whole(&self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number >= least) {
                Some(number) => Ok(Some(number)),
                None => {
                    Err(self.invalid(name, &format!("must be a whole number of at least {least}")))
                }
            },
        }
    }

    fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value
                .as_f64()
                .filter(|number| (least..=most).contains(number))
            {
                Some(number) => Ok(Some(number)),
                None if most < f64::MAX => {
                    Err(self.invalid(name, &format!("must be a number from {least} to {most}")))
                }
                None => Err(self.invalid(name, &format!("must be a number of at least {least}"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "mode": "eval",
            "evalSuiteRef": "vendor.acme.evals.triage@1.0.0",
            "agentId": "vendor.acme.triage.default",
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut body = body();
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        if parent == "/configurable" && body.get("configurable").is_none() {
            body["configurable"] = json!({});
        }
        body.pointer_mut(parent).unwrap()[last] = value;
        body
    }

    #[test]
    fn a_plain_request_is_read() {
        let request = parse(&body()).unwrap();
        assert_eq!(request.suite.to_string(), "vendor.acme.evals.triage@1.0.0");
        assert_eq!(request.modes, None);
        assert!(request.ignore.is_empty());
    }

    #[test]
    fn nulls_and_extras_of_the_published_client_count_as_absent() {
        let sent = json!({
            "recursionLimit": null, "model": null, "temperature": null, "maxTokens": null, "evalModes": null,
            "budget": null, "extras": {}
        });
        let request = parse(&with("/configurable", sent)).unwrap();
        assert_eq!(
            (request.modes, request.temperature, request.max_tokens),
            (None, None, None)
        );
        assert_eq!(request.configurable.keys().collect::<Vec<_>>(), ["extras"]);
    }

    #[rstest]
    #[case("/unknown", json!(1), "unknown")]
    #[case("/mode", json!("benchmark"), "mode")]
    #[case("/mode", json!(null), "mode")]
    #[case("/workflowId", json!(7), "workflowId")]
    #[case("/evalSuiteRef", json!(null), "evalSuiteRef")]
    #[case("/evalSuiteRef", json!(""), "evalSuiteRef")]
    #[case("/evalSuiteRef", json!(5), "evalSuiteRef")]
    #[case("/evalSuiteRef", json!("vendor.acme.evals.triage"), "evalSuiteRef")]
    #[case("/evalSuiteRef", json!("vendor.acme.evals.triage@^1.0.0"), "evalSuiteRef")]
    #[case("/agentId", json!(null), "agentId")]
    #[case("/agentId", json!(["a"]), "agentId")]
    #[case("/callbackUrl", json!("http://127.0.0.1/"), "callbackUrl")]
    #[case("/configurable", json!([]), "configurable")]
    #[case("/configurable/evalModes", json!("golden"), "configurable.evalModes")]
    #[case("/configurable/evalModes", json!([]), "configurable.evalModes")]
    #[case("/configurable/evalModes", json!([3]), "configurable.evalModes")]
    #[case("/configurable/evalModes", json!(["vibes"]), "configurable.evalModes")]
    #[case("/configurable/evalModes", json!(["golden", "golden"]), "configurable.evalModes")]
    #[case("/configurable/recursionLimit", json!(0), "configurable.recursionLimit")]
    #[case("/configurable/recursionLimit", json!("ten"), "configurable.recursionLimit")]
    #[case("/configurable/escalationThreshold", json!(1.5), "configurable.escalationThreshold")]
    #[case("/configurable/model", json!("gpt"), "configurable.model")]
    #[case("/configurable/ai.model", json!("gpt"), "configurable.ai.model")]
    #[case("/configurable/promptOverrides", json!({}), "configurable.promptOverrides")]
    #[case("/configurable/mockProvider", json!({"id": "stream-text"}), "configurable.mockProvider")]
    #[case("/configurable/temperature", json!(2.1), "configurable.temperature")]
    #[case("/configurable/maxTokens", json!(0), "configurable.maxTokens")]
    #[case("/configurable/runTimeoutMs", json!(-1), "configurable.runTimeoutMs")]
    #[case("/configurable/recursionLimit", json!(0), "configurable.recursionLimit")]
    #[case("/configurable/recursionLimit", json!("ten"), "configurable.recursionLimit")]
    #[case("/configurable/maxLoopIterations", json!(0.5), "configurable.maxLoopIterations")]
    #[case("/configurable/evalConcurrency", json!(0.5), "configurable.evalConcurrency")]
    #[case("/configurable/evalMatch", json!({"ignore": [""]}), "configurable.evalMatch.ignore")]
    #[case("/configurable/evalMatch", json!({"subset": true}), "configurable.evalMatch.subset")]
    #[case("/configurable/budget", json!({"maxRetries": 3}), "configurable.budget.maxRetries")]
    #[case("/configurable/budget", json!({"maxCostUsd": -1}), "configurable.budget.maxCostUsd")]
    #[case("/tags", json!([""]), "tags")]
    #[case("/tags", json!(vec!["t"; 101]), "tags")]
    #[case("/metadata", json!({"a": {"b": {"c": {"d": {}}}}}), "metadata")]
    #[case("/metadata", json!({"a": "x".repeat(9000)}), "metadata")]
    fn an_unsound_field_is_named(#[case] pointer: &str, #[case] value: Value, #[case] field: &str) {
        let problem = parse(&with(pointer, value)).unwrap_err();
        assert_eq!(
            problem.code,
            crate::protocol::error::ErrorCode::ValidationError
        );
        assert_eq!(problem.details.get("field"), Some(&json!(field)));
    }

    fn suite(change: impl Fn(&mut Value)) -> AgentEvalSuite {
        let mut document = json!({
            "suiteId": "vendor.acme.evals.triage", "version": "1.0.0", "modes": ["golden", "regression", "rubric"],
            "tasks": [
                {"taskId": "a", "input": {"text": "x"}, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}},
                {"taskId": "b", "input": {"text": "x"}, "expected": {"kind": "rubric", "rubric": [{"criterion": "c", "weight": 1}]}},
            ],
        });
        change(&mut document);
        serde_json::from_value(document).unwrap()
    }

    fn limits() -> HostLimits {
        HostLimits {
            max_tasks_per_suite: 2,
            max_cost_per_suite: NanoUsd::from_usd(25.0),
            max_run_duration_ms: 60_000,
            default_concurrency: 4,
            max_concurrency: 8,
        }
    }

    fn planned(body: &Value, suite: &AgentEvalSuite) -> Result<RunSpec, Problem> {
        planned_with(body, suite, &limits(), &|_| true, None)
    }

    fn planned_with(
        body: &Value,
        document: &AgentEvalSuite,
        limits: &HostLimits,
        accepts: &dyn Fn(&Value) -> bool,
        baseline: Option<&BaselineFacts<'_>>,
    ) -> Result<RunSpec, Problem> {
        let agent = AgentFacts {
            agent_id: &AgentId::from("vendor.acme.triage.default"),
            version: "1.2.0",
            pack_integrity: "sha256-p",
            model_class: ModelClass::Classification,
            accepts,
            model: Some(ModelPin {
                provider: "p".to_owned(),
                model: "m".to_owned(),
            }),
        };
        let suite = SuiteFacts {
            document,
            digest: "sha256-s",
            signed: true,
        };
        plan(
            parse(body).unwrap(),
            limits,
            Some(&suite),
            Some(&agent),
            baseline,
        )
    }

    fn golden() -> Value {
        with("/configurable/evalModes", json!(["golden"]))
    }

    #[test]
    fn everything_is_pinned() {
        let spec = planned(&golden(), &suite(|_| {})).unwrap();
        assert_eq!(spec.workflow_id, "eval:vendor.acme.evals.triage@1.0.0");
        assert_eq!(
            (
                spec.eval.agent_version.as_str(),
                spec.eval.pack_integrity.as_str()
            ),
            ("1.2.0", "sha256-p")
        );
        assert_eq!(
            (spec.eval.suite_digest.as_str(), spec.eval.suite_signed),
            ("sha256-s", true)
        );
        assert_eq!(
            (spec.eval.concurrency, spec.eval.run_timeout_ms),
            (4, 60_000)
        );
    }

    #[test]
    fn rubric_tasks_are_left_out_of_a_golden_run_and_counted() {
        let spec = planned(&golden(), &suite(|_| {})).unwrap();
        assert_eq!(
            (spec.eval.tasks, spec.eval.suite_task_count),
            (vec!["a".into()], 2)
        );
    }

    #[test]
    fn all_declared_modes_run_when_none_is_named_and_an_unscored_one_is_refused() {
        let problem = planned(&body(), &suite(|_| {})).unwrap_err();
        assert_eq!(
            problem.details.get("field"),
            Some(&json!("configurable.evalModes"))
        );
        let spec = planned(&body(), &suite(|s| s["modes"] = json!(["golden"]))).unwrap();
        assert_eq!(spec.eval.modes, [EvalMode::Golden]);
    }

    #[rstest]
    #[case::undeclared(with("/configurable/evalModes", json!(["adversarial"])), "configurable.evalModes")]
    #[case::unscored(with("/configurable/evalModes", json!(["rubric"])), "configurable.evalModes")]
    #[case::no_baseline(with("/configurable/evalModes", json!(["regression"])), "configurable.baselineRunId")]
    fn modes_are_refused_by_name(#[case] body: Value, #[case] field: &str) {
        let problem = planned(&body, &suite(|_| {})).unwrap_err();
        assert_eq!(problem.details.get("field"), Some(&json!(field)));
    }

    #[test]
    fn a_suite_for_another_agent_needs_an_override() {
        let foreign = suite(|s| s["targetAgentId"] = json!("vendor.acme.other.default"));
        assert_eq!(
            planned(&golden(), &foreign)
                .unwrap_err()
                .details
                .get("field"),
            Some(&json!("agentId"))
        );
        let mut body = golden();
        body["configurable"]["evalTargetOverride"] = json!(true);
        assert!(planned(&body, &foreign).is_ok());
    }

    #[test]
    fn a_model_class_the_suite_does_not_allow_is_refused() {
        let coding = suite(|s| s["allowedModels"] = json!(["coding"]));
        assert_eq!(
            planned(&golden(), &coding)
                .unwrap_err()
                .details
                .get("field"),
            Some(&json!("agentId"))
        );
    }

    #[test]
    fn too_many_tasks_are_refused() {
        let small = HostLimits {
            max_tasks_per_suite: 1,
            ..limits()
        };
        let problem = planned_with(&golden(), &suite(|_| {}), &small, &|_| true, None).unwrap_err();
        assert_eq!(problem.details.get("field"), Some(&json!("evalSuiteRef")));
    }

    #[test]
    fn an_input_off_the_task_schema_never_reaches_the_agent() {
        let problem =
            planned_with(&golden(), &suite(|_| {}), &limits(), &|_| false, None).unwrap_err();
        assert!(problem.message.contains("`a`"));
    }

    #[test]
    fn a_baseline_must_be_a_finished_run_of_the_same_suite() {
        let mut body = with("/configurable/evalModes", json!(["regression"]));
        body["configurable"]["baselineRunId"] = json!("run_0");
        let run_id = RunId::from("run_0");
        let good = BaselineFacts {
            run_id: &run_id,
            completed: true,
            suite_id: "vendor.acme.evals.triage",
            suite_version: "1.0.0",
            aggregate_score: 0.5,
        };
        let plan = |facts: &BaselineFacts<'_>| {
            planned_with(&body, &suite(|_| {}), &limits(), &|_| true, Some(facts))
        };
        assert_eq!(
            plan(&good).unwrap().eval.baseline.unwrap().aggregate_score,
            0.5
        );
        let running = plan(&BaselineFacts {
            completed: false,
            ..good
        })
        .unwrap_err();
        let other = plan(&BaselineFacts {
            suite_version: "1.0.1",
            ..good
        })
        .unwrap_err();
        assert_eq!(running.message, other.message);
    }

    #[test]
    fn regression_beside_other_modes_is_left_out_aloud_when_no_baseline_is_named() {
        let mixed = suite(|s| s["modes"] = json!(["golden", "regression"]));
        let spec = planned(&body(), &mixed).unwrap();
        assert_eq!(spec.eval.modes, [EvalMode::Golden]);
        assert_eq!(spec.eval.modes_left_out, [EvalMode::Regression]);
        let named =
            planned(&with("/configurable/baselineRunId", json!("run_0")), &mixed).unwrap_err();
        assert_eq!(
            named.details.get("field"),
            Some(&json!("configurable.baselineRunId"))
        );
        let mut golden = golden();
        golden["configurable"]["baselineRunId"] = json!("run_0");
        assert!(
            planned(&golden, &mixed).is_err(),
            "a baseline nothing is compared with"
        );
    }

    #[test]
    fn an_unknown_agent_and_an_unknown_suite_look_the_same() {
        let document = suite(|_| {});
        let suite = SuiteFacts {
            document: &document,
            digest: "d",
            signed: false,
        };
        let no_agent = plan(
            parse(&golden()).unwrap(),
            &limits(),
            Some(&suite),
            None,
            None,
        )
        .unwrap_err();
        let no_suite = plan(parse(&golden()).unwrap(), &limits(), None, None, None).unwrap_err();
        assert_eq!(no_agent.envelope(), no_suite.envelope());
    }
}
