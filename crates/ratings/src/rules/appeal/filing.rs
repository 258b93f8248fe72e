//! The requests of appeals (AAAF S9): filing one and resolving one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::appeal::Override;
use crate::rules::assessment::calibration::Scores;
use crate::rules::scoring::dimension::{Axis, Dimension};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::redaction::mask;

/// The number of dimensions in the framework.
const MAX_DIMENSIONS: usize = 12;
const MAX_TEXT: usize = 2000;
const MAX_ID: usize = 256;
const MAX_CLAIMS: usize = 100;
const MAX_OVERRIDES: usize = 1000;
/// Maximum size of all overrides of one resolution, in bytes; larger than the data of any event.
const MAX_OVERRIDE_OCTETS: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filing {
    /// The challenged dimensions, in the framework's order.
    pub dimensions: Vec<Dimension>,
    pub justification: String,
    /// Claims against the score.
    pub counter_evidence: Vec<Claim>,
}

/// A claim about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub task_id: String,
    pub claim: String,
}

impl Filing {
    /// Reads the body of `POST assessments/{id}/appeals`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = [
            "dimensions_challenged",
            "dimensions",
            "justification",
            "counter_evidence",
        ];
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        let member = fields.either("dimensions", "dimensions_challenged")?;
        let named = fields.texts(member, MAX_DIMENSIONS, MAX_ID)?;
        let named = named
            .filter(|named| !named.is_empty())
            .ok_or_else(|| fields.invalid(member, "must name at least one dimension"))?;
        let mut dimensions = BTreeSet::new();
        for name in named {
            let dimension: Dimension = serde_json::from_value(Value::from(name))
                .map_err(|_| fields.invalid(member, "must contain only AAAF dimensions"))?;
            dimensions.insert(dimension);
        }
        let justification = fields.text_of("justification", 1..=MAX_TEXT)?;
        let justification =
            justification.ok_or_else(|| fields.invalid("justification", "is required"))?;
        let claims = fields.get("counter_evidence").and_then(Value::as_array);
        let claims = claims
            .filter(|claims| (1..=MAX_CLAIMS).contains(&claims.len()))
            .ok_or_else(|| {
                let shape = format!("must be a list of 1 to {MAX_CLAIMS} claims");
                fields.invalid("counter_evidence", &shape)
            })?;
        Ok(Self {
            dimensions: dimensions.into_iter().collect(),
            // Masked, because it is stored.
            justification: mask(justification).into_owned(),
            counter_evidence: claims.iter().map(claim).collect::<Result<_, _>>()?,
        })
    }
}

impl Filing {
    /// The appeal that a correction of a task's score files. It challenges the rated performance
    /// dimensions; capability tolerates single wrong scores.
    pub fn of_correction(scores: &Scores, task_id: String, correction: &str) -> Option<Self> {
        let dimensions = scores.scored(Axis::Performance);
        let claim: String = mask(correction).chars().take(MAX_TEXT).collect();
        (!dimensions.is_empty()).then(|| Self {
            dimensions,
            justification: "A person corrected the score of an eval run.".to_owned(),
            counter_evidence: vec![Claim { task_id, claim }],
        })
    }
}

fn claim(value: &Value) -> Result<Claim, Problem> {
    let fields = Fields::closed(
        value,
        "counter_evidence",
        &["task_id", "claim"],
        Nulls::Wrong,
    )?;
    let task_id = fields.text_of("task_id", 1..=MAX_ID)?;
    let claim = fields.text_of("claim", 1..=MAX_TEXT)?;
    Ok(Claim {
        task_id: task_id
            .ok_or_else(|| fields.invalid("task_id", "is required"))?
            .to_owned(),
        claim: mask(claim.ok_or_else(|| fields.invalid("claim", "is required"))?).into_owned(),
    })
}

/// A reviewer's action on an appeal.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// Starts the review.
    Review,
    /// Accepts the appeal with these overrides.
    Accept {
        overrides: Vec<Override>,
        reason: Option<String>,
    },
    Reject {
        reason: String,
    },
}

