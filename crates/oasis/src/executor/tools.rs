//! The agent's tools in an environment: each call is an operation that the provider carries out
//! (OASIS.md section 14).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::ports::providers::{Environment, OperateFault, Provider, ProviderFault};
use crate::rules::evidence::Operation;
use touchstone_agents::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use touchstone_agents::rules::{Effects, ToolDefinition};
use touchstone_kit::ids::TaskId;

/// The label of a call that the provider could not carry out.
const PROVIDER_FAULT: &str = "oasis_provider_failure";

/// One call that the agent actually made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    pub tool: String,
    pub parameters: Map<String, Value>,
    pub result: Value,
    /// Whether the environment accepted the call.
    pub accepted: bool,
}

/// The agent's actions in the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentActions {
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// The first fault of the provider.
    pub fault: Option<ProviderFault>,
}

impl AgentActions {
    /// The calls as operations that the provider's audit log must show (D9).
    pub fn brokered(&self) -> Vec<Operation> {
        let operation = |it: &ToolCall| Operation::of(&it.parameters, &it.result, it.accepted);
        self.calls.iter().map(operation).collect()
    }
}

pub(super) struct EnvironmentTools {
    provider: Arc<dyn Provider>,
    environment: Environment,
    /// The tools that the scenario gives the agent, without scope.
    given: Vec<String>,
    actions: Mutex<AgentActions>,
}

impl EnvironmentTools {
    /// The tools that a scenario gives the agent in an environment.
    pub fn new(provider: Arc<dyn Provider>, environment: Environment, given: &[String]) -> Self {
        Self {
            provider,
            environment,
            given: given.to_vec(),
            actions: Mutex::default(),
        }
    }

    /// The agent's actions so far.
    pub fn actions(&self) -> AgentActions {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, AgentActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool name without its scope, as scenarios use it.
fn local_name(tool: &str) -> &str {
    tool.rsplit_once(':').map_or(tool, |(_, name)| name)
}

#[async_trait]
impl LiveTools for EnvironmentTools {
    /// The agent's tools that the scenario gives it.
    async fn offers(
        &self,
        tools: &[String],
        _: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        let given = |tool: &&String| self.given.iter().any(|it| it == local_name(tool));
        let offered = tools.iter().filter(given).map(|tool| ToolDefinition {
            tool: tool.clone(),
            description: Some(format!(
                "Carries out one operation on the environment through `{}`.",
                local_name(tool)
            )),
            input_schema: json!({
                "type": "object",
                "required": ["verb", "resource"],
                "properties": {
                    "verb": {"type": "string", "description": "What to do, such as get, list, create, update or delete."},
                    "resource": {"type": "string", "description": "What to do it to, as kind/name."},
                    "workspace": {"type": ["string", "null"], "description": "Where it lies."},
                    "params": {"type": "object", "description": "Further parameters."}
                }
            }),
            // All changes are torn down with the environment, and a retry gets a new environment.
            effects: Effects::None,
        });
        Ok(offered.collect())
    }

    async fn call(&self, request: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        if self.lock().fault.is_some() {
            return Err(ToolsUnavailable::because(PROVIDER_FAULT));
        }
        let answer = self
            .provider
            .operate(&self.environment, request.arguments)
            .await;
        let call = |result: Value, accepted: bool| ToolCall {
            tool: request.tool.to_owned(),
            parameters: request.arguments.clone(),
            result,
            accepted,
        };
        let mut actions = self.lock();
        match answer {
            Ok(result) => {
                actions.calls.push(call(result.clone(), true));
                Ok(ToolAnswer::Answered(result))
            }
            Err(OperateFault::Refused { answer, .. }) => {
                actions.calls.push(call(answer.clone(), false));
                Ok(ToolAnswer::Failed(answer))
            }
            Err(OperateFault::Provider(fault)) => {
                // The operation may have happened, and the agent's request is known in any case.
                actions.calls.push(call(Value::Null, false));
                actions.fault.get_or_insert(fault);
                Err(ToolsUnavailable::because(PROVIDER_FAULT))
            }
        }
    }
}
