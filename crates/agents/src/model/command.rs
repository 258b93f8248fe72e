//! A local command that answers for an agent, one JSON document per line (docs/agent-commands.md).
//!
//! One process serves all tasks: it reads questions from its standard input and writes answers to
//! its standard output in any order. It is started with the first question, and again after it has
//! ended. The command line is given by the caller on the command line, or by an operator in the
//! configuration of stress tests or of a worker. A request can name a configured command but cannot supply one, so
//! API clients cannot execute other commands.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::line_process::{LineAnswer, LineCommand, LineLimits, Unanswered};
use crate::model::wire::arguments::read_arguments;
use crate::model::wire::messages::messages_of;
use crate::model::wire::reported;
use crate::model::wire::reported::{Count, Reported};
use crate::ports::model::{Model, ModelError, ModelInfo};
use crate::rules::prices::ModelPrice;
use crate::rules::{COMMAND_PROVIDER, EndpointPin};
use crate::rules::{
    Message, ModelReply, ModelRequest, ResponseSchema, RetryPolicy, TaskHint, TokenUsage, ToolCall,
    ToolDefinition,
};
use touchstone_host::otlp::span;
use touchstone_kit::headers::trace_context::TraceContext;
use touchstone_kit::hex::hex_prefix;
use touchstone_kit::integrity;

/// Maximum bytes of a line.
const LONGEST_LINE: u64 = 8 << 20;
/// Maximum questions in flight.
const MAX_CONCURRENCY: u32 = 8;
/// Timeout of an answer. Local agents may be slow. A question is not asked again after it: a
/// command that hangs would delay its task by the same time for every attempt.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// Time after [`TIMEOUT`] for the other limits of a call, which would be retried.
const GRACE: Duration = Duration::from_secs(5);

const PROVIDER: &str = COMMAND_PROVIDER;
/// The command ended, or could not be started.
const EXITED: &str = "agent_exited";
/// The command reported a failure.
const FAILED: &str = "agent_failed";
/// The command did not answer in time.
const LATE: &str = "agent_timeout";
/// The command wrote a line that is not an answer.
const MALFORMED: &str = "malformed_reply";

/// Timeout for the command to report its identity.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// A command as a model.
pub struct CommandModel {
    command: LineCommand<Answer>,
    info: ModelInfo,
}

impl std::fmt::Debug for CommandModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandModel")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl CommandModel {
    /// The shell runs the command line. It may contain secrets, so runs record its digest.
    pub fn new(command: impl Into<String>) -> Self {
        let command = command.into();
        let digest = hex_prefix(&Sha256::digest(&command), 12);
        let info = ModelInfo {
            provider: PROVIDER.to_owned(),
            model: format!("{PROVIDER}-{digest}"),
            price: None,
            max_concurrency: MAX_CONCURRENCY,
            timeout: TIMEOUT + GRACE,
            retry: RetryPolicy::default(),
        };
        let limits = LineLimits {
            longest_line: LONGEST_LINE,
            memory: None,
        };
        Self {
            command: LineCommand::new(command, limits),
            info,
        }
    }

    /// The command as a model of this name. Runs then record the name instead of a digest.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.info.model);
        self
    }

    /// The command with a price for the tokens that it reports.
    #[must_use]
    pub fn priced(mut self, price: Option<ModelPrice>) -> Self {
        self.info.price = price;
        self
    }

    /// The endpoint identity that a run pins.
    pub fn endpoint(&self) -> EndpointPin {
        EndpointPin {
            url: None,
            digest: integrity::of(self.command.command().as_bytes()),
        }
    }

    async fn ask(
        &self,
        question: impl FnOnce(u64) -> serde_json::Result<Vec<u8>>,
    ) -> Result<Answer, ModelError> {
        self.command.ask(question).await.map_err(|why| match why {
            Unanswered::Exited => ModelError::unavailable(EXITED, true),
            Unanswered::Malformed => ModelError::unavailable(MALFORMED, true),
            Unanswered::Unwritable => ModelError::unavailable("request_not_serialisable", false),
        })
    }
}

#[async_trait]
impl Model for CommandModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let question = |id| serde_json::to_vec(&Question::of(id, request));
        match tokio::time::timeout(TIMEOUT, self.ask(question)).await {
            Ok(answer) => answer?.reply(),
            Err(_) => Err(ModelError::unavailable(LATE, false)),
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// A command that does not know the question may answer anything, or end. It then has no
    /// identity, and is started again.
    async fn adapter(&self) -> Option<Value> {
        let asked = self.ask(|id| serde_json::to_vec(&Question::identify(id)));
        let answer = tokio::time::timeout(IDENTIFY_TIMEOUT, asked)
            .await
            .ok()?
            .ok()?;
        let mut report = serde_json::Map::from_iter([("identity".to_owned(), answer.identity?)]);
        report.extend(
            answer
                .configuration
                .map(|it| ("configuration".to_owned(), it)),
        );
        Some(Value::Object(report))
    }
}

