//! A program of the operator that decides assertions.

use serde::Serialize;
use serde_json::Value;

/// A question about one assertion.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionQuestion<'a> {
    /// The assertion's name.
    pub name: &'a str,
    /// Its `config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<&'a Value>,
    pub task: &'a str,
    pub input: &'a Value,
    /// The agent's answer.
    pub output: &'a Value,
    /// The task's expectation in the suite.
    pub expected: Value,
    /// In the order of the calls.
    pub tool_calls: Vec<AskedToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    pub tokens: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct AskedToolCall<'a> {
    pub tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<&'a Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AssertionAnswer {
    pub pass: bool,
    /// 0.0..=1.0.
    pub score: f64,
    /// Without credentials; empty if it gave none.
    pub reason: String,
}
