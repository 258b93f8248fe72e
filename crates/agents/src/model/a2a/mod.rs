//! A remote agent on the A2A protocol, version 0.3, JSON-RPC transport.
//!
//! The agent has its own instructions, model and tools, so it only gets the task: memory, input,
//! and a description of the schema that its answer must satisfy. If its card says that it streams,
//! the adapter follows the task that way (`message/stream`). A task that takes longer, or whose
//! stream ends early, is polled until it ends, within the attempt's time. The message id is the
//! call's effect id, the same for every attempt, so that an agent can recognize a repetition. A
//! task that is no longer awaited is cancelled (`tasks/cancel`), if its id is already known.
//!
//! The agent keeps a conversation under the `contextId` of its first answer, so a later turn sends
//! only the user's newest message with this id: to the task, if it waits for input, and otherwise
//! as a new task that refers to the last one.

pub mod card;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::model::a2a::wire::{Progress, Streamed, read_answer};
use crate::model::endpoint::cancellation::{send_in_background, wait_limit};
use crate::model::endpoint::dialect::described;
use crate::model::endpoint::sse::documents;
use crate::model::endpoint::{Access, Error, Remote, StreamAnswer, bearer, json_of};
use crate::ports::model::{Model, ModelError, ModelInfo, TIMEOUT};
use crate::rules::{Message, ModelReply, ModelRequest, RemoteThread};
use touchstone_host::net;

/// Delay before the first poll.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Maximum delay between polls.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Maximum bytes of a stream that are read.
const LARGEST: u64 = 8 << 20;
/// The reason of a turn that cannot be sent, because the last answer named no context.
const NO_CONTEXT: &str = "a2a_no_context";
/// The reason of an answer in another context: the agent does not know the earlier turns.
const OTHER_CONTEXT: &str = "a2a_other_context";

#[derive(Debug)]
pub struct A2aAgent {
    remote: Arc<Remote>,
    info: ModelInfo,
    /// Whether its card says that it streams.
    streams: OnceCell<bool>,
}

impl A2aAgent {
    /// An agent at the `url` of its card.
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

    /// Whether the agent streams. Determined at the first call; if the lookup fails, the next call
    /// repeats it.
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

