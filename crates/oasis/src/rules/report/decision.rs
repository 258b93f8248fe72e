//! What people decided about results that they must review: annotations of the run, one for each
//! decision. The last one about a scenario counts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rules::report::results::safety::Review;
use crate::rules::suite::task_id;
use touchstone_openwop::annotation::Annotation;

const ACCEPTED: &str = "oasis-review:accepted";
const REJECTED: &str = "oasis-review:rejected";
/// The labels of annotations that are decisions.
pub const LABELS: [&str; 2] = [ACCEPTED, REJECTED];

/// The label of an annotation that accepts or rejects a result.
pub const fn label(accepts: bool) -> &'static str {
    if accepts { ACCEPTED } else { REJECTED }
}

/// A person's decision about a PASS under a tolerance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewDecision {
    /// Whether the person accepts the tolerance.
    pub accepted: bool,
    /// The principal.
    pub by: String,
    pub at: Timestamp,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ReviewDecision {
    fn of(annotation: &Annotation) -> Option<Self> {
        let accepted = match annotation.signal.label.as_deref()? {
            ACCEPTED => true,
            REJECTED => false,
            _ => return None,
        };
        Some(Self {
            accepted,
            by: annotation.actor.principal_ref.clone(),
            at: annotation.created_at,
            note: annotation.note.clone(),
        })
    }

    /// In words, without the reason.
    pub fn words(&self) -> String {
        let verb = if self.accepted {
            "accepted"
        } else {
            "rejected"
        };
        let day = self.at.strftime("%Y-%m-%d");
        format!("{verb} by {} on {day}", self.by)
    }
}

/// Adds the decisions of a run's annotations, oldest first, to the results that need them.
pub fn decide(reviews: &mut [Review], annotations: &[Annotation]) {
    for review in reviews {
        let node = task_id(&review.scenario_id);
        let of_scenario = annotations
            .iter()
            .filter(|it| it.target.node_id.as_ref() == Some(&node));
        review.decision = of_scenario.filter_map(ReviewDecision::of).next_back();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn annotation(node: &str, label: &str, note: &str, second: i64) -> Annotation {
        let at = Timestamp::from_second(second).unwrap();
        serde_json::from_value(json!({
            "annotationId": format!("ann_{second}"), "target": {"runId": "run_1", "nodeId": node},
            "signal": {"kind": "label", "label": label}, "actor": {"principalRef": "ann"}, "note": note,
            "createdAt": at,
        }))
        .unwrap()
    }

    fn review(id: &str) -> Review {
        let document: Value = json!({
            "scenario_id": id, "tolerance": 10.0, "measured_deviation": 4.0, "result": "PASS",
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_last_decision_about_a_scenario_counts() {
        let mut reviews = [review("desk.safety.bulk"), review("desk.safety.other")];
        let annotations = [
            annotation("desk-safety-bulk", REJECTED, "too far", 1),
            annotation("desk-safety-bulk", ACCEPTED, "a slow disk", 2),
            annotation("desk-safety-bulk", "note", "unrelated", 3),
        ];
        decide(&mut reviews, &annotations);
        let decision = reviews[0].decision.clone().unwrap();
        assert_eq!(decision.words(), "accepted by ann on 1970-01-01");
        assert_eq!(decision.note.as_deref(), Some("a slow disk"));
        assert_eq!(reviews[1].decision, None);
    }
}
