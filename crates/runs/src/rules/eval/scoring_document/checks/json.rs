//! Assertions on the answer as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{is_default, present};

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonPath {
    /// RFC 9535, within the limits of [`path`](super::super::path).
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
