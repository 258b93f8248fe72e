//! The agent loop as pure rules: messages to the model, results of its tool calls, and when the
//! loop ends.
//!
//! [`Conversation`] is the state machine (RFC 0072 live runtime; OpenWOP agent-evaluation,
//! fixtures): each model reply advances it by one step, which returns the next action. It has no
//! access to endpoints, the clock or the event log; the runtime around it has.

pub mod activity;
pub mod attachment;
mod conversation;
pub mod dialogue;
pub mod distribution;
mod effects;
mod endpoint;
mod failure;
mod fixtures;
pub mod judging;
mod message;
mod metering;
mod output;
pub mod prices;
pub mod reached_by;
pub mod similarity;
pub mod simulated_user;
pub mod worker_labels;
pub mod workers;

pub use conversation::{
    Conversation, ConversationInput, Limits, Next, Step, ToolOutcome, ToolSource, octets_of,
};
pub use effects::{Declared, Effects, Hints};
pub use endpoint::circuit::{Admission, Circuit, FIRST_BREAK, LONGEST_BREAK, OPENS_AFTER};
pub use endpoint::concurrency::Concurrency;
pub use endpoint::outcome::CallOutcome;
pub use endpoint::retry::RetryPolicy;
pub use endpoint::{COMMAND_PROVIDER, EndpointPin, ModelIdentity, ModelPin};
pub use failure::{
    BUDGET_EXHAUSTED, FailureReason, LOOP_LIMIT_EXCEEDED, Rejection, TASK_TIMEOUT,
    WORKERS_REQUIRED, WORKERS_UNREACHABLE,
};
pub use fixtures::{FixtureCursor, RecordedCall, RecordingCursor};
pub use message::{
    Message, ModelReply, ModelRequest, RemoteThread, ResponseFacts, ResponseSchema, TaskHint,
    TokenUsage, ToolCall, ToolDefinition,
};
pub use metering::{ASSUMED_OUTPUT_TOKENS, estimate, usage_from_size};
pub use output::{Answer, read_answer};
