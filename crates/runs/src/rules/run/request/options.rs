//! Run options: members of a create request that every kind of run may have (OpenWOP run-options).

use serde_json::{Map, Value};
use url::Url;

use super::plan::HostLimits;
use crate::rules::run::record::{RunScope, RunSpec, Work};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::redaction::{mask, mask_within};
use touchstone_kit::webhook::registration::address;

pub const MAX_TAGS: usize = 100;
pub const MAX_TAG_CHARS: usize = 256;
const MAX_METADATA_BYTES: usize = 8192;
const MAX_METADATA_DEPTH: usize = 4;
const MAX_SCOPE_CHARS: usize = 256;

/// The members of a create request that do not depend on the kind of run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// `tenantId`, which must be the key's own tenant.
    pub tenant_id: Option<String>,
    pub scope_id: Option<String>,
    /// `callbackUrl`, notified when the run ends. Whether the address is allowed is checked later,
    /// because that needs a resolver.
    pub callback_url: Option<Url>,
    /// Whether no other run of the scope may be active (`X-Dedup: enforce`).
    pub exclusive: bool,
    /// `configurable.runTimeoutMs`.
    pub run_timeout_ms: Option<u64>,
    /// `configurable`, unchanged except that nulls are removed.
    pub configurable: Map<String, Value>,
    /// `inputs`, unchanged.
    pub inputs: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
}

impl RunOptions {
    /// Parses the options.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub(super) fn read(body: &Fields<'_>) -> Result<Self, Problem> {
        if body.get("residency").is_some() {
            return Err(body.invalid("residency", "is not supported by this host; leave it out"));
        }
        let configurable = body.object("configurable")?.unwrap_or_default();
        let fields = Fields::of(&configurable, "configurable");
        check_reserved(&fields)?;
        Ok(Self {
            tenant_id: body.text("tenantId")?.map(str::to_owned),
            scope_id: scope_id(body)?,
            callback_url: body
                .text("callbackUrl")?
                .map(|text| address("callbackUrl", text))
                .transpose()?,
            exclusive: false,
            run_timeout_ms: fields.whole("runTimeoutMs", 1)?,
            inputs: masked(body.object("inputs")?.unwrap_or_default()),
            tags: tags(body)?
                .iter()
                .map(|tag| mask(tag).into_owned())
                .collect(),
            metadata: masked(metadata(body)?),
            configurable: configurable
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect(),
        })
    }

    /// Builds the spec of a run with this work.
    pub fn spec(self, workflow_id: String, work: Work, limits: &HostLimits) -> RunSpec {
        let longest = limits.max_run_duration_ms;
        RunSpec {
            workflow_id,
            work,
            scope: self.scope_id.map(|id| RunScope {
                id,
                exclusive: self.exclusive,
            }),
            run_timeout_ms: Some(self.run_timeout_ms.map_or(longest, |own| own.min(longest))),
            configurable: self.configurable,
            inputs: self.inputs,
            tags: self.tags,
            metadata: self.metadata,
        }
    }
}

/// Checks the reserved keys for every kind of run. A key that has nothing to limit (agent loops in
/// a workflow, nodes in an eval) is recorded and has no effect.
fn check_reserved(configurable: &Fields<'_>) -> Result<(), Problem> {
    configurable.whole("recursionLimit", 1)?;
    configurable.whole("maxLoopIterations", 1)?;
    configurable.whole("maxTokens", 1)?;
    configurable.number("temperature", 0.0, 2.0)?;
    configurable.number("escalationThreshold", 0.0, 1.0)?;
    const VERBOSITIES: &[&str] = &["summary", "full", "off"];
    match configurable.text("reasoningVerbosity")? {
        Some(other) if !VERBOSITIES.contains(&other) => Err(configurable.invalid(
            "reasoningVerbosity",
            &format!("must be one of {}", VERBOSITIES.join(", ")),
        )),
        _ => Ok(()),
    }
}

/// The members of a body; unknown members are rejected.
pub(super) fn members(body: &Value) -> Result<Fields<'_>, Problem> {
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
    Fields::closed(body, "", FIELDS, Nulls::Absent)
}

/// Masks credentials in the caller's members before they are stored (OpenWOP SR-1), including the
/// inputs of a workflow: a workflow that needs a credential must refer to it by name.
fn masked(mut members: Map<String, Value>) -> Map<String, Value> {
    members.values_mut().for_each(mask_within);
    members
}

fn tags(body: &Fields<'_>) -> Result<Vec<String>, Problem> {
    let tags = body.texts("tags", MAX_TAGS, MAX_TAG_CHARS)?;
    Ok(tags.unwrap_or_default())
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

fn scope_id(body: &Fields<'_>) -> Result<Option<String>, Problem> {
    match body.text("scopeId")? {
        Some(scope) if scope.chars().count() > MAX_SCOPE_CHARS => Err(body.invalid(
            "scopeId",
            &format!("must have at most {MAX_SCOPE_CHARS} characters"),
        )),
        scope => Ok(scope.map(str::to_owned)),
    }
}
