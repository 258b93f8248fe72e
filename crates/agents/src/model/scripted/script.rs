//! The two forms of a script file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Why a file is not a script.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("line {line}, column {column}: {problem}")]
    Shape {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        problem: String,
    },
    /// A rule has neither turns nor an echo, or both.
    #[error("rules[{0}] needs either \"turns\" or \"echo\"")]
    Rule(usize),
    /// A turn has both an output and a text.
    #[error("rules[{0}] has a turn with both \"output\" and \"text\"; keep one of them")]
    Turn(usize),
}

#[derive(Debug, Default)]
pub struct Script {
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default)]
    pub when: Condition,
    #[serde(default)]
    pub turns: Vec<Turn>,
    #[serde(default)]
    pub echo: Option<Echo>,
    #[serde(default)]
    pub fail_first: Option<FailFirst>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Condition {
    #[serde(default)]
    pub task_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub input: Option<Value>,
    #[serde(default)]
    pub contains: Option<String>,
}

/// Distinguishes `"input": null`, which is a condition, from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Turn {
    #[serde(default, deserialize_with = "present")]
    pub output: Option<Value>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub tool_calls: Vec<ScriptedCall>,
    #[serde(default)]
    pub usage: Option<ScriptedUsage>,
    #[serde(default)]
    pub delay_ms: u64,
    #[serde(default)]
    pub refused: bool,
    #[serde(default)]
    pub truncated: bool,
    #[serde(default)]
    pub fail: Option<Fault>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptedCall {
    pub tool: String,
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    #[serde(default)]
    pub raw_arguments: Option<String>,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScriptedUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Echo {
    pub output: String,
    #[serde(default)]
    pub delay_ms: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FailFirst {
    pub times: u32,
    pub fail: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    Unavailable,
    RateLimited,
    Unauthorized,
    ContextOverflow,
    ContentFilter,
}

/// Answers by task id, the format that suites use: `{"format": 1, "answers": {"<taskId>": {…}}}`.
#[derive(Deserialize)]
struct Answers {
    answers: BTreeMap<String, Recorded>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    output: Value,
    #[serde(default)]
    usage: Option<ScriptedUsage>,
    #[serde(default)]
    tool_calls: Vec<ScriptedCall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    rules: Vec<Rule>,
}

impl Script {
    /// Parses either form.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let is_answers = serde_json::from_slice::<Map<String, Value>>(text)
            .is_ok_and(|members| members.contains_key("answers"));
        let rules = if is_answers {
            let answers: Answers = serde_json::from_slice(text).map_err(shape)?;
            answers.answers.into_iter().map(recorded).collect()
        } else {
            serde_json::from_slice::<Rules>(text).map_err(shape)?.rules
        };
        for (index, rule) in rules.iter().enumerate() {
            if rule.turns.is_empty() == rule.echo.is_none() {
                return Err(Error::Rule(index));
            }
            if rule
                .turns
                .iter()
                .any(|t| t.output.is_some() && t.text.is_some())
            {
                return Err(Error::Turn(index));
            }
        }
        Ok(Self { rules })
    }
}

fn shape(error: serde_json::Error) -> Error {
    let (line, column) = (error.line(), error.column());
    let problem = error.to_string();
    let place = format!(" at line {line} column {column}");
    Error::Shape {
        line,
        column,
        problem: problem.trim_end_matches(&place).to_owned(),
    }
}

/// One recorded answer: its tool calls in a first turn, then its output. The recorded usage is for
/// the whole task and is put in the last turn, so that costs add up; the recorded latency is not
/// replayed.
fn recorded((task_id, answer): (String, Recorded)) -> Rule {
    let mut turns = Vec::with_capacity(2);
    if !answer.tool_calls.is_empty() {
        turns.push(Turn {
            tool_calls: answer.tool_calls,
            usage: answer.usage.map(|_| ScriptedUsage {
                input_tokens: 0,
                output_tokens: 0,
                cached_input_tokens: None,
            }),
            ..Turn::default()
        });
    }
    let (output, text) = match answer.output {
        Value::String(text) => (None, Some(text)),
        output => (Some(output), None),
    };
    turns.push(Turn {
        output,
        text,
        usage: answer.usage,
        ..Turn::default()
    });
    Rule {
        when: Condition {
            task_id: Some(task_id),
            ..Condition::default()
        },
        turns,
        echo: None,
        fail_first: None,
    }
}
