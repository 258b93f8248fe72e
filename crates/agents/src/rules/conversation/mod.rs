//! One invocation of an agent as a state machine.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use touchstone_kit::ids::TaskId;
use touchstone_kit::json::text_of;
use touchstone_openwop::schema::CompiledSchema;
use touchstone_openwop::suite::Fixtures;

use super::attachment::Attachment;
use super::dialogue::{EarlierMessage, MessageRole};
use super::effects::Effects;
use super::failure::FailureReason;
use super::fixtures::{FixtureCursor, RecordedCall, RecordingCursor};
use super::message::{
    Message, ModelReply, ModelRequest, RemoteThread, ResponseSchema, TaskHint, ToolCall,
    ToolDefinition,
};
use super::metering::{OVERHEAD, octets_of_call, octets_of_json};
use super::output::{Answer, read_answer};
use super::workers::worker;

/// Longest call id, in bytes, that is kept from a provider.
const CALL_ID_OCTETS: usize = 64;

/// Limits of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model turns for one message of the user, including the last one.
    pub turns: u32,
    /// Tool calls of all turns together.
    pub tool_calls: u32,
    /// Bytes of the model's replies except its last answer, and of the user's replies: all of them
    /// are sent again with every turn.
    pub octets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns: 16,
            tool_calls: 64,
            octets: 4 << 20,
        }
    }
}

/// Inputs of one invocation, borrowed from its caller.
#[derive(Clone, Copy, Debug)]
pub struct ConversationInput<'a> {
    /// The agent's instructions, verbatim.
    pub prompt: &'a Arc<str>,
    /// The tool allowlist: the tools offered to the model, and the only ones that may be called.
    pub tools: &'a [String],
    pub return_schema: Option<&'a CompiledSchema>,
    pub task: &'a TaskId,
    /// The task's input. A string is sent as it is, anything else as compact JSON.
    pub input: &'a Value,
    /// Files that are sent with the input.
    pub files: &'a [Attachment],
    /// Messages that are sent before the input.
    pub earlier: &'a [EarlierMessage],
    /// Whether the user may say more after an answer.
    pub continues: bool,
    /// Where the answers to tool calls come from.
    pub source: ToolSource<'a>,
    pub temperature: Option<f64>,
    /// Maximum number of tokens of one answer.
    pub max_tokens: Option<u64>,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub enum ToolSource<'a> {
    /// The task's fixtures, if it has any; no live tool is called.
    Fixtures(Option<&'a Fixtures>),
    /// The tool calls that another run recorded. The task's fixtures still answer for scripted workers
    /// and have the memory. A call that was not recorded fails the task.
    Recorded {
        calls: &'a [RecordedCall],
        fixtures: Option<&'a Fixtures>,
    },
    /// Live tools; no fixture is ever mixed with them.
    Live {
        /// The tools of the allowlist that exist on this host.
        names: &'a [String],
        /// Their definitions.
        definitions: &'a [ToolDefinition],
    },
}

/// The result of one tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// None yet: the driver of the conversation must make the call and report its result.
    Live,
    Answered(Value),
    /// The tool reported an error.
    Failed(Value),
    /// The tool cannot be reached.
    Unavailable,
    /// On the allowlist, but this host has no live tool of this name.
    NotOffered,
    /// The tool has side effects, and the host does not allow them.
    EffectRefused,
    /// Not on the allowlist; the call was not made.
    Forbidden,
    /// On the allowlist, but the task has no response for it, or no recorded one.
    FixtureMissing,
    /// The arguments were not a JSON object.
    InvalidArguments,
}

