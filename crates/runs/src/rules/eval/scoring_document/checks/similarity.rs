//! Assertions on the similarity to a reference.

use serde::{Deserialize, Serialize};

use super::is_default;

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

/// The `min` of assertions `bleu` without `min`.
pub const MIN_BLEU: f64 = 0.5;
/// The `min` of assertions `similar` without `min`, as in promptfoo.
pub const MIN_SIMILAR: f64 = 0.75;

/// The assertions `bleu` and `similar`: similarity of meaning, by the vectors of an embedding
/// model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Similarity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Several references: BLEU compares with all of them, `similar` with the most similar one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub graded: bool,
}

impl Similarity {
    pub fn references(&self) -> impl Iterator<Item = &str> {
        references(self.value.as_ref(), self.any_of.as_ref())
    }
}
