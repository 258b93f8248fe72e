//! Runs of workflows: records the events the rules produce, parks at waits, and answers model calls
//! with a mock provider.

use std::sync::Arc;
use std::time::Duration;

use tracing::error;

use crate::ports::queue::Wait;
use crate::rules::run::record::{RunRecord, WorkflowSpec};
use crate::rules::workflow::graph::Graph;
use crate::rules::workflow::mock::{MockError, MockProvider, MockUsage, StreamText, ToolCalls};
use crate::rules::workflow::step::{Step, StepContext, next};
use crate::service::executor::WorkEnd;
use crate::service::executor::control::{RunSignals, Signal, Stop};
use crate::service::executor::endings::{fail, running_for};
use crate::service::run_writer::RunWriter;
use touchstone_host::ports::clock::Clock;
use touchstone_kit::ids::NodeId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{
    AgentToolCalled, ChunkMeta, ChunkUsage, Event, MessageChunk, NewEvent, NodeCompleted,
    NodeFailed, ProviderUsage, RunCompleted, RunError, RunOutputs,
};

/// The provider name of mocked calls.
const MOCK: &str = "mock";

pub(super) struct WorkflowExecutor {
    clock: Arc<dyn Clock>,
}

impl WorkflowExecutor {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }

    /// Executes a workflow until it ends or has to wait for a person.
    pub(super) async fn execute(
        &self,
        run: &RunRecord,
        spec: &WorkflowSpec,
        writer: &RunWriter,
        signals: &mut RunSignals,
    ) -> WorkEnd {
        let graph = match Graph::of(&spec.definition) {
            Ok(graph) => graph,
            Err(fault) => {
                error!(run_id = %run.run_id, %fault, "an accepted workflow cannot be executed");
                let message = "this host cannot execute the workflow";
                return fail(writer, RunError::new("internal_error", message));
            }
        };
        loop {
            if writer.ready().await.is_err() {
                return WorkEnd::Stopped(Stop::Lost);
            }
            let of = StepContext {
                run_id: &run.run_id,
                inputs: &run.spec.inputs,
                max_node_executions: spec.max_node_executions,
                agents: &spec.agents,
                hold: signals.is_held(),
                now: self.clock.now(),
            };
            match writer.with_state(|state| next(&graph, &state.flow, &of)) {
                Step::Record(events) => writer.emit_all(&events),
                Step::Fail(events) => {
                    writer.emit_all(&events);
                    return WorkEnd::Ended;
                }
                Step::Complete(outputs) => {
                    let duration_ms = running_for(writer);
                    writer.emit(&NewEvent::of_run(Event::RunCompleted(RunCompleted {
                        outputs: RunOutputs::Workflow(outputs),
                        duration_ms,
                    })));
                    return WorkEnd::Ended;
                }
                Step::Wait(until) => {
                    return WorkEnd::Waiting(Wait {
                        until,
                        pause_known: signals.pause_requested(),
                    });
                }
                Step::Held => return WorkEnd::Stopped(signals.hold_reason()),
                Step::Prompt(node) => {
                    let answering = answer(run, spec.mock_provider.as_ref(), &node, writer);
                    tokio::pin!(answering);
                    loop {
                        tokio::select! {
                            () = &mut answering => break,
                            signal = signals.next() => match signal {
                                Signal::Stop(stop) => return WorkEnd::Stopped(stop),
                                Signal::HoldChanged => {}
                            },
                        }
                    }
                }
            }
        }
    }
}