impl Ruling {
    /// Reads the body of `POST assessments/{id}/appeals/{aid}/resolve`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = ["decision", "reason", "overrides"];
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        let reason = fields.text_of("reason", 1..=MAX_TEXT)?;
        let reason = reason.map(|reason| mask(reason).into_owned());
        let decision = fields.text("decision")?;
        if decision != Some("accept") && fields.get("overrides").is_some() {
            return Err(fields.invalid("overrides", "is only allowed with the decision accept"));
        }
        match (decision, reason) {
            (Some("review"), None) => Ok(Self::Review),
            (Some("review"), Some(_)) => {
                Err(fields.invalid("reason", "is only allowed with accept and reject"))
            }
            (Some("reject"), Some(reason)) => Ok(Self::Reject { reason }),
            (Some("reject"), None) => {
                Err(fields.invalid("reason", "is required with the decision reject"))
            }
            (Some("accept"), reason) => Ok(Self::Accept {
                overrides: overrides(&fields)?,
                reason,
            }),
            _ => Err(fields.invalid("decision", "must be review, accept or reject")),
        }
    }
}

fn overrides(fields: &Fields<'_>) -> Result<Vec<Override>, Problem> {
    let wrong = |message: &str| fields.invalid("overrides", message);
    let listed = fields.get("overrides").and_then(Value::as_array);
    let listed = listed
        .filter(|listed| (1..=MAX_OVERRIDES).contains(&listed.len()))
        .ok_or_else(|| wrong(&format!("must be a list of 1 to {MAX_OVERRIDES} overrides")))?;
    let bytes: usize = listed.iter().map(|it| it.to_string().len()).sum();
    if bytes > MAX_OVERRIDE_OCTETS {
        return Err(wrong(&format!(
            "must be at most {MAX_OVERRIDE_OCTETS} bytes"
        )));
    }
    let read = listed.iter().enumerate().map(|(n, it)| {
        serde_json::from_value(it.clone()).map_err(|_| {
            wrong(&format!(
                "has an invalid override at position {n}: revision_not_error needs task_id and \
                revision_number, exclude_task needs task_id, set_field needs event_id, \
                field and value"
            ))
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn field(refused: Result<(), Problem>) -> Option<String> {
        let problem = refused.err()?;
        Some(problem.details["field"].as_str().unwrap().to_owned())
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(json!({"dimensions": []}), Some("dimensions"))]
    #[case(json!({"dimensions": ["charm"]}), Some("dimensions"))]
    #[case(json!({"justification": ""}), Some("justification"))]
    #[case(json!({"counter_evidence": []}), Some("counter_evidence"))]
    #[case(json!({"counter_evidence": [{"task_id": "t"}]}), Some("counter_evidence.claim"))]
    #[case(json!({"counter_evidence": [{"task_id": "t", "claim": "c", "x": 1}]}), Some("counter_evidence.x"))]
    #[case(json!({"by": "me"}), Some("by"))]
    #[case(json!({"dimensions_challenged": ["speed"]}), Some("dimensions_challenged"))]
    fn invalid_appeals_are_rejected_by_field(
        #[case] change: Value,
        #[case] expected: Option<&str>,
    ) {
        let mut body = json!({"dimensions": ["speed", "accuracy", "speed"], "justification": "j",
            "counter_evidence": [{"task_id": "t", "claim": "c"}]});
        body.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let parsed = Filing::parse(&body);
        if let Ok(filing) = &parsed {
            assert_eq!(filing.dimensions, [Dimension::Accuracy, Dimension::Speed]);
        }
        assert_eq!(field(parsed.map(drop)).as_deref(), expected);
    }

    #[rstest]
    #[case(json!({"decision": "review"}), None)]
    #[case(json!({"decision": "reject", "reason": "r"}), None)]
    #[case(json!({"decision": "accept", "overrides": [{"type": "exclude_task", "task_id": "t"}]}), None)]
    #[case(json!({"decision": "ponder"}), Some("decision"))]
    #[case(json!({"decision": "reject"}), Some("reason"))]
    #[case(json!({"decision": "reject", "reason": "r", "overrides": []}), Some("overrides"))]
    #[case(json!({"decision": "accept"}), Some("overrides"))]
    #[case(json!({"decision": "accept", "overrides": []}), Some("overrides"))]
    #[case(json!({"decision": "accept", "overrides": [{"type": "forget_task", "task_id": "t"}]}), Some("overrides"))]
    fn invalid_rulings_are_rejected_by_field(#[case] body: Value, #[case] expected: Option<&str>) {
        assert_eq!(field(Ruling::parse(&body).map(drop)).as_deref(), expected);
    }
}
