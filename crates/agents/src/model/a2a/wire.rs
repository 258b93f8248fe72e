//! Parses the answers of A2A agents.

use serde::Deserialize;
use serde_json::Value;

use crate::model::wire::reported;
use crate::ports::model::ModelError;
use crate::rules::{ModelReply, RemoteThread};

/// JSON-RPC's error code for a fault inside the server.
const INTERNAL_ERROR: i64 = -32603;

#[derive(Debug)]
pub enum Progress {
    /// The agent has answered.
    Ended(ModelReply),
    /// The agent is still working.
    Working {
        /// The task to poll.
        task: String,
    },
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Option<Outcome>,
    #[serde(default)]
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Outcome {
    Message(Content),
    Task(Task),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusUpdate {
    task_id: String,
    #[serde(default)]
    context_id: Option<String>,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactUpdate {
    task_id: String,
    #[serde(default)]
    context_id: Option<String>,
    artifact: Content,
    /// Whether the content is appended to the artifact with this id.
    #[serde(default)]
    append: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default)]
    artifact_id: Option<String>,
    #[serde(default)]
    context_id: Option<String>,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    id: String,
    #[serde(default)]
    context_id: Option<String>,
    status: Status,
    #[serde(default)]
    artifacts: Option<Vec<Content>>,
}

#[derive(Deserialize)]
struct Status {
    state: State,
    #[serde(default)]
    message: Option<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Canceled,
    Failed,
    Rejected,
    AuthRequired,
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Part {
    Text {
        text: String,
    },
    Data {
        data: Value,
    },
    #[serde(other)]
    Unknown,
}

/// Parses an answer.
///
/// # Errors
/// The task has failed, or the answer is malformed.
pub fn read_answer(body: &[u8]) -> Result<Progress, ModelError> {
    match outcome(body)? {
        Outcome::Message(said) => Ok(Progress::Ended(said.reply())),
        Outcome::Task(task) => task.progress(),
        Outcome::StatusUpdate(_) | Outcome::ArtifactUpdate(_) => Err(malformed()),
    }
}

fn malformed() -> ModelError {
    ModelError::unavailable("malformed_reply", true)
}

fn outcome(body: &[u8]) -> Result<Outcome, ModelError> {
    let answer: Answer = reported::parse(body).ok_or_else(malformed)?;
    if let Some(error) = answer.error {
        let internal = error.code == INTERNAL_ERROR;
        return Err(ModelError::unavailable("a2a_error", internal));
    }
    answer.result.ok_or_else(malformed)
}

/// A task as received in pieces from a stream.
#[derive(Default)]
pub struct Streamed(Option<Task>);

impl Streamed {
    /// Adds a piece; returns the reply if the piece ends the task.
    ///
    /// # Errors
    /// As for an answer.
    pub fn take(&mut self, data: &[u8]) -> Result<Option<ModelReply>, ModelError> {
        match outcome(data)? {
            Outcome::Message(said) => return Ok(Some(said.reply())),
            Outcome::Task(task) => self.0 = Some(task),
            Outcome::StatusUpdate(update) => {
                self.of(update.task_id, update.context_id)?.status = update.status;
            }
            Outcome::ArtifactUpdate(update) => {
                let task = self.of(update.task_id, update.context_id)?;
                let artifacts = task.artifacts.get_or_insert_default();
                let same = |known: &&mut Content| known.artifact_id == update.artifact.artifact_id;
                match artifacts.iter_mut().find(same) {
                    Some(known) if update.append => known.parts.extend(update.artifact.parts),
                    Some(known) => *known = update.artifact,
                    None => artifacts.push(update.artifact),
                }
            }
        }
        match self.0.take_if(|task| !task.is_under_way()) {
            None => Ok(None),
            Some(task) => match task.progress()? {
                Progress::Ended(reply) => Ok(Some(reply)),
                Progress::Working { .. } => Ok(None),
            },
        }
    }

    /// The id of the running task, if it is known.
    pub fn id(&self) -> Option<&str> {
        self.0.as_ref().map(|task| task.id.as_str())
    }

    /// The running task, if there is one.
    pub fn task(self) -> Option<String> {
        self.0.map(|task| task.id)
    }

    /// The task with this id.
    fn of(&mut self, id: String, context_id: Option<String>) -> Result<&mut Task, ModelError> {
        let task = self.0.get_or_insert_with(|| Task {
            id: id.clone(),
            context_id,
            status: Status {
                state: State::Working,
                message: None,
            },
            artifacts: None,
        });
        match task.id == id {
            true => Ok(task),
            // A message belongs to exactly one task.
            false => Err(malformed()),
        }
    }
}

impl Task {
    fn is_under_way(&self) -> bool {
        matches!(self.status.state, State::Submitted | State::Working)
    }

    fn progress(self) -> Result<Progress, ModelError> {
        let said = self.status.message.map(|message| vec![message]);
        let waits = matches!(self.status.state, State::InputRequired);
        let task = Some(self.id.clone());
        let thread = RemoteThread {
            context_id: self.context_id,
            waiting_task: task.clone().filter(|_| waits),
            ended_task: task.filter(|_| !waits),
        };
        match self.status.state {
            State::Submitted | State::Working => Ok(Progress::Working { task: self.id }),
            // The answer is in the artifacts; small agents put it in the last message.
            State::Completed => {
                let artifacts = self.artifacts.filter(|artifacts| !artifacts.is_empty());
                let said = artifacts.or(said).unwrap_or_default();
                Ok(Progress::Ended(reply(text_of(&said), thread)))
            }
            // A question is the agent's answer; the next message of the user answers it.
            State::InputRequired => {
                let said = said.unwrap_or_default();
                Ok(Progress::Ended(reply(text_of(&said), thread)))
            }
            State::Rejected => Ok(Progress::Ended(ModelReply {
                refused: true,
                ..reply(text_of(&said.unwrap_or_default()), thread)
            })),
            State::AuthRequired => Err(ModelError::unavailable("unauthorized", false)),
            State::Failed => Err(ModelError::unavailable("agent_failed", false)),
            State::Canceled => Err(ModelError::unavailable("agent_canceled", false)),
            State::Unknown => Err(malformed()),
        }
    }
}

impl Content {
    /// The reply of an agent that answers without a task.
    fn reply(mut self) -> ModelReply {
        let thread = RemoteThread {
            context_id: self.context_id.take(),
            ..RemoteThread::default()
        };
        reply(text_of(&[self]), thread)
    }
}

fn reply(text: Option<String>, thread: RemoteThread) -> ModelReply {
    ModelReply {
        text,
        thread: Some(thread),
        ..ModelReply::default()
    }
}

/// The texts concatenated; if there are none, the first document.
fn text_of(contents: &[Content]) -> Option<String> {
    let parts = || contents.iter().flat_map(|content| &content.parts);
    let texts: Vec<&str> = parts()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !texts.is_empty() {
        return Some(texts.concat());
    }
    parts().find_map(|part| match part {
        Part::Data { data } => Some(data.to_string()),
        _ => None,
    })
}
