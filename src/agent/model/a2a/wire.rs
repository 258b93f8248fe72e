//! What an A2A agent answers.

use serde::Deserialize;
use serde_json::Value;

use crate::agent::model::endpoint::unavailable;
use crate::domain::agent::ModelReply;
use crate::ports::ModelError;

/// JSON-RPC's own code for a fault inside the server.
const INTERNAL_ERROR: i64 = -32603;

/// How far the agent is.
#[derive(Debug)]
pub enum Progress {
    /// It has answered.
    Ended(ModelReply),
    /// It is still at it.
    Working {
        /// The task to ask for.
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
#[serde(tag = "kind", rename_all = "lowercase")]
enum Outcome {
    Message(Said),
    Task(Task),
}

#[derive(Deserialize)]
struct Said {
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Task {
    id: String,
    status: Status,
    #[serde(default)]
    artifacts: Option<Vec<Said>>,
}

#[derive(Deserialize)]
struct Status {
    state: State,
    #[serde(default)]
    message: Option<Said>,
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

/// What an answer says.
///
/// # Errors
/// It says that nothing will come, or nothing at all.
pub fn read_answer(body: &[u8]) -> Result<Progress, ModelError> {
    let malformed = || unavailable("malformed_reply", true);
    let answer: Answer = serde_json::from_slice(body).map_err(|_| malformed())?;
    if let Some(error) = answer.error {
        let internal = error.code == INTERNAL_ERROR;
        return Err(unavailable("a2a_error", internal));
    }
    match answer.result.ok_or_else(malformed)? {
        Outcome::Message(said) => Ok(ended(text_of(&[said]))),
        Outcome::Task(task) => task.progress(),
    }
}

impl Task {
    fn progress(self) -> Result<Progress, ModelError> {
        let said = self.status.message.map(|message| vec![message]);
        match self.status.state {
            State::Submitted | State::Working => Ok(Progress::Working { task: self.id }),
            // An answer stands in artifacts; small agents leave it in the last message.
            State::Completed => {
                let artifacts = self.artifacts.filter(|artifacts| !artifacts.is_empty());
                Ok(ended(text_of(&artifacts.or(said).unwrap_or_default())))
            }
            // Nobody is there to answer: the question is the agent's decision.
            State::InputRequired => Ok(ended(text_of(&said.unwrap_or_default()))),
            State::Rejected => Ok(Progress::Ended(ModelReply {
                text: text_of(&said.unwrap_or_default()),
                refused: true,
                ..ModelReply::default()
            })),
            State::AuthRequired => Err(unavailable("unauthorized", false)),
            State::Failed => Err(unavailable("agent_failed", false)),
            State::Canceled => Err(unavailable("agent_canceled", false)),
            State::Unknown => Err(unavailable("malformed_reply", true)),
        }
    }
}

fn ended(text: Option<String>) -> Progress {
    Progress::Ended(ModelReply {
        text,
        ..ModelReply::default()
    })
}

/// The texts one after the other; without any, the first document.
fn text_of(said: &[Said]) -> Option<String> {
    let parts = || said.iter().flat_map(|said| &said.parts);
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
