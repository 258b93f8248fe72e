//! The shape of the body (OpenWOP run-options): closed, every field read with an error that names it.

use serde_json::{Map, Value};

use super::fields::Fields;
use crate::domain::eval::matching::is_member_pointer;
use crate::domain::eval::suite_rules::SuiteRef;
use crate::domain::ids::{AgentId, RunId};
use crate::domain::money::NanoUsd;
use crate::domain::run::record::BudgetSpec;
use crate::protocol::error::Problem;
use crate::protocol::openwop::suite::EvalMode;

const MAX_TAGS: usize = 100;
const MAX_TAG_CHARS: usize = 256;
const MAX_METADATA_BYTES: usize = 8192;
const MAX_METADATA_DEPTH: usize = 4;
const MAX_SCOPE_CHARS: usize = 256;
const MAX_IGNORE: usize = 100;

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
    /// `scopeId`.
    pub scope_id: Option<String>,
    /// Whether no other run of the scope may be active (`X-Dedup: enforce`).
    pub exclusive: bool,
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
    for unsupported in ["callbackUrl", "residency"] {
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
        scope_id: scope_id(&body)?,
        exclusive: false,
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

fn scope_id(body: &Fields<'_>) -> Result<Option<String>, Problem> {
    match body.text("scopeId")? {
        Some(scope) if scope.chars().count() > MAX_SCOPE_CHARS => Err(body.invalid(
            "scopeId",
            &format!("must have at most {MAX_SCOPE_CHARS} characters"),
        )),
        scope => Ok(scope.map(str::to_owned)),
    }
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
