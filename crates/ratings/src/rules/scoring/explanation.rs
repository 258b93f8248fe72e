//! Why a score has its value: the formula of a dimension or an axis, and the values in it.
//!
//! The values are those of the stored result, so that an explanation belongs to an assessment and
//! not to the evidence of today.

use serde_json::Value;

use crate::rules::config::{Config, Rules};
use crate::rules::scoring::dimension::{Axis, Dimension};

/// A value in a formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub name: String,
    pub value: f64,
    /// Its factor in the formula, if it has one.
    pub factor: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// In words, with the numbers that are the same for every agent.
    pub formula: String,
    pub terms: Vec<Term>,
    /// The value before it is rounded; `None` if nothing was assessed.
    pub value: Option<f64>,
}

/// Explains the stored measure of a dimension.
pub fn of_dimension(dimension: Dimension, measure: &Value, rules: &Rules) -> Explanation {
    let value = measure.get("raw").and_then(Value::as_f64);
    Explanation {
        formula: formula(dimension, rules),
        terms: match value {
            Some(_) => terms(dimension, measure),
            None => Vec::new(),
        },
        value,
    }
}

fn formula(dimension: Dimension, rules: &Rules) -> String {
    match dimension {
        Dimension::TaskCompletionRate => {
            "Mean credit of the tasks: 1 for a completed task, 0 for a failed one. Newer tasks \
             weigh more."
                .to_owned()
        }
        Dimension::Accuracy => {
            "0.6 × accuracy from revisions + 0.4 × accuracy from errors.".to_owned()
        }
        Dimension::Speed => "Mean over the accepted tasks with a baseline: 1 at the baseline or \
             faster, 0 at twice the baseline."
            .to_owned(),
        Dimension::Consistency => "1 − (0.6 × variation of accuracy + 0.4 × variation of \
             completion), within groups of similar tasks; at least 0."
            .to_owned(),
        Dimension::ReviewCompliance => {
            "Mean share of review items that passed, over the tasks with a checklist.".to_owned()
        }
        Dimension::DomainBreadth => format!(
            "Qualified domains ÷ domains of the taxonomy. A domain qualifies at {:.2}.",
            rules.domain_pass_threshold
        ),
        Dimension::ComplexityCeiling => ladder(5, "complexity", rules),
        Dimension::AutonomyLevel => ladder(3, "autonomy", rules),
        Dimension::ToolProficiency => "Mean proficiency over the used tools.".to_owned(),
        Dimension::LearningRate => format!(
            "Improvement from the first to the last third of similar tasks ÷ {:.2}, from 0 to 1.",
            rules.learning_full_improvement
        ),
        Dimension::DelegationCapability => {
            "0.4 × judgment + 0.3 × selection + 0.3 × management; parts without evidence are left \
             out and the factors of the others grow."
                .to_owned()
        }
        Dimension::OrchestrationSkills => {
            "Mean of design, clarity, failure handling and synthesis; parts without evidence are \
             left out."
                .to_owned()
        }
    }
}

fn ladder(top: u8, of: &str, rules: &Rules) -> String {
    format!(
        "Highest passed level of {of} ÷ {top}. A level is passed at a mean credit of {:.2}.",
        rules.level_pass_threshold
    )
}

fn terms(dimension: Dimension, measure: &Value) -> Vec<Term> {
    let part = |name: &str, member: &str, factor: Option<f64>| {
        let value = measure.get(member).and_then(Value::as_f64)?;
        let name = name.to_owned();
        Some(Term {
            name,
            value,
            factor,
        })
    };
    let parts = match dimension {
        Dimension::TaskCompletionRate | Dimension::Speed | Dimension::ReviewCompliance => {
            vec![part("Tasks", "sample_size", None)]
        }
        Dimension::Accuracy => vec![
            part(
                "Accuracy from revisions",
                "accuracy_from_revisions",
                Some(0.6),
            ),
            part("Accuracy from errors", "accuracy_from_errors", Some(0.4)),
        ],
        Dimension::Consistency => vec![
            part("Variation of accuracy", "cv_accuracy", Some(0.6)),
            part("Variation of completion", "cv_completion", Some(0.4)),
            part("Groups of similar tasks", "groups", None),
        ],
        Dimension::DomainBreadth => vec![
            part("Qualified domains", "qualified_domains", None),
            part("Domains of the taxonomy", "total_domains", None),
        ],
        Dimension::ComplexityCeiling | Dimension::AutonomyLevel => vec![
            part("Highest passed level", "highest_level", None),
            part("Levels with evidence", "sample_size", None),
        ],
        Dimension::ToolProficiency => return per_tool(measure),
        Dimension::LearningRate => vec![
            part("Improvement", "improvement", None),
            part("Groups of similar tasks", "groups_assessed", None),
        ],
        Dimension::DelegationCapability => vec![
            part("Judgment", "judgment_score", Some(0.4)),
            part("Selection", "selection_score", Some(0.3)),
            part("Management", "management_score", Some(0.3)),
            part("Decisions", "decisions_assessed", None),
        ],
        Dimension::OrchestrationSkills => vec![
            part("Design", "workflow_design", Some(0.25)),
            part("Clarity", "communication_clarity", Some(0.25)),
            part("Failure handling", "failure_handling", Some(0.25)),
            part("Synthesis", "synthesis_quality", Some(0.25)),
            part("Scenarios", "scenarios_assessed", None),
        ],
    };
    parts.into_iter().flatten().collect()
}

