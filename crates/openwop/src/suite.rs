//! `AgentEvalSuite` (RFC 0081 §A): tasks, expectations, fixtures and thresholds of an eval run.
//!
//! This module contains the wire form and the result of reading it.
//! `schemas/agent-eval-suite.schema.json` and `runs::rules::eval::suite_rules` decide whether a
//! document is a valid suite; use the latter to read one from bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::Violation;
use touchstone_kit::ids::{AgentId, TaskId};
use touchstone_kit::integrity;

/// The tool whose response describes the probe of a task. It never answers an agent.
pub const SAFETY_TOOL: &str = "touchstone:safety";

/// How a task is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvalMode {
    /// Deterministic match.
    Golden,
    /// A judge model scores weighted criteria.
    Rubric,
    /// Safety findings are the primary result.
    Adversarial,
    /// Compared with a baseline run.
    Regression,
    /// Live tools instead of fixtures.
    LiveShadow,
}

impl EvalMode {
    /// Every mode of RFC 0081 §D.
    pub const ALL: [Self; 5] = [
        Self::Golden,
        Self::Rubric,
        Self::Adversarial,
        Self::Regression,
        Self::LiveShadow,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Rubric => "rubric",
            Self::Adversarial => "adversarial",
            Self::Regression => "regression",
            Self::LiveShadow => "live-shadow",
        }
    }

    /// The mode with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl fmt::Display for EvalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The class of model that an agent requests (RFC 0002).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelClass {
    /// Long chains of reasoning.
    Reasoning,
    Writing,
    Coding,
    Research,
    /// Assigning labels.
    Classification,
    /// Any task.
    General,
}

impl ModelClass {
    pub const ALL: [Self; 6] = [
        Self::Reasoning,
        Self::Writing,
        Self::Coding,
        Self::Research,
        Self::Classification,
        Self::General,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Writing => "writing",
            Self::Coding => "coding",
            Self::Research => "research",
            Self::Classification => "classification",
            Self::General => "general",
        }
    }

    /// The class with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }
}

impl fmt::Display for ModelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A portable suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentEvalSuite {
    /// `<scope>.<org>.evals.<name>`.
    pub suite_id: String,
    /// Three numbers.
    pub version: String,
    /// The agent that the suite was written for; any agent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_agent_id: Option<AgentId>,
    /// The modes that the suite supports; never empty.
    pub modes: Vec<EvalMode>,
    /// The model classes that the suite is valid for; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_models: Option<Vec<ModelClass>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// Never empty; ids are unique.
    pub tasks: Vec<Task>,
}

impl AgentEvalSuite {
    /// The reference of this suite in a run.
    pub fn reference(&self) -> String {
        format!("{}@{}", self.suite_id, self.version)
    }
}

/// The conditions for a run to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Thresholds {
    /// Minimum aggregate score, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_score: Option<f64>,
    /// Maximum total cost in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Maximum 95th-percentile task latency in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "whole")]
    pub max_p95_latency_ms: Option<u64>,
}

/// One task: an input and the expected answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// Unique in the suite.
    pub task_id: TaskId,
    /// The input for the agent; any JSON value, but required.
    pub input: Value,
    /// How the answer is scored.
    pub expected: Expected,
    /// Substitutes for tools and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixtures: Option<Fixtures>,
}

/// How an answer is scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Determines which of the two members below applies.
    pub kind: ExpectedKind,
    /// Present for `golden`.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<Match>,
    /// Present for `rubric`; the weights do not add up to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rubric: Option<Vec<Criterion>>,
}

/// The two scoring methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedKind {
    /// Deterministic.
    Golden,
    /// By a judge.
    Rubric,
}

/// A deterministic expectation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    pub strategy: MatchStrategy,
    /// The expected value.
    pub value: Value,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatchStrategy {
    /// The stringified output equals the value.
    Exact,
    /// The stringified output contains the value.
    Contains,
    /// The output deeply equals the value.
    JsonMatch,
}

/// One weighted criterion of a rubric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// The condition that the judge checks.
    pub criterion: String,
    /// Relative weight, 0.0..=1.0.
    pub weight: f64,
}

/// Deterministic substitutes for live tools and memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fixtures {
    /// In order per tool; the last one repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_responses: Vec<ToolResponse>,
    /// Entries of the agent's read snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_seed: Vec<Map<String, Value>>,
}

/// A canned tool result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResponse {
    /// `<scope>:<tool-id>`.
    pub tool: String,
    /// The result; null if absent.
    #[serde(default)]
    pub response: Value,
}

/// Integers as JSON Schema defines them: `2.0` is an integer. A value beyond `u64` is effectively
/// no limit.
mod whole {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the signature serde's `with` asks for")]
    pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float-to-int casts saturate, and negative numbers are refused"
    )]
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_u64().or_else(|| {
            number
                .as_f64()
                .filter(|n| n.fract() == 0.0 && *n >= 0.0)
                .map(|n| n as u64)
        });
        whole
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom("must be an integer of at least 0"))
    }
}

/// Why a document is not a valid suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{}: {reason}", if pointer.is_empty() { "the suite" } else { pointer })]
pub struct SuiteFault {
    /// JSON Pointer to the place; empty for the whole document.
    pub pointer: String,
    /// The violated rule, without the value.
    pub reason: String,
}

impl SuiteFault {
    pub fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            reason: reason.into(),
        }
    }
}

impl From<Violation> for SuiteFault {
    fn from(violation: Violation) -> Self {
        Self {
            pointer: violation.pointer,
            reason: violation.reason,
        }
    }
}

/// A suite with the document its digest is computed over.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteDocument {
    pub suite: AgentEvalSuite,
    /// The document with sorted keys and no whitespace.
    pub canonical: String,
}

impl SuiteDocument {
    /// `sha256-<base64>` of [`SuiteDocument::canonical`].
    pub fn digest(&self) -> String {
        integrity::of(self.canonical.as_bytes())
    }
}