/// Answers with the mock provider. Events that an interrupted attempt wrote are not written again.
async fn answer(
    run: &RunRecord,
    provider: Option<&MockProvider>,
    node: &NodeId,
    writer: &RunWriter,
) {
    let of_node = |event| NewEvent::of_task(event, node, None);
    let completed = |outputs| {
        of_node(Event::NodeCompleted(NodeCompleted {
            node_id: node.clone(),
            outputs,
        }))
    };
    let failed = |code: &str, message: &str| {
        of_node(Event::NodeFailed(NodeFailed {
            node_id: node.clone(),
            error: RunError::new(code, message),
        }))
    };
    match provider {
        None => writer.emit_all(&[failed(
            "capability_not_provided",
            "workflows have no model on this host; only a mock provider answers",
        )]),
        Some(MockProvider::StreamText(text)) => {
            write_text(run, text, node, writer).await;
            let outputs = [("text".to_owned(), text.tokens.concat().into())];
            writer.emit_all(&[
                of_node(Event::ProviderUsage(usage(&text.model, &text.usage, node))),
                completed(outputs.into_iter().collect()),
            ]);
        }
        Some(MockProvider::ToolCalls(calls)) => {
            let mut events = tool_calls(calls, node);
            events.push(of_node(Event::ProviderUsage(usage(
                &calls.model,
                &calls.usage,
                node,
            ))));
            events.push(match serde_json::to_value(&calls.tool_calls) {
                Ok(made) => completed([("toolCalls".to_owned(), made)].into_iter().collect()),
                Err(cause) => {
                    error!(run_id = %run.run_id, %cause, "could not serialize tool calls");
                    failed("internal_error", "could not serialize the tool calls")
                }
            });
            writer.emit_all(&events);
        }
        Some(MockProvider::Error(error)) => {
            writer.emit_all(&[failed(&error.code, MockError::MESSAGE)]);
        }
        Some(MockProvider::UsageOnly(only)) => writer.emit_all(&[
            of_node(Event::ProviderUsage(usage(&only.model, &only.usage, node))),
            completed(serde_json::Map::new()),
        ]),
    }
}

async fn write_text(run: &RunRecord, text: &StreamText, node: &NodeId, writer: &RunWriter) {
    let written = writer.with_state(|state| state.flow.node(node).map_or(0, |node| node.chunks));
    let count = text.tokens.len();
    for (n, token) in text.tokens.iter().enumerate().skip(written) {
        tokio::time::sleep(Duration::from_millis(text.delay_ms_per_token)).await;
        let is_last = n + 1 == count;
        let chunk = MessageChunk {
            node_id: node.clone(),
            run_id: run.run_id.clone(),
            chunk: token.clone(),
            is_last,
            meta: is_last.then(|| ChunkMeta {
                finish_reason: text.finish_reason.as_str().to_owned(),
                model: text.model.clone(),
                usage: Some(ChunkUsage {
                    prompt_tokens: text.usage.prompt_tokens,
                    completion_tokens: text.usage.completion_tokens,
                    total_tokens: text.usage.total(),
                }),
            }),
        };
        writer.emit(&NewEvent::of_task(Event::MessageChunk(chunk), node, None));
    }
}

/// Tool calls that are announced but not executed: a workflow has no tools.
fn tool_calls(calls: &ToolCalls, node: &NodeId) -> Vec<NewEvent> {
    let event = |(n, call): (usize, &crate::rules::workflow::mock::MockToolCall)| {
        let called = AgentToolCalled {
            agent_id: "core.conformance.mock".into(),
            tool_name: call.name.clone(),
            call_id: format!("call-{}", n + 1),
            inputs: None,
            args_hash: None,
            transport: None,
        }
        .with_inputs(call.arguments.clone().into());
        NewEvent::of_task(Event::AgentToolCalled(called), node, None)
    };
    calls.tool_calls.iter().enumerate().map(event).collect()
}

fn usage(model: &str, used: &MockUsage, node: &NodeId) -> ProviderUsage {
    ProviderUsage {
        provider: MOCK.to_owned(),
        model: model.to_owned(),
        input_tokens: used.prompt_tokens,
        output_tokens: used.completion_tokens,
        total_tokens: used.total(),
        cost_estimate_usd: Some(NanoUsd::ZERO),
        currency: "USD".to_owned(),
        cache_read_tokens: None,
        node_id: Some(node.clone()),
    }
}
