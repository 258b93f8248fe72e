//! The facts of an attempt as a worker reports them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchstone_agents::ports::model::EndpointHealth;

use super::{MAX_FRAMES, Message, Proof, Unreadable, check_most};

/// One fact of an attempt. Facts are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    Event {
        kind: String,
        /// JSON text.
        payload: String,
        /// Index of the event of this attempt that caused it, from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<u64>,
    },
    /// The usage of a call whose estimate was reserved.
    Settled { call: u64, used: Amount },
    /// A call that the question with this number allowed has ended. No health if it was cancelled.
    Called {
        call: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        health: Option<EndpointHealth>,
    },
    /// The attempt has ended. Always the last fact.
    Ended(Ending),
    /// A part of the JSON text of a fact that is larger than a message. The parts follow each other
    /// without other facts between, and the first one is the first fact of its message.
    Part {
        text: String,
        /// In the first part: bytes of the whole text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<usize>,
    },
}

/// Tokens, and a cost in 10⁻⁹ USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub tokens: u64,
    pub nano_usd: u64,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub end: End,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    pub latency_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Decided {
        #[serde(with = "super::text")]
        output: Value,
    },
    Failed {
        reason: String,
    },
    Unjudged {
        reason: String,
    },
}

/// What a worker waits for when it sends facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Await {
    /// The owner has recorded them.
    Recorded,
    /// The owner has recorded them, and a call may be made.
    MayCall,
    /// They are durable.
    Durable,
}

/// Facts of one attempt, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    #[serde(flatten)]
    pub proof: Proof,
    /// Number of the first fact.
    pub from: u64,
    pub frames: Vec<Frame>,
    pub until: Await,
}

impl Message for Facts {
    const NAME: &'static str = "facts";

    fn check(&self) -> Result<(), Unreadable> {
        self.proof.check()?;
        check_most("frames", self.frames.len(), MAX_FRAMES)
    }
}

/// Facts that come with a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewFacts {
    /// Number of the first fact.
    pub from: u64,
    pub frames: Vec<Frame>,
}

impl NewFacts {
    pub(super) fn check(&self) -> Result<(), Unreadable> {
        check_most("facts.frames", self.frames.len(), MAX_FRAMES)?;
        if self.frames.iter().any(|it| matches!(it, Frame::Ended(_))) {
            let (field, problem) = ("facts.frames", "must not contain the end of the attempt");
            return Err(Unreadable::Field { field, problem });
        }
        let is_part = |frame: &Frame| matches!(frame, Frame::Part { .. });
        if self.frames.iter().any(is_part) {
            let (field, problem) = ("facts.frames", "must not contain parts of a fact");
            return Err(Unreadable::Field { field, problem });
        }
        Ok(())
    }
}

/// The answer to [`Facts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Received {
    /// All facts before this number are recorded.
    Recorded { next: u64 },
    /// The attempt does not count any more.
    Superseded,
}

impl Message for Received {
    const NAME: &'static str = "an answer to facts";

    fn check(&self) -> Result<(), Unreadable> {
        Ok(())
    }
}
