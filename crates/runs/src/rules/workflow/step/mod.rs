//! The next step of a workflow run.
//!
//! A pure function of graph, facts and time. The caller records the returned events, or waits as
//! long as returned, and calls it again. A first start, a resume after a crash and the end of a
//! wait are therefore the same operation.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::facts::{FlowFacts, NodeFacts, NodeStatus};
use super::graph::{Graph, GraphNode};
use super::interrupt;
use super::node::{MockAgent, NodeKind};
use crate::rules::run::record::BoundAgent;
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_openwop::events::{
    AgentDecided, AgentInvocationCompleted, AgentInvocationStarted, AgentReasoned, AgentToolCalled,
    AgentToolReturned, CapBreached, Event, InterruptKind, InvocationOutcome, NewEvent,
    NodeCompleted, NodeFailed, NodeResumed, NodeStarted, RunError, RunFailed, ToolStatus,
};
use touchstone_openwop::schema::compile_untrusted;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Record these events, and ask again.
    Record(Vec<NewEvent>),
    /// Call the node's model, record its answer, and ask again.
    Prompt(NodeId),
    /// Wait until this time, or until an event arrives.
    Wait(Option<Timestamp>),
    /// Nothing is in flight, and no further node may start.
    Held,
    /// Record these events; the run has failed.
    Fail(Vec<NewEvent>),
    /// Every node has completed, with these outputs.
    Complete(Map<String, Value>),
}

/// Inputs of a step other than the log.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'a> {
    pub run_id: &'a RunId,
    /// The run's inputs.
    pub inputs: &'a Map<String, Value>,
    /// Maximum number of node executions.
    pub max_node_executions: u64,
    /// The agents of the nodes that have one.
    pub agents: &'a [BoundAgent],
    /// Whether a pause was requested, so that no further node may start.
    pub hold: bool,
    pub now: Timestamp,
}

impl StepContext<'_> {
    fn agent_of(&self, node: &NodeId) -> Option<&BoundAgent> {
        self.agents.iter().find(|agent| agent.node_id == *node)
    }
}

