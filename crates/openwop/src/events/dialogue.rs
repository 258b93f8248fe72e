//! Payloads of conversations of several turns, and of attached files. Those of conversations
//! contain task content.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use touchstone_kit::headers::media_type::MediaType;

/// `touchstone.user.opens`: a simulated user is asked for the first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserOpens {}

/// `touchstone.turn.answered`: the agent's answer to one message of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnAnswered {
    /// From 1, which answers the task's input, or the first message of a user who opens.
    pub turn: u32,
    /// The agent's output.
    pub answer: Value,
}

/// `touchstone.user.said`: the next message of the user, from a script or a simulated user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserSaid {
    /// The turn that begins with it: from 2, or 1 if the user opens.
    pub turn: u32,
    pub text: String,
}

/// `touchstone.user.stopped`: a simulated user ended the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserStopped {
    /// The last turn.
    pub turn: u32,
    /// [`DONE`](Self::DONE) or [`MAX_TURNS`](Self::MAX_TURNS).
    pub reason: String,
    /// Why, in the user's words; empty if it gave none.
    pub note: String,
}

impl UserStopped {
    /// The user stopped by itself.
    pub const DONE: &'static str = "done";
    /// The user has no replies left.
    pub const MAX_TURNS: &'static str = "max_turns";
}

/// `touchstone.task.attached`: the files that are sent with the task's input. Contains no content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAttached {
    pub files: Vec<AttachedFile>,
}

/// A file that is sent with the task's input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachedFile {
    pub media_type: MediaType,
    /// In lower-case hexadecimal.
    pub sha256: String,
    pub size_bytes: u64,
}
