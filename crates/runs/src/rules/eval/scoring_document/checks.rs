//! The types of assertions and their parameters.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Assertion;
pub use super::judged::{
    AnswerRelevance, ClosedQuestion, Factuality, OfContext, PreferredToBaseline, Rubric,
};

/// What an assertion checks.
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
    Bleu(Bleu),
    /// An embedding model decides it.
    Similar(Similar),
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

/// One accepted value, or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Equals {
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
}

impl Equals {
    pub fn accepted(&self) -> impl Iterator<Item = &Value> {
        self.value.iter().chain(self.any_of.iter().flatten())
    }
}

/// Distinguishes a member that is null from an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Contains {
    pub value: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Texts {
    pub values: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Regex {
    /// In the syntax of the Rust crate `regex`: no look-around, no back-references.
    pub pattern: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsJson {
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// How a value in the answer is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    #[default]
    Exists,
    Equals,
    NotEquals,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">")]
    More,
    #[serde(rename = ">=")]
    AtLeast,
    /// A string contains a string, or an array an element.
    Contains,
    /// A string matches a regular expression.
    Matches,
}

impl Operator {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::Equals => "equals",
            Self::NotEquals => "not-equals",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Contains => "contains",
            Self::Matches => "matches",
        }
    }

    /// Whether values are compared with numbers only.
    pub const fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::More | Self::AtLeast)
    }
}

/// Which of several selected values must satisfy the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantifier {
    #[default]
    Any,
    /// All, and at least one is selected.
    All,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonPath {
    /// RFC 9535, within the limits of [`path`](super::path).
    pub path: String,
    #[serde(default)]
    pub operator: Operator,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<Value>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub quantifier: Quantifier,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonPointer {
    /// RFC 6901; empty for the whole answer.
    pub pointer: String,
    #[serde(default)]
    pub operator: Operator,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Number {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<f64>,
    /// Accepted distance from `equals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// Accepted distance from `equals`, as a share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_tolerance: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether to take the only number in a text. Without it, the answer must be a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extract: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Levenshtein {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Several references; the most similar one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<String>>,
    /// Minimum similarity, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Maximum number of inserted, deleted and replaced characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_distance: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Whether the similarity itself is the score, instead of 1 or 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

impl Levenshtein {
    /// The `min` of assertions without `min` and `maxDistance`.
    pub const MIN: f64 = 0.8;

    pub fn references(&self) -> impl Iterator<Item = &str> {
        references(self.value.as_ref(), self.any_of.as_ref())
    }
}

fn references<'a>(
    value: Option<&'a String>,
    any_of: Option<&'a Vec<String>>,
) -> impl Iterator<Item = &'a str> {
    let more = any_of.into_iter().flatten();
    value.into_iter().chain(more).map(String::as_str)
}

/// Which share of common n-grams counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RougeMeasure {
    /// Of the reference's n-grams.
    Recall,
    /// Of the answer's n-grams.
    Precision,
    /// Harmonic mean of both.
    #[default]
    F1,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RougeN {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Several references; the most similar one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<String>>,
    /// Words of an n-gram, 1..=4.
    #[serde(default = "unigram")]
    pub n: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub measure: RougeMeasure,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

const fn unigram() -> u32 {
    1
}

impl RougeN {
    pub const MIN: f64 = 0.75;

    pub fn references(&self) -> impl Iterator<Item = &str> {
        references(self.value.as_ref(), self.any_of.as_ref())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bleu {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Several references, as BLEU defines them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

impl Bleu {
    pub const MIN: f64 = 0.5;

    pub fn references(&self) -> impl Iterator<Item = &str> {
        references(self.value.as_ref(), self.any_of.as_ref())
    }
}

/// Similarity of meaning, by the vectors of an embedding model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Similar {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The most similar one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

impl Similar {
    /// As promptfoo.
    pub const MIN: f64 = 0.75;

    pub fn references(&self) -> impl Iterator<Item = &str> {
        references(self.value.as_ref(), self.any_of.as_ref())
    }
}

/// A check that a command of the operator knows by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandCheck {
    pub name: String,
    /// Anything; the command gets it as it is.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub config: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latency {
    pub max_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cost {
    pub max_usd: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    pub max: u64,
}

/// How the arguments of a call are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgumentsMatch {
    /// The call has at least these members; nested objects likewise.
    #[default]
    Subset,
    Equal,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCalled {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub arguments_match: ArgumentsMatch,
    /// Only calls after the first call of this tool count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Minimum number of matching calls [default: 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Maximum number of matching calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsCalledInOrder {
    pub names: Vec<String>,
    /// Whether no other call may be made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolNotCalled {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub arguments_match: ArgumentsMatch,
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
