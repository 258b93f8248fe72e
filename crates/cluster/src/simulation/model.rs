//! The model endpoint, as a worker reaches it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use touchstone_agents::model::EndpointPermits;
use touchstone_agents::ports::model::{Model, ModelBinding, ModelError, ModelInfo};
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::rules::{
    EndpointPin, Message, ModelReply, ModelRequest, RetryPolicy, TokenUsage, ToolCall,
};

use crate::simulation::schedule::{Node, TOKENS};
use crate::simulation::world::World;

/// Answers a number of calls with a tool call, and the last one with a text. Each answer contains
/// the number of the call, so that the log shows which calls it records.
pub struct SimulatedModel {
    world: Arc<World>,
    node: Node,
    info: ModelInfo,
}

impl SimulatedModel {
    pub fn new(world: Arc<World>, node: Node) -> Self {
        let info = ModelInfo {
            provider: "openai".to_owned(),
            model: "simulated".to_owned(),
            price: None,
            max_concurrency: 100,
            timeout: Duration::from_secs(120),
            retry: RetryPolicy::default(),
        };
        Self { world, node, info }
    }

    /// The model as hosts name it in their tasks.
    pub fn binding(self) -> ModelBinding {
        ModelBinding {
            model: Arc::new(self),
            permits: Arc::new(EndpointPermits::new(100)),
            endpoint: Some(endpoint()),
            worker_labels: WorkerLabels::default(),
        }
    }
}

pub fn endpoint() -> EndpointPin {
    EndpointPin {
        url: None,
        digest: "sha256-simulated".to_owned(),
    }
}

#[async_trait]
impl Model for SimulatedModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let (world, task) = (&self.world, request.task.as_ref().unwrap());
        let Node::Worker(worker) = self.node else {
            world.violated(format!("{:?} calls the model", self.node));
            return Err(ModelError::unavailable("not_here", false));
        };
        let was_stalled = world.is_stalled(self.node);
        world.running(self.node).await;
        let number = world.call(worker, task.id.as_str(), was_stalled);
        let takes = world.random(world.schedule.call.clone());
        tokio::time::sleep(Duration::from_millis(takes)).await;
        world.running(self.node).await;
        Ok(reply(request, number, calls(task.input)))
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// The number of calls that a task needs, as its input says.
fn calls(input: &Value) -> u64 {
    input.get("calls").and_then(Value::as_u64).unwrap()
}

fn reply(request: &ModelRequest<'_>, number: u64, calls: u64) -> ModelReply {
    let is_answer = |message: &&Message| matches!(message, Message::Assistant { .. });
    let answered = request.messages.iter().filter(is_answer).count() as u64;
    let usage = Some(TokenUsage {
        input: TOKENS - 10,
        output: 10,
        cached_input: Some(number),
    });
    if answered + 1 < calls {
        let call = ToolCall {
            id: format!("call_{number}"),
            tool: "docs:find".to_owned(),
            arguments: Ok(json!({})),
        };
        return ModelReply {
            tool_calls: vec![call],
            usage,
            ..ModelReply::default()
        };
    }
    ModelReply {
        text: Some(format!("answer {number}")),
        usage,
        ..ModelReply::default()
    }
}