impl LineAnswer for Answer {
    fn parse(line: &[u8]) -> Option<Self> {
        reported::parse(line)
    }

    fn id(&self) -> u64 {
        self.id
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    id: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    identify: bool,
    /// In a conversation, the user's newest message.
    input: Option<Cow<'a, Value>>,
    /// Number of user messages after the task's input.
    #[serde(skip_serializing_if = "is_zero")]
    turn: u32,
    messages: Vec<Value>,
    /// The files of the task, with their content in Base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Value>,
    tools: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    definitions: &'a [ToolDefinition],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_schema: Option<ResponseSchema<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    /// `traceparent` and `tracestate`, if the run has a trace.
    #[serde(flatten)]
    trace: Option<TraceContext>,
}

impl<'a> Question<'a> {
    fn of(id: u64, request: &'a ModelRequest<'_>) -> Self {
        Self {
            id,
            identify: false,
            input: request.task.map(|task| newest_message(task, request)),
            turn: request.task.map_or(0, |task| task.turn),
            attachments: attachments_of(request),
            messages: messages_of(request, |call| match &call.arguments {
                Ok(arguments) => arguments.clone(),
                Err(unparsed) => Value::String(unparsed.clone()),
            }),
            tools: request.tools,
            definitions: request.definitions,
            response_schema: request.response_schema,
            temperature: request.temperature,
            max_tokens: request.max_tokens,
            trace: span::context(),
        }
    }

    /// The identity question. The members of other questions are present and empty, for commands
    /// that read them first.
    fn identify(id: u64) -> Self {
        Self {
            id,
            identify: true,
            input: None,
            turn: 0,
            messages: Vec::new(),
            attachments: Vec::new(),
            tools: &[],
            definitions: &[],
            response_schema: None,
            temperature: None,
            max_tokens: None,
            trace: None,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The files of a request with their content.
fn attachments_of(request: &ModelRequest<'_>) -> Vec<Value> {
    let files = request.messages.iter().filter_map(|it| match it {
        Message::UserWithFiles { files, .. } => Some(files),
        _ => None,
    });
    let with_content = files.flat_map(|files| files.iter()).map(|file| {
        let mut document = file.reference();
        if let Some(members) = document.as_object_mut() {
            members.insert("data".to_owned(), Value::from(&*file.base64));
        }
        document
    });
    with_content.collect()
}

/// The last message of the user: the task's input, or a later message of a conversation.
fn newest_message<'a>(task: TaskHint<'a>, request: &ModelRequest<'_>) -> Cow<'a, Value> {
    let said = request.messages.iter().rev().find_map(|it| match it {
        Message::User(text) | Message::UserWithFiles { text, .. } => Some(Value::from(&**text)),
        _ => None,
    });
    match said {
        Some(said) if task.turn > 0 => Cow::Owned(said),
        _ => Cow::Borrowed(task.input),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    id: u64,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    tool_calls: Vec<Call>,
    #[serde(default, deserialize_with = "reported::object")]
    usage: Reported<Usage>,
    #[serde(default)]
    refused: bool,
    #[serde(default)]
    error: Option<Value>,
    /// The command's identity, if it was asked for it.
    #[serde(default)]
    identity: Option<Value>,
    /// The command's configuration, if it was asked for it.
    #[serde(default)]
    configuration: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    tool: String,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Usage {
    input_tokens: Count,
    output_tokens: Count,
}

impl Usage {
    fn tokens(self) -> Reported<TokenUsage> {
        match (self.input_tokens, self.output_tokens) {
            (Reported::Valid(input), Reported::Valid(output)) => Reported::Valid(TokenUsage {
                input: input.0,
                output: output.0,
                cached_input: None,
            }),
            _ => Reported::Invalid,
        }
    }
}

impl Answer {
    fn reply(self) -> Result<ModelReply, ModelError> {
        // The failure's text may be anything, so it is not passed on.
        if self.error.is_some() {
            return Err(ModelError::unavailable(FAILED, false));
        }
        let usage = self.usage.and_then(Usage::tokens);
        Ok(ModelReply {
            text: self.output.map(|output| match output {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            tool_calls: self
                .tool_calls
                .into_iter()
                .map(|call| ToolCall {
                    id: call.id.unwrap_or_default(),
                    tool: call.tool,
                    arguments: read_arguments(call.arguments),
                })
                .collect(),
            usage_invalid: matches!(usage, Reported::Invalid),
            usage: usage.valid(),
            refused: self.refused,
            ..ModelReply::default()
        })
    }
}
