//! The parameters of assertions that a judge decides; docs/judging.md defines them.

use serde::{Deserialize, Serialize};

pub use touchstone_agents::rules::judging::form::Category;

/// The `min` of measures without one.
pub const MIN: f64 = 0.5;

/// The judge answers a question about the answer with yes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedQuestion {
    pub question: String,
}

/// The weighted share of met criteria, each checked as in a rubric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rubric {
    pub criteria: Vec<Criterion>,
    /// Minimum share, 0.0..=1.0; absent if every criterion with a weight above 0 must be met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Whether the share itself is the score, instead of 1 or 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    pub criterion: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
}

const fn one() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::float_cmp,
    reason = "the signature serde asks for; only the default itself is left out"
)]
fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

/// The answer states the facts of a reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factuality {
    pub reference: String,
    /// Accepted categories [default: all but a conflict].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Vec<Category>>,
}

impl Factuality {
    pub fn accepts(&self, category: Category) -> bool {
        match &self.accept {
            Some(accepted) => accepted.contains(&category),
            None => category != Category::Conflict,
        }
    }
}

/// The share of the answer's statements that are relevant to the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRelevance {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

/// A measure of an answer or a reference against a context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfContext {
    /// The context itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Parts>,
    /// JSON Pointer to the context in the task's input. Without it and without `context`, the
    /// context is what the agent's tools returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_pointer: Option<String>,
    /// The right answer, where the measure uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

/// One text, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parts {
    One(String),
    Many(Vec<String>),
}

impl Parts {
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::Many(parts) => parts,
        }
    }
}

/// The judge prefers the answer to that of the baseline run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferredToBaseline {
    /// What the judge decides by; absent for how well the answers do the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
    /// Minimum score: 1 for a win in both orders, 0.5 for a tie or a disagreement [default: 0.5].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
}
