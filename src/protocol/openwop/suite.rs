//! `AgentEvalSuite` (RFC 0081 §A).

use serde::{Deserialize, Serialize};

/// How a task is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// The class of model an agent asks for (RFC 0002).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelClass {
    /// Long chains of thought.
    Reasoning,
    /// Prose.
    Writing,
    /// Code.
    Coding,
    /// Research.
    Research,
    /// Labels.
    Classification,
    /// Anything.
    General,
}
