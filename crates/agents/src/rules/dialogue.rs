//! The messages of a user beside the input of a task: those before it, and a script or a
//! simulated user after it.

use serde::{Deserialize, Serialize};

/// Longest text of a user, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Most messages before the input, and most scripted turns.
pub const MAX_MESSAGES: usize = 200;
/// Most replies of a simulated user.
pub const MAX_REPLIES: u32 = 50;

/// A message that is sent before the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierMessage {
    pub role: MessageRole,
    pub content: String,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    System,
    User,
    Assistant,
}

impl MessageRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A user that a model plays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulatedUser {
    /// The user's aim, and all facts that the user knows.
    pub goal: String,
    /// Who the user is and how the user writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Whether the user writes the first message. The input is not sent then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens: bool,
    /// When the user ends the conversation; when the goal is reached if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Most replies of the user, 1..=[`MAX_REPLIES`]; the first message is not counted.
    #[serde(default = "default_replies")]
    pub max_turns: u32,
    /// Most that the user's model may cost for one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

const fn default_replies() -> u32 {
    8
}
