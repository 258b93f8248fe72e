//! A judge whose verdict is dictated by the answer it judges.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Semaphore;
use touchstone_agents::model::EndpointPermits;
use touchstone_agents::ports::model::{Model, ModelBinding, ModelError, ModelInfo};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::rules::{Message, ModelReply, ModelRequest, RetryPolicy, TokenUsage};

/// Cost of judging one sample, in USD.
pub const COST: f64 = 0.01;

/// Answers with `Kindly` count as polite, `broken` makes the judge unavailable, and `patience`
/// makes it wait.
pub struct Examiner {
    info: ModelInfo,
    asked: Mutex<Vec<Option<String>>>,
    patience: Semaphore,
}

impl Examiner {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            info: ModelInfo {
                provider: "bench".to_owned(),
                model: "examiner-1".to_owned(),
                // Only output tokens cost: the input says nothing about the cost to come.
                price: Some(ModelPrice::configured(0.0, COST * 1e5)),
                max_concurrency: 4,
                timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
            },
            asked: Mutex::default(),
            patience: Semaphore::new(0),
        })
    }

    pub fn binding(self: &Arc<Self>) -> ModelBinding {
        ModelBinding {
            model: self.clone(),
            permits: Arc::new(EndpointPermits::new(4)),
            endpoint: None,
            worker_labels: WorkerLabels::default(),
        }
    }

    /// Number of calls.
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Names of the calls, in order.
    pub fn names(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap().clone()
    }

    /// Releases the answers that wait.
    pub fn go_on(&self) {
        self.patience.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl Model for Examiner {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.asked.lock().unwrap().push(request.activity.clone());
        let question = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(text.to_string()),
            _ => None,
        });
        let question = question.unwrap();
        if question.contains("broken") {
            return Err(ModelError::unavailable("connect", false));
        }
        if question.contains("patience") {
            let _patience = self.patience.acquire().await.unwrap();
        }
        Ok(ModelReply {
            text: Some(json!({"met": question.contains("Kindly")}).to_string()),
            usage: Some(TokenUsage {
                input: 10,
                output: 10,
                cached_input: None,
            }),
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}
