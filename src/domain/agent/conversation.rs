//! One invocation of an agent as a state machine.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::domain::ids::TaskId;
use crate::protocol::openwop::suite::Fixtures;
use crate::protocol::schema::CompiledSchema;

use super::effects::Effects;
use super::failure::FailureReason;
use super::fixtures::FixtureCursor;
use super::message::{
    Message, ModelReply, ModelRequest, ResponseSchema, TaskHint, ToolCall, ToolDefinition,
};
use super::metering::{OVERHEAD, octets_of_call, octets_of_json};
use super::output::{Answer, read_answer};

/// Longest call id that is taken over from a provider.
const CALL_ID_OCTETS: usize = 64;

/// Bounds of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model turns, the last one included.
    pub turns: u32,
    /// Tool calls in all turns together.
    pub tool_calls: u32,
    /// Bytes of what the model says apart from its last answer: all of it is sent again with every turn.
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

/// Everything an invocation is about, borrowed from whoever asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The agent's instructions, put word for word.
    pub prompt: &'a Arc<str>,
    /// Its allowlist: what the model is offered, and all that may be called.
    pub tools: &'a [String],
    /// Its return schema.
    pub return_schema: Option<&'a CompiledSchema>,
    /// The task.
    pub task: &'a TaskId,
    /// Its input. A string is put as it is, anything else as compact JSON.
    pub input: &'a Value,
    /// Who answers its tool calls.
    pub source: ToolSource<'a>,
    /// Sampling temperature of the run.
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// Bounds of the invocation.
    pub limits: Limits,
}

/// Who answers tool calls.
#[derive(Clone, Copy, Debug)]
pub enum ToolSource<'a> {
    /// Fixtures, if the task has any: nothing goes live.
    Fixtures(Option<&'a Fixtures>),
    /// The tools themselves; no fixture is ever used beside them.
    Live {
        /// Those of the allowlist that there are.
        names: &'a [String],
        /// What is known of them.
        definitions: &'a [ToolDefinition],
    },
}

/// What became of one tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// Nothing yet: whoever drives the conversation is to make the call, and to say what came of it.
    Live,
    /// The fixture's response, or the tool's.
    Answered(Value),
    /// The tool says that it could not.
    Failed(Value),
    /// The tool is out of reach.
    Unavailable,
    /// On the allowlist, but this host has no such tool.
    NotOffered,
    /// It changes something, and is not let.
    EffectRefused,
    /// Not on the allowlist; did not run.
    Forbidden,
    /// On the allowlist, but the task has no response for it.
    FixtureMissing,
    /// The arguments were no JSON object.
    InvalidArguments,
}

impl ToolOutcome {
    /// The label of a failure, and the same in words.
    pub const fn error(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Answered(_) | Self::Live => None,
            Self::Failed(_) => Some(("tool_failed", "the tool answered with an error")),
            Self::Unavailable => Some(("tool_unavailable", "the tool's server gave no answer")),
            Self::NotOffered => Some(("tool_not_offered", "this host has no such live tool")),
            Self::EffectRefused => Some((
                "side_effect_refused",
                "the tool changes something, which this host does not allow",
            )),
            Self::Forbidden => Some(("forbidden", "the tool is not on the agent's allowlist")),
            Self::FixtureMissing => {
                Some(("fixture_missing", "the task has no response for this tool"))
            }
            Self::InvalidArguments => {
                Some(("arguments_not_json", "the arguments are no JSON object"))
            }
        }
    }

    /// What the model is told.
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

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Ask the model again.
    Call,
    /// The agent decided.
    Decided {
        /// Its output.
        output: Value,
        /// Whether it satisfies the return schema; `None` without one.
        schema_valid: Option<bool>,
    },
    /// The agent failed.
    Failed {
        /// Why.
        reason: FailureReason,
        /// What it said instead of a valid output, if anything.
        said: Option<Value>,
        /// Whether that satisfies the return schema; `None` without one or without an output.
        schema_valid: Option<bool>,
    },
}

/// The result of one reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The tool calls of this turn, in order, with what became of them.
    pub tools: Vec<(ToolCall, ToolOutcome)>,
    /// What comes next.
    pub next: Next,
}

/// The conversation of one invocation.
#[derive(Debug)]
pub struct Conversation<'a> {
    brief: Brief<'a>,
    request: ModelRequest<'a>,
    octets: usize,
    /// Those that the model has said.
    grown: usize,
    fixtures: FixtureCursor<'a>,
    call_ids: HashSet<String>,
    turns: u32,
    tool_calls: u32,
}

