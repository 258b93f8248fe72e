//! The measure of one dimension.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::rules::scoring::tier::Score;

/// The measure of a dimension. A dimension without evidence is not assessed; it never gets a zero
/// or a placeholder.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// 0..=1, unrounded; `None` if the dimension is not assessed.
    pub raw: Option<f64>,
    /// Sample size in the dimension's own unit: tasks, tools, decisions …
    pub sample_size: usize,
    /// Number of records that were read.
    pub evidence_count: usize,
    /// Members that only this dimension has.
    pub details: Option<Details>,
    /// Why the dimension is not assessed.
    pub reason: Option<&'static str>,
    /// The appeal that changed the score.
    pub appeal: Option<Appealed>,
}

/// The parts of composite dimensions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Details {
    Accuracy {
        accuracy_from_revisions: f64,
        accuracy_from_errors: f64,
    },
    Consistency {
        cv_accuracy: f64,
        cv_completion: f64,
        groups: usize,
    },
    Breadth {
        qualified_domains: usize,
        total_domains: usize,
    },
    Ladder {
        highest_level: Option<u8>,
    },
    Tools {
        tools_assessed: usize,
        per_tool: BTreeMap<String, f64>,
    },
    Learning {
        groups_assessed: usize,
        improvement: f64,
    },
    Delegation {
        decisions_assessed: usize,
        judgment_score: Option<f64>,
        selection_score: Option<f64>,
        management_score: Option<f64>,
    },
    Orchestration {
        scenarios_assessed: usize,
        workflow_design: Option<f64>,
        communication_clarity: Option<f64>,
        failure_handling: Option<f64>,
        synthesis_quality: Option<f64>,
    },
}

/// The appeal that changed a score, and the score before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Appealed {
    /// `None` if the dimension was not assessed.
    pub previous_score: Option<Score>,
    pub appeal_id: String,
}

impl Measure {
    pub fn assessed(raw: f64, sample_size: usize, evidence_count: usize) -> Self {
        Self {
            raw: Some(raw),
            sample_size,
            evidence_count,
            details: None,
            reason: None,
            appeal: None,
        }
    }

    pub fn unassessed(reason: &'static str) -> Self {
        Self {
            raw: None,
            sample_size: 0,
            evidence_count: 0,
            details: None,
            reason: Some(reason),
            appeal: None,
        }
    }

    /// Assessed if there is a value, otherwise not assessed for this reason.
    pub fn found(
        raw: Option<f64>,
        sample_size: usize,
        evidence_count: usize,
        otherwise: &'static str,
    ) -> Self {
        Self {
            raw,
            sample_size,
            evidence_count,
            details: None,
            reason: raw.is_none().then_some(otherwise),
            appeal: None,
        }
    }

    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = Some(details);
        self
    }

    /// The score as it is stored.
    pub fn score(&self) -> Option<Score> {
        self.raw.map(Score::of)
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Assessed<'a> {
            score: Option<Score>,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
            #[serde(flatten)]
            found: Option<Found<'a>>,
            #[serde(flatten)]
            appeal: Option<&'a Appealed>,
        }
        #[derive(Serialize)]
        struct Found<'a> {
            raw: f64,
            sample_size: usize,
            evidence_count: usize,
            #[serde(flatten)]
            details: Option<&'a Details>,
        }
        Assessed {
            score: self.score(),
            reason: self.reason,
            found: self.raw.map(|raw| Found {
                raw,
                sample_size: self.sample_size,
                evidence_count: self.evidence_count,
                details: self.details.as_ref(),
            }),
            appeal: self.appeal.as_ref(),
        }
        .serialize(serializer)
    }
}
