//! The agent loop as pure rules: what is said to the model, what its tool calls get back, when it is done.
//!
//! [`Conversation`] is the state machine (RFC 0072 live runtime; OpenWOP agent-evaluation, fixtures): it is stepped with a
//! model's reply and says what comes next. It knows no endpoint, no clock and no event log; the runtime around it does.

mod circuit;
mod concurrency;
mod conversation;
mod effects;
mod failure;
mod fixtures;
mod message;
mod metering;
mod output;
mod retry;
pub mod workers;

pub use circuit::{Admission, Circuit, FIRST_BREAK, LONGEST_BREAK, OPENS_AFTER};
pub use concurrency::Concurrency;
pub use conversation::{
    Brief, Conversation, Limits, Next, Step, ToolOutcome, ToolSource, octets_of,
};
pub use effects::{Declared, Effects, Hints};
pub use failure::{BUDGET_EXHAUSTED, FailureReason, LOOP_LIMIT_EXCEEDED, Rejection};
pub use fixtures::FixtureCursor;
pub use message::{
    Message, ModelReply, ModelRequest, ResponseSchema, TaskHint, TokenUsage, ToolCall,
    ToolDefinition,
};
pub use metering::{ASSUMED_OUTPUT_TOKENS, estimate, usage_from_size};
pub use output::{Answer, read_answer};
pub use retry::RetryPolicy;