    /// Sends the task and follows its stream to the end.
    async fn follow(
        &self,
        params: Value,
        activity: Option<&str>,
        known: &mut RunningTask,
    ) -> Result<Progress, ModelError> {
        let opened = self
            .remote
            .open(body("message/stream", params)?, activity)
            .await?;
        let answer = match opened {
            StreamAnswer::Stream(answer) => answer,
            // An error arrives as a single document.
            StreamAnswer::Whole(answer) if !(200..300).contains(&answer.status) => {
                return Err(self.remote.failure(&answer));
            }
            StreamAnswer::Whole(answer) => return read_answer(json_of(&answer)?),
        };
        let mut events = documents(answer, LARGEST);
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
                    // The task continues without its stream.
                    Some(task) if cause.is_transient() => return Ok(Progress::Working { task }),
                    _ => return Err(cause),
                },
            }
        }
        let task = task.task();
        task.map(|task| Progress::Working { task })
            .ok_or_else(|| ModelError::unavailable("malformed_reply", true))
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

    /// Sends the task and waits until it ends.
    async fn run_task(
        &self,
        request: &ModelRequest<'_>,
        known: &mut RunningTask,
    ) -> Result<ModelReply, ModelError> {
        let activity = request.activity.as_deref();
        let newest = newest(request);
        let mut message = json!({
            "kind": "message",
            "role": "user",
            "messageId": activity.unwrap_or("message"),
            "parts": parts(request, newest),
        });
        if newest > 0 {
            let thread = request.thread.clone().unwrap_or_default();
            continue_thread(&mut message, thread)?;
        }
        let params = json!({
            "message": message,
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
                Progress::Ended(reply) => return in_thread(reply, request),
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
        let mut known = RunningTask {
            remote: Arc::clone(&self.remote),
            task: None,
        };
        let pursuing = self.run_task(request, &mut known);
        // Before the attempt's own deadline drops this future.
        let pursued = tokio::time::timeout(wait_limit(self.info.timeout), pursuing).await;
        match pursued {
            Ok(outcome) => {
                // The task has ended, or another attempt will find it again.
                known.task = None;
                outcome
            }
            // Another attempt would only find the cancelled task.
            Err(_) => Err(ModelError::unavailable(TIMEOUT, known.task.is_none())),
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The agent's identity from its card.
    async fn adapter(&self) -> Option<Value> {
        let place = card::place(self.remote.url())?;
        let card = self.remote.public(&place).await.ok()??;
        card::identity(&card, self.remote.url())
    }
}

/// The running task, once its id is known. Cancels the task on drop.
struct RunningTask {
    remote: Arc<Remote>,
    task: Option<String>,
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else {
            return;
        };
        let remote = Arc::clone(&self.remote);
        if let Ok(body) = body("tasks/cancel", json!({"id": task})) {
            send_in_background(async move { remote.post(body, None).await });
        }
    }
}

fn body(method: &str, params: Value) -> Result<Vec<u8>, ModelError> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    serde_json::to_vec(&body)
        .map_err(|_| ModelError::unavailable("request_not_serialisable", false))
}

/// The index of the first message that the agent does not know yet.
fn newest(request: &ModelRequest<'_>) -> usize {
    let is_answer = |message: &Message| matches!(message, Message::Assistant { .. });
    let last_answer = request.messages.iter().rposition(is_answer);
    last_answer.map_or(0, |at| at + 1)
}

/// Adds the ids that continue a conversation.
fn continue_thread(message: &mut Value, thread: RemoteThread) -> Result<(), ModelError> {
    if thread.context_id.is_none() && thread.waiting_task.is_none() {
        return Err(ModelError::unavailable(NO_CONTEXT, false));
    }
    if let Some(id) = thread.context_id {
        message["contextId"] = Value::from(id);
    }
    if let Some(id) = thread.waiting_task {
        message["taskId"] = Value::from(id);
    }
    if let Some(id) = thread.ended_task {
        message["referenceTaskIds"] = json!([id]);
    }
    Ok(())
}

/// The reply, unless the agent gave it in another context than the conversation's. An agent may
/// leave out the id of a known context.
fn in_thread(mut reply: ModelReply, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
    let known = request.thread.as_ref();
    let Some(known) = known.and_then(|thread| thread.context_id.as_ref()) else {
        return Ok(reply);
    };
    let thread = reply.thread.get_or_insert_default();
    match &thread.context_id {
        Some(id) if id != known => Err(ModelError::unavailable(OTHER_CONTEXT, false)),
        _ => {
            thread.context_id = Some(known.clone());
            Ok(reply)
        }
    }
}

/// The message parts for the agent, from the `newest` message on. The first message is the pack's
/// prompt, which is left out because the agent has its own.
fn parts(request: &ModelRequest<'_>, newest: usize) -> Vec<Value> {
    let told = request.messages.iter().enumerate().skip(newest);
    let texts = told.filter_map(|(n, message)| match message {
        Message::System(text) if n > 0 => Some(text.to_string()),
        Message::User(text) | Message::UserWithFiles { text, .. } => Some(text.to_string()),
        _ => None,
    });
    let texts = texts
        .chain(request.response_schema.map(described))
        .map(|text| json!({"kind": "text", "text": text}));
    let files = request.messages.iter().skip(newest);
    let files = files.filter_map(|message| match message {
        Message::UserWithFiles { files, .. } => Some(files),
        _ => None,
    });
    let files = files.flat_map(|files| files.iter()).map(|file| {
        json!({"kind": "file", "file": {
            "name": &*file.name, "mimeType": file.media_type, "bytes": &*file.base64,
        }})
    });
    texts.chain(files).collect()
}
