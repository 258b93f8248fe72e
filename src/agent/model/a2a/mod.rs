//! A remote agent on the A2A protocol, version 0.3, JSON-RPC transport.
//!
//! The agent brings its own instructions, model and tools, so what it gets is the task: memory, input, and in words the schema
//! its answer must satisfy. Where its card says that it streams, the task is followed that way (`message/stream`); a task it
//! takes longer over, or whose stream ends early, is asked for until it has ended, within the attempt's time. The
//! message id is that of the call as an effect, the same for every attempt, by which an agent can recognise a repetition. A task
//! that nobody waits for any more is cancelled (`tasks/cancel`), if it is known by then.

mod card;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::dialect::described;
use super::elsewhere::{patience, tell};
use super::endpoint::{Access, Error, Opened, Remote, bearer, json_of, unavailable};
use super::events::Events;
use crate::domain::agent::{Message, ModelReply, ModelRequest};
use crate::net;
use crate::ports::{Model, ModelError, ModelInfo, TIMEOUT};
use wire::{Progress, Streamed, read_answer};

/// First wait before a task is asked for again.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Octets of a stream that are read.
const LARGEST: u64 = 8 << 20;

/// An agent on this protocol.
#[derive(Debug)]
pub struct A2aAgent {
    remote: Arc<Remote>,
    info: ModelInfo,
    /// Whether its card says that it streams.
    streams: OnceCell<bool>,
}

impl A2aAgent {
    /// The agent at the `url` of its card.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(access: Access) -> Result<Self, Error> {
        Ok(Self {
            remote: Arc::new(Remote::new(&access, bearer, None)?),
            info: access.info,
            streams: OnceCell::new(),
        })
    }

    /// Whether it streams. Looked up with the first call; what cannot be told then is asked again with the next one.
    async fn streams(&self) -> bool {
        let Some(place) = card::place(self.remote.url()) else {
            return false;
        };
        let look = || async {
            let card = self.remote.public(&place).await?;
            let url = self.remote.url();
            Ok::<_, net::Error>(card.is_some_and(|card| card::streams(&card, url)))
        };
        self.streams.get_or_try_init(look).await.is_ok_and(|it| *it)
    }

    /// Gives it the task and follows it as far as its stream goes.
    async fn follow(
        &self,
        params: Value,
        activity: Option<&str>,
        known: &mut Known,
    ) -> Result<Progress, ModelError> {
        let opened = self
            .remote
            .open(body("message/stream", params)?, activity)
            .await?;
        let answer = match opened {
            Opened::Stream(answer) => answer,
            // An error comes as a document.
            Opened::Whole(answer) if !(200..300).contains(&answer.status) => {
                return Err(self.remote.failure(&answer));
            }
            Opened::Whole(answer) => return read_answer(json_of(&answer)?),
        };
        let mut events = Events::of(answer, LARGEST);
        let mut task = Streamed::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(data) => {
                    if let Some(reply) = task.take(data.as_bytes())? {
                        return Ok(Progress::Ended(reply));
                    }
                    known.task = task.id().map(str::to_owned);
                }
                Err(cause) => match task.task() {
                    // The task goes on without its stream.
                    Some(task) if cause.is_transient() => return Ok(Progress::Working { task }),
                    _ => return Err(cause),
                },
            }
        }
        let task = task.task();
        task.map(|task| Progress::Working { task })
            .ok_or_else(|| unavailable("malformed_reply", true))
    }

    async fn ask(
        &self,
        method: &str,
        params: Value,
        activity: Option<&str>,
    ) -> Result<Progress, ModelError> {
        let answer = self.remote.post(body(method, params)?, activity).await?;
        if !(200..300).contains(&answer.status) {
            return Err(self.remote.failure(&answer));
        }
        read_answer(json_of(&answer)?)
    }

    /// Gives it the task and waits until it has ended.
    async fn pursue(
        &self,
        request: &ModelRequest<'_>,
        known: &mut Known,
    ) -> Result<ModelReply, ModelError> {
        let activity = request.activity.as_deref();
        let params = json!({
            "message": {
                "kind": "message",
                "role": "user",
                "messageId": activity.unwrap_or("message"),
                "parts": parts(request),
            },
            "configuration": {
                "blocking": true,
                "acceptedOutputModes": ["application/json", "text/plain"],
            },
        });
        let mut progress = match self.streams().await {
            true => self.follow(params, activity, known).await?,
            false => self.ask("message/send", params, activity).await?,
        };
        let mut wait = FIRST_WAIT;
        loop {
            match progress {
                Progress::Ended(reply) => return Ok(reply),
                Progress::Working { task } => {
                    known.task = Some(task.clone());
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    progress = self.ask("tasks/get", json!({"id": task}), None).await?;
                }
            }
        }
    }
}

#[async_trait]
impl Model for A2aAgent {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut known = Known {
            remote: Arc::clone(&self.remote),
            task: None,
        };
        let pursuing = self.pursue(request, &mut known);
        // Before the attempt's own deadline drops this future.
        let pursued = tokio::time::timeout(patience(self.info.timeout), pursuing).await;
        match pursued {
            Ok(outcome) => {
                // It has ended, or another attempt finds it again.
                known.task = None;
                outcome
            }
            // Another attempt would only find the cancelled task again.
            Err(_) => Err(unavailable(TIMEOUT, known.task.is_none())),
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Who it is, by its card.
    async fn adapter(&self) -> Option<Value> {
        let place = card::place(self.remote.url())?;
        let card = self.remote.public(&place).await.ok()??;
        card::identity(&card, self.remote.url())
    }
}

/// The task that is under way, once it is known. One that is dropped is cancelled.
struct Known {
    remote: Arc<Remote>,
    task: Option<String>,
}

impl Drop for Known {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else {
            return;
        };
        let remote = Arc::clone(&self.remote);
        if let Ok(body) = body("tasks/cancel", json!({"id": task})) {
            tell(async move { remote.post(body, None).await });
        }
    }
}

fn body(method: &str, params: Value) -> Result<Vec<u8>, ModelError> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    serde_json::to_vec(&body).map_err(|_| unavailable("request_not_serialisable", false))
}

/// What the agent is told. The first message is the pack's prompt, for which the agent has its own.
fn parts(request: &ModelRequest<'_>) -> Vec<Value> {
    let told = request.messages.iter().enumerate();
    let texts = told.filter_map(|(n, message)| match message {
        Message::System(text) if n > 0 => Some(text.to_string()),
        Message::User(text) => Some(text.to_string()),
        _ => None,
    });
    texts
        .chain(request.response_schema.map(described))
        .map(|text| json!({"kind": "text", "text": text}))
        .collect()
}
