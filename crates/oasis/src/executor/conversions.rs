//! Conversions: a provider's request, an agent's input and output, and their form in a report.

use serde_json::{Map, Value};

use crate::executor::execution::Script;
use crate::executor::sink::AgentOutput;
use crate::executor::tools::AgentActions;
use crate::rules::evidence::{Said, TrailItem};
use crate::rules::format::{Scenario, Trigger};
use crate::rules::report::facts as shown;
use crate::wire::provider::{
    AgentRequest, ContainmentRequest, EnvironmentRequest, ProvisionRequest, Trigger as WireTrigger,
};
use touchstone_agents::ports::agent::{InvocationEnd, InvocationResult};
use touchstone_kit::json as strict;

/// Maximum number of characters stored of any text to or from an agent.
const MAX_TEXT: usize = 65_536;

pub(super) fn provision_request(script: Script<'_>, tier: u8) -> ProvisionRequest {
    let preconditions = &script.scenario.preconditions;
    let state = preconditions.environment.state.iter().cloned();
    ProvisionRequest {
        scenario_id: script.name.to_owned(),
        tier,
        environment: EnvironmentRequest {
            kind: preconditions.environment.kind.clone(),
            state: state.map(Value::Object).collect(),
        },
        agent: AgentRequest {
            mode: preconditions.agent.mode.clone(),
            tools: preconditions.agent.tools.clone(),
            scope: preconditions.agent.scope.clone(),
        },
        value_containment: script
            .scenario
            .verification
            .value_containment
            .iter()
            .map(|entry| ContainmentRequest {
                value_ref: entry.value_ref.clone(),
                rest: Map::new(),
            })
            .collect(),
    }
}

/// An agent's output in any of the supported forms: text, or an object with `final_answer`,
/// `reasoning` and `audit_trail`.
pub(super) fn agent_answer(
    result: &InvocationResult,
    events: &AgentOutput,
    actions: &AgentActions,
) -> Said {
    let output = match &result.end {
        InvocationEnd::Decided { output } => Some(output.clone()),
        // A refusal is an answer too.
        InvocationEnd::Failed { .. } | InvocationEnd::Unjudged { .. } => events.decision.clone(),
    };
    let object = match &output {
        Some(Value::Object(members)) => Some(members.clone()),
        Some(Value::String(text)) => match strict::parse(text.trim().as_bytes()) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        },
        _ => None,
    };
    let member = |names: [&str; 2]| {
        let members = object.as_ref()?;
        names.iter().find_map(|name| members.get(*name)).cloned()
    };
    let text = |value: Option<Value>| value.and_then(|it| it.as_str().map(str::to_owned));
    let answer = text(member(["final_answer", "finalAnswer"])).unwrap_or_else(|| match &output {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    let spoken = text(member(["reasoning", "reasoning_trace"]));
    let reasoning: Vec<String> = events.reasoning.iter().cloned().chain(spoken).collect();
    let trail = member(["audit_trail", "auditTrail"]);
    Said {
        answer,
        reasoning: reasoning.join("\n"),
        calls: actions
            .calls
            .iter()
            .map(|it| Value::Object(it.parameters.clone()))
            .collect(),
        trail: trail.map(|it| TrailItem::list(&it)).unwrap_or_default(),
    }
}

pub(super) fn trace(output: &Said, actions: &AgentActions) -> shown::Trace {
    let text = |text: &str| (!text.trim().is_empty()).then(|| clipped(text));
    shown::Trace {
        reasoning: text(&output.reasoning),
        calls: actions
            .calls
            .iter()
            .map(|call| shown::Call {
                tool: call.tool.clone(),
                parameters: Value::Object(call.parameters.clone()),
                result: clipped(&call.result.to_string()),
            })
            .collect(),
        final_answer: text(&output.answer),
        problem: None,
    }
}

/// Truncates a text for people; judging uses the whole text.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{}… ({} bytes in total)",
            text.get(..end).unwrap_or_default(),
            text.len()
        ),
    }
}

pub(super) fn preconditions(scenario: &Scenario) -> shown::Preconditions {
    let given = &scenario.preconditions;
    shown::Preconditions {
        environment_type: given.environment.kind.clone(),
        environment_id: None,
        resources: given.environment.state.len(),
        agent_mode: Some(given.agent.mode.clone()),
        agent_tools: given.agent.tools.clone(),
        snapshot_digest: None,
        snapshot_at: None,
    }
}

pub(super) fn stimuli(scenario: &Scenario) -> Vec<shown::Stimulus> {
    scenario
        .stimuli
        .iter()
        .map(|stimulus| {
            let kind = serde_json::to_value(stimulus.kind).ok();
            let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
            let injected = || {
                let state: Vec<Value> =
                    stimulus.inject.iter().cloned().map(Value::Object).collect();
                (!state.is_empty()).then(|| Value::Array(state).to_string())
            };
            let text = stimulus.value.clone().or_else(injected);
            shown::Stimulus {
                kind: kind.to_owned(),
                target: stimulus.target.clone(),
                text: text
                    .or_else(|| stimulus.description.clone())
                    .unwrap_or_default(),
            }
        })
        .collect()
}

pub(super) fn wire_trigger(trigger: Trigger) -> Option<WireTrigger> {
    match trigger {
        Trigger::Now => None,
        Trigger::AfterFirstToolCall => Some(WireTrigger::AfterFirstToolCall),
        Trigger::OnSecondQuery => Some(WireTrigger::OnSecondQuery),
    }
}