fn per_tool(measure: &Value) -> Vec<Term> {
    let tools = measure.get("per_tool").and_then(Value::as_object);
    let tools = tools.into_iter().flatten();
    let term = |(name, value): (&String, &Value)| {
        Some(Term {
            name: name.clone(),
            value: value.as_f64()?,
            factor: None,
        })
    };
    tools.filter_map(term).collect()
}

/// Explains the stored rating of an axis: the assessed dimensions with their weights.
pub fn of_axis(axis: Axis, rating: &Value, config: &Config) -> Explanation {
    let weights = config.weights(axis);
    let score = |dimension: &Dimension| {
        let measure = rating.get("dimensions")?.get(dimension.as_str())?;
        let value = measure.get("raw").or_else(|| measure.get("score"))?;
        Some(Term {
            name: dimension.as_str().to_owned(),
            value: value.as_f64()?,
            factor: Some(weights.share(*dimension)),
        })
    };
    Explanation {
        formula: "Mean of the assessed dimensions, weighted as the organization configured; the \
                  weights of dimensions without a score are left out."
            .to_owned(),
        terms: axis.dimensions().iter().filter_map(score).collect(),
        value: rating.get("composite_raw").and_then(Value::as_f64),
    }
}

impl Explanation {
    /// The mean of the terms that have a factor, weighted by it; `None` without such a term.
    pub fn weighted_mean(&self) -> Option<f64> {
        let weighed = || {
            self.terms
                .iter()
                .filter_map(|it| Some((it.value, it.factor?)))
        };
        let weight: f64 = weighed().map(|(_, factor)| factor).sum();
        let total: f64 = weighed().map(|(value, factor)| value * factor).sum();
        (weight > 0.0).then(|| total / weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scoring::measure::{Details, Measure};
    use crate::rules::scoring::performance::blend_accuracy;

    fn close(one: Option<f64>, other: Option<f64>) -> bool {
        matches!((one, other), (Some(a), Some(b)) if (a - b).abs() < 1e-9)
    }

    #[test]
    fn the_terms_of_accuracy_give_its_value() {
        let measure = Measure::assessed(blend_accuracy(0.5, 0.1), 4, 4).with(Details::Accuracy {
            accuracy_from_revisions: 0.5,
            accuracy_from_errors: 0.1,
        });
        let stored = serde_json::to_value(&measure).unwrap();
        let config = Config::default();
        let explained = of_dimension(Dimension::Accuracy, &stored, &config.rules);
        assert!(close(explained.value, Some(0.34)));
        assert!(close(explained.weighted_mean(), explained.value));
    }

    #[test]
    fn a_dimension_without_evidence_has_a_formula_and_no_terms() {
        let stored = serde_json::to_value(Measure::unassessed("no tool was used")).unwrap();
        let config = Config::default();
        for dimension in Axis::ALL.iter().flat_map(|axis| axis.dimensions()) {
            let explained = of_dimension(*dimension, &stored, &config.rules);
            assert!(!explained.formula.is_empty());
            assert_eq!((explained.terms.len(), explained.value), (0, None));
        }
    }

    #[test]
    fn the_score_of_an_axis_is_the_mean_of_its_assessed_dimensions() {
        let rating = serde_json::json!({
            "composite_raw": 0.5 * 0.25 / 0.5 + 1.0 * 0.25 / 0.5,
            "dimensions": {
                "task_completion_rate": {"score": 0.5, "raw": 0.5},
                "accuracy": {"score": 1.0, "raw": 1.0},
                "speed": {"score": null, "reason": "no accepted task has a baseline"},
            },
        });
        let explained = of_axis(Axis::Performance, &rating, &Config::default());
        assert_eq!(explained.terms.len(), 2);
        assert!(close(explained.weighted_mean(), explained.value));
    }
}
