//! Requests for workflow runs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::options::RunOptions;
use super::plan::HostLimits;
use crate::rules::run::record::{BoundAgent, RunSpec, Work, WorkflowSpec};
use crate::rules::workflow::graph::Graph;
use crate::rules::workflow::mock::{self, MOCK_PROVIDERS, MockFault, MockProvider};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::fields::Fields;
use touchstone_openwop::schema::compile_untrusted;
use touchstone_openwop::workflow::WorkflowDefinition;

#[derive(Clone, Debug, PartialEq)]
pub struct CreateWorkflow {
    /// `workflowId`.
    pub workflow_id: String,
    /// `configurable.recursionLimit`.
    pub recursion_limit: Option<u64>,
    /// `configurable.mockProvider`, unchanged.
    pub mock_provider: Option<Map<String, Value>>,
    /// The options of every kind of run.
    pub options: RunOptions,
}

pub(super) fn parse_workflow(body: &Fields<'_>, id: &str) -> Result<CreateWorkflow, Problem> {
    for eval in ["evalSuiteRef", "agentId"] {
        if body.get(eval).is_some() {
            return Err(body.invalid(eval, "is only allowed with `mode: \"eval\"`"));
        }
    }
    let options = RunOptions::read(body)?;
    let fields = Fields::of(&options.configurable, "configurable");
    if fields.get("budget").is_some() {
        return Err(fields.invalid(
            "budget",
            "is not enforced for workflows, which call no models; leave it out",
        ));
    }
    Ok(CreateWorkflow {
        workflow_id: id.to_owned(),
        recursion_limit: fields.whole("recursionLimit", 1)?,
        mock_provider: fields.object("mockProvider")?,
        options,
    })
}

/// Checks the request and pins the definition with the agents of its nodes. Mock providers are for
/// test keys only.
///
/// # Errors
/// `validation_error` naming the field, `mock_provider_forbidden`, `unsupported_mock_provider`.
pub fn plan_workflow(
    request: CreateWorkflow,
    limits: &HostLimits,
    definition: Option<WorkflowDefinition>,
    agents: Vec<BoundAgent>,
    test_key: bool,
) -> Result<RunSpec, Problem> {
    let unknown = |reason: &str| Problem::validation("workflowId", reason);
    let definition = definition.ok_or_else(|| {
        unknown(
            "no such workflow; for an eval run, send `mode: \"eval\"` with `evalSuiteRef` and \
             `agentId`",
        )
    })?;
    Graph::of(&definition).map_err(|fault| {
        unknown("this host cannot run this workflow").with("reason", fault.to_string())
    })?;
    let mock_provider = request
        .mock_provider
        .as_ref()
        .map(|members| mock_provider(members, test_key))
        .transpose()?;
    let mut options = request.options;
    check_configurable(&definition, &options.configurable)?;
    options.inputs = inputs(&definition, options.inputs)?;
    let most = limits.max_node_executions;
    let spec = WorkflowSpec {
        max_node_executions: request.recursion_limit.map_or(most, |own| own.min(most)),
        mock_provider,
        agents,
        definition,
    };
    let workflow_id = spec.definition.id.clone();
    Ok(options.spec(workflow_id, Work::Workflow(Arc::new(spec)), limits))
}

fn mock_provider(members: &Map<String, Value>, test_key: bool) -> Result<MockProvider, Problem> {
    let field = "configurable.mockProvider";
    if !test_key {
        return Err(Problem::new(
            ErrorCode::MockProviderForbidden,
            format!(
                "`{field}` is for test keys only; create one with `touchstone key create --test`"
            ),
        )
        .with("field", field));
    }
    mock::read(members).map_err(|fault| match fault {
        MockFault::Unknown => Problem::new(
            ErrorCode::UnsupportedMockProvider,
            format!("`{field}.id` {fault}"),
        )
        .with("field", field)
        .with("supported", MOCK_PROVIDERS),
        MockFault::Config(_) => Problem::validation(field, format!("`{field}` {fault}")),
    })
}

/// Validates `configurable` against the schema that the workflow declares for it.
fn check_configurable(
    definition: &WorkflowDefinition,
    configurable: &Map<String, Value>,
) -> Result<(), Problem> {
    let Some(schema) = &definition.configurable_schema else {
        return Ok(());
    };
    let schema = compile_untrusted(schema).map_err(|fault| {
        Problem::validation(
            "workflowId",
            "the `configurableSchema` of this workflow is invalid",
        )
        .with("reason", fault.to_string())
    })?;
    match schema.first_violation(&Value::Object(configurable.clone())) {
        None => Ok(()),
        Some(violation) => {
            let field = format!("configurable{}", violation.pointer.replace('/', "."));
            let message = format!("`{field}` does not satisfy the workflow's `configurableSchema`");
            Err(Problem::validation(&field, message).with("reason", violation.reason))
        }
    }
}

/// Checks inputs against the variables of a workflow and fills in defaults. Unknown inputs are
/// kept.
fn inputs(
    definition: &WorkflowDefinition,
    mut inputs: Map<String, Value>,
) -> Result<Map<String, Value>, Problem> {
    for variable in &definition.variables {
        let field = format!("inputs.{}", variable.name);
        match inputs.get(&variable.name) {
            Some(value) if !variable.kind.admits(value) => {
                return Err(Problem::validation(
                    &field,
                    format!("`{field}` must be {}", variable.kind.in_words()),
                ));
            }
            Some(_) => {}
            None => match &variable.default_value {
                Some(value) => {
                    inputs.insert(variable.name.clone(), value.clone());
                }
                None if variable.required => {
                    return Err(Problem::validation(
                        &field,
                        format!(
                            "`{field}` is required by the workflow; it must be {}",
                            variable.kind.in_words()
                        ),
                    ));
                }
                None => {}
            },
        }
    }
    Ok(inputs)
}