pub fn next(graph: &Graph, facts: &FlowFacts, of: &StepContext<'_>) -> Step {
    let unknown = NodeFacts::default();
    let completed = |id: &NodeId| {
        facts
            .node(id)
            .is_some_and(|node| node.status == NodeStatus::Completed)
    };
    let mut wake: Option<Timestamp> = None;
    let mut busy = false;
    for node in &graph.nodes {
        let known = facts.node(&node.id).unwrap_or(&unknown);
        let done = match known.status {
            NodeStatus::Completed => continue,
            NodeStatus::Failed => {
                let error = known.error.clone().unwrap_or_else(|| RunError {
                    code: "node_failed".to_owned(),
                    message: "a node failed".to_owned(),
                });
                return Step::Fail(vec![NewEvent::of_run(Event::RunFailed(RunFailed {
                    error,
                    failed_node_id: Some(node.id.clone()),
                }))]);
            }
            NodeStatus::Waiting if of.hold || !node.after.iter().all(completed) => continue,
            NodeStatus::Waiting => return begin(node, known, facts.executions, of),
            NodeStatus::Started => advance(node, known, facts, graph, of),
            NodeStatus::Suspended => expire(node, known, of.now),
            NodeStatus::Resumed => Progress::Ended(end_wait(node, known)),
        };
        match done {
            Progress::Ended(mut events) => {
                if let Some(agent) = of.agent_of(&node.id) {
                    // The agent's events come before the end of its invocation, and the node ends
                    // last.
                    let last = events.len().saturating_sub(1);
                    events.insert(last, invocation_ends(node, known.attempt, agent));
                }
                return Step::Record(events);
            }
            Progress::Prompt => return Step::Prompt(node.id.clone()),
            Progress::Until(at) => {
                busy |= known.status == NodeStatus::Started;
                wake = match (wake, at) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
    }
    if of.hold && !busy {
        return Step::Held;
    }
    if graph.nodes.iter().all(|node| completed(&node.id)) {
        return Step::Complete(outputs(graph, facts));
    }
    Step::Wait(wake)
}

enum Progress {
    Ended(Vec<NewEvent>),
    Prompt,
    Until(Option<Timestamp>),
}

/// The first events of a node; for a node that takes no time, all of its events.
fn begin(node: &GraphNode, known: &NodeFacts, executions: u64, of: &StepContext<'_>) -> Step {
    let again = known.attempt > 0;
    if !again && executions >= of.max_node_executions {
        return Step::Fail(breach(node, of.max_node_executions, executions + 1));
    }
    let attempt = known.attempt + 1;
    let mut events = vec![event(
        node,
        Event::NodeStarted(NodeStarted {
            node_id: node.id.clone(),
            type_id: node.type_id.clone(),
            attempt,
        }),
    )];
    if let Some(agent) = of.agent_of(&node.id) {
        events.push(invocation_begins(node, attempt, agent));
    }
    if let NodeKind::Interrupt(asked) = &node.kind {
        events.extend(interrupt::suspend(of.run_id, &node.id, attempt, asked));
    }
    Step::Record(events)
}

fn advance(
    node: &GraphNode,
    known: &NodeFacts,
    facts: &FlowFacts,
    graph: &Graph,
    of: &StepContext<'_>,
) -> Progress {
    match &node.kind {
        NodeKind::Noop => Progress::Ended(vec![complete(node, Map::new())]),
        NodeKind::Identity => Progress::Ended(vec![complete(
            node,
            inputs_of(node, facts, graph, of.inputs),
        )]),
        NodeKind::Fail { code, message } => Progress::Ended(vec![fail(node, code, message)]),
        NodeKind::Delay { delay_ms } => {
            let inputs = inputs_of(node, facts, graph, of.inputs);
            let asked = match inputs.get("delayMs") {
                Some(value) => value.as_u64(),
                None => Some(delay_ms.unwrap_or_default()),
            };
            let Some(asked) = asked.and_then(|ms| i64::try_from(ms).ok()) else {
                return Progress::Ended(vec![fail(
                    node,
                    "validation_error",
                    "`delayMs` must be an integer number of milliseconds",
                )]);
            };
            let since = known.started_at.unwrap_or(of.now);
            match since.checked_add(SignedDuration::from_millis(asked)) {
                Ok(due) if due <= of.now => Progress::Ended(vec![complete(node, Map::new())]),
                Ok(due) => Progress::Until(Some(due)),
                Err(_) => Progress::Until(None),
            }
        }
        NodeKind::Interrupt(asked) => Progress::Ended(interrupt::suspend(
            of.run_id,
            &node.id,
            known.attempt,
            asked,
        )),
        NodeKind::Prompt => Progress::Prompt,
        NodeKind::MockAgent(mock) => {
            Progress::Ended(mock_agent_events(node, mock, of.agent_of(&node.id)))
        }
        NodeKind::Handoff {
            task_schema,
            return_schema,
        } => {
            let inputs = inputs_of(node, facts, graph, of.inputs);
            Progress::Ended(vec![check_handoff(
                node,
                inputs,
                task_schema,
                return_schema,
            )])
        }
    }
}

/// The events of a mock agent, including its end.
fn mock_agent_events(
    node: &GraphNode,
    mock: &MockAgent,
    agent: Option<&BoundAgent>,
) -> Vec<NewEvent> {
    let agent_id = match agent {
        Some(agent) => agent.agent_id.clone(),
        None => format!("host:mock-agent:{}", node.id).into(),
    };
    let mut events = Vec::new();
    if let Some(reasoning) = &mock.mock_reasoning {
        events.push(Event::AgentReasoned(AgentReasoned {
            agent_id: agent_id.clone(),
            reasoning: reasoning.summary.clone(),
        }));
    }
    for (n, call) in mock.mock_tool_calls.iter().enumerate() {
        let call_id = format!("call-{}", n + 1);
        let called = AgentToolCalled {
            agent_id: agent_id.clone(),
            tool_name: call.tool_id.clone(),
            call_id: call_id.clone(),
            inputs: None,
            args_hash: None,
            transport: None,
        };
        events.push(Event::AgentToolCalled(match &call.arguments {
            Some(arguments) => called.with_inputs(arguments.clone()),
            None => called,
        }));
        events.push(Event::AgentToolReturned(AgentToolReturned {
            agent_id: agent_id.clone(),
            tool_name: call.tool_id.clone(),
            call_id,
            outcome: Some(call.result.clone()),
            error: None,
            status: ToolStatus::Ok,
            duration_ms: None,
        }));
    }
    let mut outputs = Map::new();
    if let Some(decided) = &mock.mock_decision {
        outputs.insert("decision".to_owned(), decided.decision.clone());
        events.push(Event::AgentDecided(AgentDecided {
            agent_id,
            decision: decided.decision.clone(),
        }));
    }
    let mut events: Vec<NewEvent> = events.into_iter().map(|it| event(node, it)).collect();
    events.push(complete(node, outputs));
    events
}

/// Whether task and result of a handoff satisfy their schemas. The result equals the task, unless
/// the task requests a result that violates the return schema.
fn check_handoff(
    node: &GraphNode,
    inputs: Map<String, Value>,
    task_schema: &Value,
    return_schema: &Value,
) -> NewEvent {
    // Schemas that do not compile were rejected with their node.
    let satisfies = |schema: &Value, value: &Value| {
        compile_untrusted(schema).is_ok_and(|schema| schema.is_valid(value))
    };
    let violated = inputs.get("scenario").and_then(Value::as_str) == Some("mock-return-violation");
    let task = Value::Object(inputs);
    if !satisfies(task_schema, &task) {
        return fail(
            node,
            "handoff_task_schema_violation",
            "the task violates the agent's task schema; the agent was not called",
        );
    }
    let result = if violated {
        Value::Object(Map::new())
    } else {
        json!({"extracted": {}, "confidence": 1})
    };
    match result {
        Value::Object(outputs) if satisfies(return_schema, &Value::Object(outputs.clone())) => {
            complete(node, outputs)
        }
        _ => fail(
            node,
            "handoff_return_schema_violation",
            "the result violates the agent's return schema and was discarded",
        ),
    }
}

/// Ends a wait that timed out.
fn expire(node: &GraphNode, known: &NodeFacts, now: Timestamp) -> Progress {
    let Some(asked) = &known.interrupt else {
        return Progress::Until(None);
    };
    if asked.resolution.is_some() {
        // The history of a branch may end between an answer and the end of the node.
        return Progress::Ended(vec![event(
            node,
            Event::NodeResumed(NodeResumed {
                node_id: node.id.clone(),
                interrupt_id: asked.id.clone(),
            }),
        )]);
    }
    match interrupt::deadline(asked) {
        Some(at) if at <= now => Progress::Ended(interrupt::time_out(&node.id, asked, now)),
        until => Progress::Until(until),
    }
}

/// The events that an answer causes for the node that waits.
fn end_wait(node: &GraphNode, known: &NodeFacts) -> Vec<NewEvent> {
    let asked = known.interrupt.as_ref();
    let Some((answer, by)) = asked.and_then(|asked| asked.resolution.as_ref()) else {
        return vec![complete(node, Map::new())];
    };
    let approval = asked.is_some_and(|asked| asked.requested.kind == InterruptKind::Approval);
    let action = answer.get("action").and_then(Value::as_str);
    // A principal may have the same name; only the host gives this answer.
    let timed_out = by == interrupt::HOST && action == Some(interrupt::TIMEOUT);
    let refused = match (approval, timed_out, action) {
        (true, true, _) => Some(("approval_rejected", "the approval timed out")),
        (false, true, _) => Some(("interrupt_timeout", "no answer arrived in time")),
        (true, false, Some("reject")) => Some(("approval_rejected", "the approval was rejected")),
        _ => None,
    };
    match refused {
        Some((code, message)) => vec![fail(node, code, message)],
        None => {
            let outputs = match answer {
                Value::Object(members) => members.clone(),
                other => Map::from_iter([("value".to_owned(), other.clone())]),
            };
            vec![complete(node, outputs)]
        }
    }
}

/// The inputs of a node (OpenWOP workflow-definition, `PortValue`). An input whose source does not
/// exist is absent.
fn inputs_of(
    node: &GraphNode,
    facts: &FlowFacts,
    graph: &Graph,
    inputs: &Map<String, Value>,
) -> Map<String, Value> {
    let member = |port: &Value, name: &str| {
        port.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let value_of = |port: &Value| match port.get("type").and_then(Value::as_str) {
        Some("static") => port.get("value").cloned(),
        Some("variable") => inputs.get(&member(port, "variableName")).cloned(),
        Some("connection") => {
            let source = NodeId::from(member(port, "nodeId"));
            let known = graph.nodes.iter().any(|node| node.id == source);
            let outputs = facts
                .node(&source)
                .filter(|_| known)
                .map(|node| &node.outputs);
            outputs.and_then(|outputs| outputs.get(&member(port, "outputKey")).cloned())
        }
        _ => None,
    };
    node.inputs
        .iter()
        .filter_map(|(name, port)| Some((name.clone(), value_of(port)?)))
        .collect()
}

/// The outputs of a workflow: those of its last nodes.
fn outputs(graph: &Graph, facts: &FlowFacts) -> Map<String, Value> {
    let last = graph.nodes.iter().filter(|node| node.is_last);
    last.filter_map(|node| facts.node(&node.id))
        .flat_map(|node| node.outputs.clone())
        .collect()
}

fn event(node: &GraphNode, event: Event) -> NewEvent {
    NewEvent::of_task(event, &node.id, None)
}

/// The agent and version that execute a node, recorded so that replays use the same one (RFC 0077,
/// RFC 0082 §B).
fn invocation_begins(node: &GraphNode, attempt: u32, agent: &BoundAgent) -> NewEvent {
    let channel = agent.channel.as_ref();
    event(
        node,
        Event::AgentInvocationStarted(AgentInvocationStarted {
            invocation_id: invocation(node, attempt),
            agent_id: agent.agent_id.clone(),
            source: "workflow-node".to_owned(),
            model_class: None,
            resolved_model: None,
            resolved_provider: None,
            resolved_agent_version: agent.version.clone(),
            resolved_channel: channel.map(|pin| pin.channel.to_string()),
            tool_surface_count: 0,
            memory_bound: false,
        }),
    )
}

fn invocation_ends(node: &GraphNode, attempt: u32, agent: &BoundAgent) -> NewEvent {
    event(
        node,
        Event::AgentInvocationCompleted(AgentInvocationCompleted {
            invocation_id: invocation(node, attempt),
            agent_id: agent.agent_id.clone(),
            outcome: InvocationOutcome::Completed,
            schema_validated: None,
        }),
    )
}

fn invocation(node: &GraphNode, attempt: u32) -> String {
    format!("inv-{}-{attempt}", node.id)
}

fn complete(node: &GraphNode, outputs: Map<String, Value>) -> NewEvent {
    event(
        node,
        Event::NodeCompleted(NodeCompleted {
            node_id: node.id.clone(),
            outputs,
        }),
    )
}

fn fail(node: &GraphNode, code: &str, message: &str) -> NewEvent {
    event(
        node,
        Event::NodeFailed(NodeFailed {
            node_id: node.id.clone(),
            error: RunError {
                code: code.to_owned(),
                message: message.to_owned(),
            },
        }),
    )
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes are small")]
fn breach(node: &GraphNode, limit: u64, observed: u64) -> Vec<NewEvent> {
    vec![
        event(
            node,
            Event::CapBreached(CapBreached {
                kind: "node-executions".to_owned(),
                limit: limit as f64,
                observed: observed as f64,
                node_id: Some(node.id.clone()),
            }),
        ),
        NewEvent::of_run(Event::RunFailed(RunFailed {
            error: RunError {
                code: "recursion_limit_exceeded".to_owned(),
                message: "the run reached its limit of node executions".to_owned(),
            },
            failed_node_id: Some(node.id.clone()),
        })),
    ]
}

#[cfg(test)]
mod tests;
