//! An agent on another OpenWOP host: a run of one of its workflows per task.
//!
//! The run only gets the task's input; instructions, model and tools are the other host's. Long
//! polls, which return the whole log (OpenWOP rest-endpoints), follow the run until it ends, and it
//! is cancelled if it is no longer awaited. The run is created under the call's effect id, so that
//! another attempt finds the same run.

pub mod definition;
pub mod log;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::model::endpoint::cancellation::{send_in_background, wait_limit};
use crate::model::endpoint::{Access, Error, Remote, bearer, json_of};
use crate::model::openwop::log::Log;
use crate::ports::model::{Model, ModelError, ModelInfo, TIMEOUT};
use crate::rules::{ModelReply, ModelRequest};

/// How long one poll waits for new events, in seconds.
const POLL_SECONDS: u64 = 10;
/// Minimum delay after a poll without new events.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Timeout for reading the workflow's definition.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// A workflow of another host as an agent.
#[derive(Debug)]
pub struct OpenWopAgent {
    remote: Arc<Remote>,
    /// URL of the workflow's definition.
    definition: Url,
    info: ModelInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    run_id: String,
}

impl OpenWopAgent {
    /// The workflow `info.model` of the host at the address, which ends before `/v1`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(access: Access) -> Result<Self, Error> {
        let workflow = access.info.model.clone();
        let definition = access.clone().below(&["v1", "workflows", &workflow])?.url;
        let access = access.below(&["v1", "runs"])?;
        let remote = Arc::new(Remote::new(&access, bearer, None)?);
        Ok(Self {
            remote,
            definition,
            info: access.info,
        })
    }

    async fn create(&self, request: &ModelRequest<'_>) -> Result<Run, ModelError> {
        let body = json!({"workflowId": self.info.model, "inputs": inputs(request)});
        let body = serde_json::to_vec(&body)
            .map_err(|_| ModelError::unavailable("request_not_serialisable", false))?;
        let answer = self.remote.post(body, request.activity.as_deref()).await?;
        if !(200..300).contains(&answer.status) {
            return Err(self.remote.failure(&answer));
        }
        let created: Created = serde_json::from_slice(json_of(&answer)?)
            .map_err(|_| ModelError::unavailable("malformed_reply", true))?;
        Ok(Run {
            remote: Arc::clone(&self.remote),
            id: created.run_id,
            ended: false,
        })
    }
}

#[async_trait]
impl Model for OpenWopAgent {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        // The run is cancelled before the attempt's own deadline drops this future; another attempt
        // would only find the cancelled run.
        let patience = wait_limit(self.info.timeout);
        let mut run = self.create(request).await?;
        match tokio::time::timeout(patience, run.follow()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ModelError::unavailable(TIMEOUT, false)),
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The agent's identity from the workflow's definition. Reading it needs the scope
    /// `manifest:read`.
    async fn adapter(&self) -> Option<Value> {
        let asked = self.remote.get_at(&self.definition);
        let answer = tokio::time::timeout(IDENTIFY_TIMEOUT, asked).await.ok()?;
        let answer = answer.ok().filter(|answer| answer.status == 200)?;
        definition::report(json_of(&answer).ok()?, &self.info.model)
    }
}

/// The inputs of the run: the members of the task's input, or the input as the member `input`.
fn inputs(request: &ModelRequest<'_>) -> Value {
    match request.task.map(|task| task.input) {
        Some(input @ Value::Object(_)) => input.clone(),
        Some(other) => json!({"input": other}),
        None => json!({}),
    }
}

/// A run on the other host. Cancels the run on drop unless it has ended.
struct Run {
    remote: Arc<Remote>,
    id: String,
    ended: bool,
}

impl Run {
    async fn follow(&mut self) -> Result<ModelReply, ModelError> {
        let mut log = Log::default();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let before = log.last();
            match self.page(&mut log).await {
                Ok(Some(end)) => {
                    self.ended = log.has_ended();
                    return end;
                }
                Ok(None) if log.is_complete() => {
                    return Err(ModelError::unavailable("malformed_reply", false));
                }
                // The run continues there, even if it cannot be polled.
                Ok(None)
                | Err(ModelError::Unavailable {
                    retryable: true, ..
                }) => {}
                Err(cause) => return Err(cause),
            }
            if log.last() > before {
                pause = SHORTEST_PAUSE;
            } else {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Reads the next page; returns the result if the run has ended.
    async fn page(
        &self,
        log: &mut Log,
    ) -> Result<Option<Result<ModelReply, ModelError>>, ModelError> {
        let last = log.last().unwrap_or_default().to_string();
        let wait = POLL_SECONDS.to_string();
        let query = [("lastSequence", &*last), ("timeout", &*wait)];
        let place = [self.id.as_str(), "events", "poll"];
        let answer = self.remote.get(&place, &query).await?;
        if !(200..300).contains(&answer.status) {
            return Err(self.remote.failure(&answer));
        }
        log.take(json_of(&answer)?)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (remote, id) = (Arc::clone(&self.remote), std::mem::take(&mut self.id));
        send_in_background(async move {
            let place = [id.as_str(), "cancel"];
            remote.post_below(&place, b"{}".to_vec()).await
        });
    }
}