impl<'a> Conversation<'a> {
    /// Opens the conversation: instructions, memory, task.
    pub fn new(brief: Brief<'a>) -> Self {
        let (fixtures, tools, definitions) = match brief.source {
            ToolSource::Fixtures(fixtures) => (fixtures, brief.tools, &[][..]),
            ToolSource::Live { names, definitions } => (None, names, definitions),
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
                }),
                activity: None,
            },
            octets: names + described + schema.map_or(0, octets_of_json),
            grown: 0,
            fixtures: FixtureCursor::new(responses),
            call_ids: HashSet::new(),
            turns: 0,
            tool_calls: 0,
        };
        conversation.say(Message::System(brief.prompt.clone()));
        if !memory.is_empty() {
            conversation.say(Message::System(memory_message(memory).into()));
        }
        conversation.say(Message::User(match brief.input {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        }));
        conversation
    }

    /// What to ask the model now.
    pub fn request(&self) -> &ModelRequest<'a> {
        &self.request
    }

    /// Gives the call that comes next its name as an effect.
    pub fn intend(&mut self, activity: String) {
        self.request.activity = Some(activity);
    }

    /// Octets of what the model is asked now, wire format aside.
    pub fn request_octets(&self) -> usize {
        self.octets
    }

    /// Takes a reply.
    pub fn step(&mut self, reply: ModelReply) -> Step {
        self.turns += 1;
        let mut tools = Vec::new();
        let next = if reply.refused {
            self.failed(FailureReason::Refused, reply.text)
        } else if reply.truncated {
            // A cut answer may hold half a tool call: nothing of it is carried out.
            self.failed(FailureReason::Truncated, reply.text)
        } else if !reply.tool_calls.is_empty() {
            self.run_tools(reply.text, reply.tool_calls, &mut tools)
        } else {
            self.decide(reply.text)
        };
        Step { tools, next }
    }

    /// The end of a conversation whose request the endpoint would not take.
    pub fn rejected(&self, reason: FailureReason) -> Next {
        self.failed(reason, None)
    }

    fn decide(&self, text: Option<String>) -> Next {
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return self.failed(FailureReason::EmptyAnswer, None);
        };
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
            said: Some(output),
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
            done.push((call.clone(), outcome));
        }
        if self.turns >= self.brief.limits.turns {
            return self.failed(FailureReason::TurnLimit, None);
        }
        let said: usize = calls.iter().map(octets_of_call).sum();
        self.grown += said + text.as_ref().map_or(0, String::len);
        if self.grown > self.brief.limits.octets {
            return self.failed(FailureReason::ContextOverflow, None);
        }
        self.say(Message::Assistant {
            text,
            tool_calls: calls,
        });
        for answer in answers {
            self.say(answer);
        }
        Next::Call
    }

    fn run_tool(&mut self, call: &ToolCall) -> ToolOutcome {
        if !self.brief.tools.contains(&call.tool) {
            return ToolOutcome::Forbidden;
        }
        if !matches!(call.arguments, Ok(Value::Object(_))) {
            return ToolOutcome::InvalidArguments;
        }
        if let ToolSource::Live { .. } = self.brief.source {
            let effects = self.request.definition(&call.tool).map(|it| it.effects);
            return match effects {
                None => ToolOutcome::NotOffered,
                Some(Effects::Refused) => ToolOutcome::EffectRefused,
                Some(Effects::None | Effects::Allowed) => ToolOutcome::Live,
            };
        }
        match self.fixtures.next(&call.tool) {
            Some(response) => ToolOutcome::Answered(response.clone()),
            None => ToolOutcome::FixtureMissing,
        }
    }

    /// Takes what came of a live call of the last step.
    pub fn carried_out(&mut self, call_id: &str, outcome: &ToolOutcome) {
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

    /// Keeps a provider's call id if it can stand in an event and is new in this conversation: some servers number their
    /// calls anew in every turn, and some leave the id out.
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

    fn say(&mut self, message: Message) {
        self.octets += octets_of(&message);
        self.request.messages.push(message);
    }

    fn failed(&self, reason: FailureReason, said: Option<String>) -> Next {
        Next::Failed {
            reason,
            said: said.filter(|text| !text.is_empty()).map(Value::String),
            schema_valid: None,
        }
    }
}

/// Memory as one message of its own, so that the agent's instructions stay word for word.
fn memory_message(entries: &[Map<String, Value>]) -> String {
    let mut text = String::from("Memory (read-only snapshot, one entry a line):");
    for entry in entries {
        let entry = serde_json::to_string(entry).unwrap_or_default();
        let _ = write!(text, "\n{entry}");
    }
    text
}

fn octets_of_definition(definition: &ToolDefinition) -> usize {
    let description = definition.description.as_ref().map_or(0, String::len);
    description + octets_of_json(&definition.input_schema)
}

/// About the octets of a message, for estimates.
pub fn octets_of(message: &Message) -> usize {
    let text = match message {
        Message::System(text) | Message::User(text) => text.len(),
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
