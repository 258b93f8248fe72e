//! The types of assertions and their parameters.

mod json;
mod similarity;
mod text;
mod tools;
mod usage;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Assertion;
pub use super::judged::{
    AnswerRelevance, ClosedQuestion, Factuality, OfContext, PreferredToBaseline, Rubric,
};
pub use json::{IsJson, JsonPath, JsonPointer, Operator, Quantifier};
pub use similarity::{Levenshtein, MIN_BLEU, MIN_SIMILAR, RougeMeasure, RougeN, Similarity};
pub use text::{Contains, Equals, Number, Regex, Text, Texts};
pub use tools::{ArgumentsMatch, ToolCalled, ToolNotCalled, ToolsCalledInOrder};
pub use usage::{CommandCheck, Cost, Latency, Tokens};

/// The check of an assertion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Check {
    /// The suite's own expectation of the task, golden or rubric.
    Expected,
    Equals(Equals),
    Contains(Contains),
    /// `contains` with `ignoreCase`.
    Icontains(Text),
    ContainsAny(Texts),
    ContainsAll(Texts),
    StartsWith(Contains),
    EndsWith(Contains),
    Regex(Regex),
    IsJson(IsJson),
    JsonPath(JsonPath),
    JsonPointer(JsonPointer),
    Number(Number),
    Levenshtein(Levenshtein),
    RougeN(RougeN),
    Bleu(Similarity),
    /// An embedding model decides it.
    Similar(Similarity),
    Latency(Latency),
    Cost(Cost),
    Tokens(Tokens),
    ToolCalled(ToolCalled),
    ToolsCalledInOrder(ToolsCalledInOrder),
    ToolNotCalled(ToolNotCalled),
    /// The answer declines the request.
    Refusal,
    ClosedQuestion(ClosedQuestion),
    Rubric(Rubric),
    Factuality(Factuality),
    AnswerRelevance(AnswerRelevance),
    Faithfulness(OfContext),
    ContextPrecision(OfContext),
    ContextRecall(OfContext),
    ContextRelevance(OfContext),
    PreferredToBaseline(PreferredToBaseline),
    /// A command of the operator decides it.
    Command(CommandCheck),
    All(Combined),
    Any(Combined),
    None(Nested),
}

/// The names of all types.
pub const TYPES: [&str; 37] = [
    "expected",
    "equals",
    "contains",
    "icontains",
    "contains-any",
    "contains-all",
    "starts-with",
    "ends-with",
    "regex",
    "is-json",
    "json-path",
    "json-pointer",
    "number",
    "levenshtein",
    "rouge-n",
    "bleu",
    "similar",
    "latency",
    "cost",
    "tokens",
    "tool-called",
    "tools-called-in-order",
    "tool-not-called",
    "refusal",
    "closed-question",
    "rubric",
    "factuality",
    "answer-relevance",
    "faithfulness",
    "context-precision",
    "context-recall",
    "context-relevance",
    "preferred-to-baseline",
    "command",
    "all",
    "any",
    "none",
];

/// The names of the types that a judge decides.
pub const JUDGED: [&str; 9] = [
    "closed-question",
    "rubric",
    "factuality",
    "answer-relevance",
    "faithfulness",
    "context-precision",
    "context-recall",
    "context-relevance",
    "preferred-to-baseline",
];

impl Check {
    /// The type's name in a document.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Expected => "expected",
            Self::Equals(_) => "equals",
            Self::Contains(_) => "contains",
            Self::Icontains(_) => "icontains",
            Self::ContainsAny(_) => "contains-any",
            Self::ContainsAll(_) => "contains-all",
            Self::StartsWith(_) => "starts-with",
            Self::EndsWith(_) => "ends-with",
            Self::Regex(_) => "regex",
            Self::IsJson(_) => "is-json",
            Self::JsonPath(_) => "json-path",
            Self::JsonPointer(_) => "json-pointer",
            Self::Number(_) => "number",
            Self::Levenshtein(_) => "levenshtein",
            Self::RougeN(_) => "rouge-n",
            Self::Bleu(_) => "bleu",
            Self::Similar(_) => "similar",
            Self::Latency(_) => "latency",
            Self::Cost(_) => "cost",
            Self::Tokens(_) => "tokens",
            Self::ToolCalled(_) => "tool-called",
            Self::ToolsCalledInOrder(_) => "tools-called-in-order",
            Self::ToolNotCalled(_) => "tool-not-called",
            Self::Refusal => "refusal",
            Self::ClosedQuestion(_) => "closed-question",
            Self::Rubric(_) => "rubric",
            Self::Factuality(_) => "factuality",
            Self::AnswerRelevance(_) => "answer-relevance",
            Self::Faithfulness(_) => "faithfulness",
            Self::ContextPrecision(_) => "context-precision",
            Self::ContextRecall(_) => "context-recall",
            Self::ContextRelevance(_) => "context-relevance",
            Self::PreferredToBaseline(_) => "preferred-to-baseline",
            Self::Command(_) => "command",
            Self::All(_) => "all",
            Self::Any(_) => "any",
            Self::None(_) => "none",
        }
    }

    /// Whether it is decided outside of this host, by a judge, another model or a command.
    pub fn is_external(&self) -> bool {
        self.is_judged() || matches!(self, Self::Similar(_) | Self::Command(_))
    }

    /// Whether a judge decides it.
    pub fn is_judged(&self) -> bool {
        JUDGED.contains(&self.name())
    }

    /// Whether a judge compares the answer with that of a baseline run.
    pub const fn needs_baseline(&self) -> bool {
        matches!(self, Self::PreferredToBaseline(_))
    }

    const fn of_context(&self) -> Option<&OfContext> {
        match self {
            Self::Faithfulness(it)
            | Self::ContextPrecision(it)
            | Self::ContextRecall(it)
            | Self::ContextRelevance(it) => Some(it),
            _ => None,
        }
    }

    /// Where its context is in the task's input, if it is there.
    pub fn context_pointer(&self) -> Option<&str> {
        self.of_context()?.context_pointer.as_deref()
    }

    /// Whether its context is what the agent's tools returned.
    pub fn reads_tool_results(&self) -> bool {
        let of = self.of_context();
        of.is_some_and(|it| it.context.is_none() && it.context_pointer.is_none())
    }

    /// The assertions that a combinator combines.
    pub fn nested(&self) -> &[Assertion] {
        match self {
            Self::All(combined) | Self::Any(combined) => &combined.assertions,
            Self::None(nested) => &nested.assertions,
            _ => &[],
        }
    }
}

/// Several assertions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combined {
    pub assertions: Vec<Assertion>,
    /// The score at which the combination holds, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nested {
    pub assertions: Vec<Assertion>,
}

/// Distinguishes a member that is null from an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
