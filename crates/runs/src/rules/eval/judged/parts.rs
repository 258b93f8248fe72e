//! Everything that a judge decides about a task: its rubric, if it counts, and its assertions.

use crate::rules::eval::rubric::rubric;
use crate::rules::eval::scoring_document::{Assertion, Check, ScoringDocument};
use touchstone_openwop::suite::{Criterion, Task};

#[derive(Clone, Debug, Default)]
pub struct JudgedParts<'a> {
    pub rubric: &'a [Criterion],
    /// With their places.
    pub assertions: Vec<(String, &'a Assertion)>,
}

impl<'a> JudgedParts<'a> {
    pub fn of(task: &'a Task, document: Option<&'a ScoringDocument>) -> Self {
        let scoring = document.and_then(|it| it.of_task(&task.task_id));
        let counts = scoring
            .as_ref()
            .is_none_or(|it| it.has(|check| *check == Check::Expected));
        let rubric = rubric(task).filter(|_| counts).unwrap_or_default();
        let external = scoring.map(|it| it.external()).unwrap_or_default();
        let judged = external.into_iter().filter(|(_, it)| it.check.is_judged());
        Self {
            rubric,
            assertions: judged.collect(),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.rubric.is_empty() && self.assertions.is_empty()
    }

    /// Whether an assertion of a wanted type is among them.
    pub fn has(&self, wanted: impl Fn(&Check) -> bool) -> bool {
        self.assertions.iter().any(|(_, it)| wanted(&it.check))
    }

    /// The judge's score of an answer: the mean of the rubric's score and the scores of the
    /// assertions, by weight. The rubric has the weight 1.
    pub fn score(&self, rubric: Option<f64>, assertions: &[f64]) -> f64 {
        let judged = self.assertions.iter().zip(assertions);
        let judged = judged.map(|((_, assertion), score)| match assertion.not {
            true => (assertion.weight, 1.0 - score),
            false => (assertion.weight, *score),
        });
        let all: Vec<(f64, f64)> = rubric
            .map(|it| (1.0, it))
            .into_iter()
            .chain(judged)
            .collect();
        let total: f64 = all.iter().map(|(weight, _)| weight).sum();
        if total <= 0.0 {
            return 0.0;
        }
        let sum: f64 = all.iter().map(|(weight, score)| weight * score).sum();
        (sum / total).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn rubric_and_assertions_count_by_weight() {
        let task: Task = from_value(json!({"taskId": "t", "input": "x", "expected": {
            "kind": "rubric", "rubric": [{"criterion": "c", "weight": 1}]}}))
        .unwrap();
        let document = |assertions: serde_json::Value| -> ScoringDocument {
            from_value(json!({"scoringVersion": 1, "suiteId": "s",
                "tasks": {"t": {"assertions": assertions}}}))
            .unwrap()
        };
        let judged = document(json!([
            {"type": "expected"},
            {"type": "any", "assertions": [{"type": "closed-question", "question": "q", "weight": 3, "not": true}]},
            {"type": "contains", "value": "x"},
        ]));
        let parts = JudgedParts::of(&task, Some(&judged));
        assert_eq!(
            (parts.rubric.len(), parts.assertions[0].0.as_str()),
            (1, "1.0")
        );
        assert!((parts.score(Some(1.0), &[1.0]) - 0.25).abs() < 1e-12);
        // A rubric that no assertion refers to is not judged.
        let unused = document(json!([{"type": "contains", "value": "x"}]));
        assert!(JudgedParts::of(&task, Some(&unused)).is_empty());
        assert_eq!(JudgedParts::of(&task, None).rubric.len(), 1);
    }
}