impl ToolOutcome {
    /// The label of a failure, and a message for people.
    pub const fn error(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Answered(_) | Self::Live => None,
            Self::Failed(_) => Some(("tool_failed", "the tool answered with an error")),
            Self::Unavailable => Some(("tool_unavailable", "the tool's server did not answer")),
            Self::NotOffered => Some(("tool_not_offered", "this host has no such live tool")),
            Self::EffectRefused => Some((
                "side_effect_refused",
                "the tool has side effects, which this host does not allow",
            )),
            Self::Forbidden => Some(("forbidden", "the tool is not on the agent's allowlist")),
            Self::FixtureMissing => {
                Some(("fixture_missing", "the task has no response for this call"))
            }
            Self::InvalidArguments => {
                Some(("arguments_not_json", "the arguments are not a JSON object"))
            }
        }
    }

    /// The text the model receives.
    fn content(&self) -> String {
        match self {
            Self::Answered(Value::String(text)) | Self::Failed(Value::String(text)) => text.clone(),
            Self::Answered(value) | Self::Failed(value) => value.to_string(),
            Self::Live => String::new(),
            Self::EffectRefused => {
                json!({"error": "refused", "message": "This tool changes things and was not carried out."})
                    .to_string()
            }
            Self::Forbidden => {
                json!({"error": "forbidden", "message": "This tool is not available to you."})
                    .to_string()
            }
            Self::FixtureMissing | Self::Unavailable | Self::NotOffered => {
                json!({"error": "unavailable", "message": "This tool gave no answer."}).to_string()
            }
            Self::InvalidArguments => {
                json!({"error": "invalid_arguments", "message": "The arguments must be a JSON object."})
                    .to_string()
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Call the model again.
    Call,
    Decided {
        output: Value,
        /// Whether the output satisfies the return schema; `None` without one.
        schema_valid: Option<bool>,
    },
    Failed {
        reason: FailureReason,
        /// The model's text in place of a valid output, if any.
        output: Option<Value>,
        /// Whether that text satisfies the return schema; `None` without a schema or without an
        /// output.
        schema_valid: Option<bool>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The tool calls of this turn, in order, with their results.
    pub tools: Vec<(ToolCall, ToolOutcome)>,
    pub next: Next,
}

#[derive(Debug)]
pub struct Conversation<'a> {
    brief: ConversationInput<'a>,
    request: ModelRequest<'a>,
    octets: usize,
    /// Bytes of the model's replies so far.
    grown: usize,
    fixtures: FixtureCursor<'a>,
    recorded: Option<RecordingCursor<'a>>,
    call_ids: HashSet<String>,
    turns: u32,
    /// Model turns before the user's last message.
    turns_before: u32,
    tool_calls: u32,
    /// The text of the last answer, if the user may say more.
    answer: Option<String>,
}

impl<'a> Conversation<'a> {
    /// Opens the conversation: instructions, memory, earlier messages, task.
    pub fn new(brief: ConversationInput<'a>) -> Self {
        let (fixtures, tools, definitions) = match brief.source {
            ToolSource::Fixtures(fixtures) | ToolSource::Recorded { fixtures, .. } => {
                (fixtures, brief.tools, &[][..])
            }
            ToolSource::Live { names, definitions } => (None, names, definitions),
        };
        let recorded = match brief.source {
            ToolSource::Recorded { calls, .. } => Some(RecordingCursor::new(calls)),
            ToolSource::Fixtures(_) | ToolSource::Live { .. } => None,
        };
        let (responses, memory) =
            fixtures.map_or((&[][..], &[][..]), |f| (&f.tool_responses, &f.memory_seed));
        let schema = brief.return_schema.map(CompiledSchema::source);
        let names: usize = tools.iter().map(|name| name.len() + OVERHEAD).sum();
        let described: usize = definitions.iter().map(octets_of_definition).sum();
        let mut conversation = Self {
            brief,
            request: ModelRequest {
                messages: Vec::with_capacity(3),
                tools,
                definitions,
                response_schema: schema.map(ResponseSchema::Read),
                temperature: brief.temperature,
                max_tokens: brief.max_tokens,
                task: Some(TaskHint {
                    id: brief.task,
                    input: brief.input,
                    turn: 0,
                }),
                activity: None,
                thread: brief.continues.then(RemoteThread::default),
            },
            octets: names + described + schema.map_or(0, octets_of_json),
            grown: 0,
            fixtures: FixtureCursor::new(responses),
            recorded,
            call_ids: HashSet::new(),
            turns: 0,
            turns_before: 0,
            tool_calls: 0,
            answer: None,
        };
        conversation.push(Message::System(brief.prompt.clone()));
        if !memory.is_empty() {
            conversation.push(Message::System(memory_message(memory).into()));
        }
        for message in brief.earlier {
            conversation.push(message_of(message));
        }
        let text: Arc<str> = match brief.input {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        conversation.push(match brief.files {
            [] => Message::User(text),
            files => Message::UserWithFiles {
                text,
                files: files.into(),
            },
        });
        conversation
    }

    /// Continues after an answer with the user's next message.
    pub fn reply(&mut self, text: &str) -> Next {
        let answer = self.answer.take();
        self.grown += text.len() + answer.as_ref().map_or(0, String::len);
        if self.grown > self.brief.limits.octets {
            return self.failed(FailureReason::ContextOverflow, None);
        }
        self.push(Message::Assistant {
            text: answer,
            tool_calls: Vec::new(),
        });
        self.push(Message::User(text.into()));
        self.turns_before = self.turns;
        if let Some(task) = &mut self.request.task {
            task.turn += 1;
        }
        Next::Call
    }

    /// The next request to the model.
    pub fn request(&self) -> &ModelRequest<'a> {
        &self.request
    }

    /// Sets the activity id of the next model call.
    pub fn intend(&mut self, activity: String) {
        self.request.activity = Some(activity);
    }

    /// Approximate size in bytes of the next request, wire format excluded.
    pub fn request_octets(&self) -> usize {
        self.octets
    }

    /// Processes a model reply.
    pub fn step(&mut self, reply: ModelReply) -> Step {
        self.turns += 1;
        if self.request.thread.is_some() && reply.thread.is_some() {
            self.request.thread = reply.thread;
        }
        let mut tools = Vec::new();
        let next = if reply.refused {
            self.failed(FailureReason::Refused, reply.text)
        } else if reply.truncated {
            // A truncated answer may hold half a tool call, so none of its calls is made.
            self.failed(FailureReason::Truncated, reply.text)
        } else if !reply.tool_calls.is_empty() {
            self.run_tools(reply.text, reply.tool_calls, &mut tools)
        } else {
            self.decide(reply.text)
        };
        Step { tools, next }
    }

    /// Ends a conversation whose request the endpoint rejected.
    pub fn rejected(&self, reason: FailureReason) -> Next {
        self.failed(reason, None)
    }

    fn decide(&mut self, text: Option<String>) -> Next {
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return self.failed(FailureReason::EmptyAnswer, None);
        };
        self.answer = self.brief.continues.then(|| text.clone());
        let Some(schema) = self.brief.return_schema else {
            return Next::Decided {
                output: Value::String(text),
                schema_valid: None,
            };
        };
        let (reason, output) = match read_answer(&text, schema) {
            Answer::Valid(output) => {
                return Next::Decided {
                    output,
                    schema_valid: Some(true),
                };
            }
            Answer::Invalid(output) => (FailureReason::OutputSchemaViolation, output),
            Answer::NotJson(output) => (FailureReason::OutputNotJson, output),
        };
        Next::Failed {
            reason,
            output: Some(output),
            schema_valid: Some(false),
        }
    }

    fn run_tools(
        &mut self,
        text: Option<String>,
        mut calls: Vec<ToolCall>,
        done: &mut Vec<(ToolCall, ToolOutcome)>,
    ) -> Next {
        for (n, call) in calls.iter_mut().enumerate() {
            self.name_call(call, n);
        }
        let mut answers = Vec::with_capacity(calls.len());
        for call in &calls {
            if self.tool_calls >= self.brief.limits.tool_calls {
                return self.failed(FailureReason::ToolCallLimit, None);
            }
            self.tool_calls += 1;
            let outcome = self.run_tool(call);
            answers.push(Message::Tool {
                call_id: call.id.clone(),
                content: outcome.content(),
            });
            let is_missing = outcome == ToolOutcome::FixtureMissing;
            done.push((call.clone(), outcome));
            if is_missing && self.recorded.is_some() {
                return self.failed(FailureReason::CallNotRecorded, None);
            }
        }
        if self.turns - self.turns_before >= self.brief.limits.turns {
            return self.failed(FailureReason::TurnLimit, None);
        }
        let output: usize = calls.iter().map(octets_of_call).sum();
        self.grown += output + text.as_ref().map_or(0, String::len);
        if self.grown > self.brief.limits.octets {
            return self.failed(FailureReason::ContextOverflow, None);
        }
        self.push(Message::Assistant {
            text,
            tool_calls: calls,
        });
        for answer in answers {
            self.push(answer);
        }
        Next::Call
    }

    fn run_tool(&mut self, call: &ToolCall) -> ToolOutcome {
        if !self.brief.tools.contains(&call.tool) {
            return ToolOutcome::Forbidden;
        }
        let Ok(arguments @ Value::Object(_)) = &call.arguments else {
            return ToolOutcome::InvalidArguments;
        };
        if let ToolSource::Live { .. } = self.brief.source {
            let effects = self.request.definition(&call.tool).map(|it| it.effects);
            return match effects {
                None => ToolOutcome::NotOffered,
                Some(Effects::Refused) => ToolOutcome::EffectRefused,
                Some(Effects::None | Effects::Allowed) => ToolOutcome::Live,
            };
        }
        if let Some(recorded) = &mut self.recorded
            && worker(&call.tool).is_none()
        {
            return match recorded.next(&call.tool, arguments) {
                Some(found) if found.failed => ToolOutcome::Failed(found.outcome.clone()),
                Some(found) => ToolOutcome::Answered(found.outcome.clone()),
                None => ToolOutcome::FixtureMissing,
            };
        }
        match self.fixtures.next(&call.tool) {
            Some(response) => ToolOutcome::Answered(response.clone()),
            None => ToolOutcome::FixtureMissing,
        }
    }

    /// Records the result of a live call of the last step.
    pub fn record_tool_result(&mut self, call_id: &str, outcome: &ToolOutcome) {
        let answer = self
            .request
            .messages
            .iter_mut()
            .rev()
            .find_map(|message| match message {
                Message::Tool {
                    call_id: id,
                    content,
                } if id == call_id => Some(content),
                _ => None,
            });
        if let Some(content) = answer {
            self.octets = self.octets.saturating_sub(content.len());
            *content = outcome.content();
            self.octets += content.len();
        }
    }

    /// Uses a provider's call id if it is valid in an event and new in this conversation. Some
    /// servers restart their numbering in every turn, and some send no id.
    fn name_call(&mut self, call: &mut ToolCall, n: usize) {
        let usable = (1..=CALL_ID_OCTETS).contains(&call.id.len())
            && call
                .id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if usable && self.call_ids.insert(call.id.clone()) {
            return;
        }
        call.id = (0..)
            .map(|again: u32| match again {
                0 => format!("call_{}_{n}", self.turns),
                _ => format!("call_{}_{n}_{again}", self.turns),
            })
            .find(|id| !self.call_ids.contains(id))
            .unwrap_or_default();
        self.call_ids.insert(call.id.clone());
    }

    fn push(&mut self, message: Message) {
        self.octets += octets_of(&message);
        self.request.messages.push(message);
    }

    fn failed(&self, reason: FailureReason, output: Option<String>) -> Next {
        Next::Failed {
            reason,
            output: output.filter(|text| !text.is_empty()).map(Value::String),
            schema_valid: None,
        }
    }
}

fn message_of(message: &EarlierMessage) -> Message {
    let text = message.content.as_str();
    match message.role {
        MessageRole::System => Message::System(text.into()),
        MessageRole::User => Message::User(text.into()),
        MessageRole::Assistant => Message::Assistant {
            text: Some(text.to_owned()),
            tool_calls: Vec::new(),
        },
    }
}

/// Sends memory as a separate message, so that the agent's instructions stay verbatim.
fn memory_message(entries: &[Map<String, Value>]) -> String {
    let mut text = String::from("Memory (read-only snapshot, one entry a line):");
    for entry in entries {
        let entry = text_of(entry);
        let _ = write!(text, "\n{entry}");
    }
    text
}

fn octets_of_definition(definition: &ToolDefinition) -> usize {
    let description = definition.description.as_ref().map_or(0, String::len);
    description + octets_of_json(&definition.input_schema)
}

/// Approximate size of a message in bytes, for estimates.
pub fn octets_of(message: &Message) -> usize {
    let text = match message {
        Message::System(text) | Message::User(text) => text.len(),
        Message::UserWithFiles { text, files } => {
            text.len() + files.iter().map(Attachment::octets).sum::<usize>()
        }
        Message::Tool { call_id, content } => call_id.len() + content.len(),
        Message::Assistant { text, tool_calls } => {
            text.as_ref().map_or(0, String::len)
                + tool_calls.iter().map(octets_of_call).sum::<usize>()
        }
    };
    text + OVERHEAD
}

#[cfg(test)]
mod tests;
