//! Improvement areas of a rating: the dimensions in which an agent could gain most, with advice for
//! each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::assessment::calibration::Scores;
use crate::rules::config::Config;
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::tier::Score;

/// Maximum number of weak dimensions that are named.
const MAX_DIMENSIONS: usize = 3;
/// Dimensions from this score on are not weak; the top tier begins here.
const STRONG: f64 = 0.90;

/// A dimension to improve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Area {
    pub dimension: Dimension,
    /// `None` if the dimension is not assessed.
    pub score: Option<Score>,
    /// Its weight in the axis, 0..=1.
    pub weight: f64,
    /// By how much a full score would raise the composite of the axis; `None` if the dimension is
    /// not assessed.
    pub gain: Option<f64>,
    pub advice: String,
}

/// The weakest dimensions of a rating, those with the largest gain first; then those without
/// evidence. Dimensions without weight are left out, and the result of a single dimension has no
/// areas.
pub fn areas(result: &Value, config: &Config) -> Vec<Area> {
    let scores = match serde_json::from_value::<Scores>(result.clone()) {
        Ok(scores) if result.get("performance").is_some() => scores,
        _ => return Vec::new(),
    };
    let dimensions = Axis::ALL.into_iter().flat_map(Axis::dimensions).copied();
    let all = dimensions.filter_map(|dimension| {
        let weight = config.weights(dimension.axis()).share(dimension);
        let score = scores.score(dimension);
        (weight > 0.0).then(|| Area {
            dimension,
            score,
            weight,
            gain: score.map(|score| Score::of(weight * (1.0 - score.as_f64())).as_f64()),
            advice: match score {
                Some(_) => advice(dimension),
                None => evidence(dimension),
            }
            .to_owned(),
        })
    });
    let (mut weak, missing): (Vec<Area>, Vec<Area>) = all.partition(|area| area.score.is_some());
    weak.retain(|area| area.score.is_some_and(|score| score.as_f64() < STRONG));
    // The sort is stable: dimensions with the same gain stay in the framework's order.
    weak.sort_by(|one, other| {
        let gain = |area: &Area| area.gain.unwrap_or_default();
        gain(other).total_cmp(&gain(one))
    });
    weak.truncate(MAX_DIMENSIONS);
    weak.extend(missing);
    weak
}

const fn advice(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::TaskCompletionRate => {
            "look at the tasks that failed or were only partly done, and fix the most frequent cause"
        }
        Dimension::Accuracy => {
            "look at the errors and revisions of recent tasks, and add checks for the most frequent ones before results are delivered"
        }
        Dimension::Speed => {
            "compare the slowest tasks with their baselines; reduce retries and unnecessary steps, or correct a baseline that does not fit"
        }
        Dimension::Consistency => {
            "compare the best and the worst task of the same group, and find out what differs"
        }
        Dimension::ReviewCompliance => {
            "look at the review items that fail most often, and put them into the agent's instructions"
        }
        Dimension::DomainBreadth => {
            "assign tasks in domains of the taxonomy in which the agent has not qualified yet"
        }
        Dimension::ComplexityCeiling => {
            "assign more tasks of the next complexity level, and look at those that fail"
        }
        Dimension::ToolProficiency => {
            "look at the tools with the most errors and unnecessary calls; improve their descriptions and the recovery from errors"
        }
        Dimension::AutonomyLevel => {
            "assign tasks at the next autonomy level, and remove the most frequent causes of intervention"
        }
        Dimension::LearningRate => {
            "feed corrections of earlier tasks back into the agent, and compare later tasks of the same group"
        }
        Dimension::DelegationCapability => {
            "look at the delegation decisions that were wrong: what to delegate, to which agent, and how the outcome was handled"
        }
        Dimension::OrchestrationSkills => {
            "look at orchestrations with failures: the plan, the instructions to workers, and how failures were recovered"
        }
    }
}

/// How to get evidence for a dimension that has none.
const fn evidence(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::TaskCompletionRate => "not assessed: record `task_completed` events",
        Dimension::Accuracy => {
            "not assessed: record `task_completed` events with `revision_count` and `errors`"
        }
        Dimension::Speed => {
            "not assessed: record `time_to_complete_seconds`, and set a baseline for the complexity levels in use"
        }
        Dimension::Consistency => "not assessed: record several completed tasks of the same group",
        Dimension::ReviewCompliance => "not assessed: record a `review_checklist` with tasks",
        Dimension::DomainBreadth => {
            "not assessed: record tasks with a `domain` of the organization's taxonomy"
        }
        Dimension::ComplexityCeiling => "not assessed: record tasks with a `complexity_level`",
        Dimension::ToolProficiency => "not assessed: record `tool_invoked` events or `tools_used`",
        Dimension::AutonomyLevel => "not assessed: record tasks with an `autonomy_level`",
        Dimension::LearningRate => {
            "not assessed: record more tasks of the same group over a longer time"
        }
        Dimension::DelegationCapability => {
            "not assessed: record `delegation_decision` events, or run the stress test of this dimension"
        }
        Dimension::OrchestrationSkills => {
            "not assessed: record `orchestration_result` events, or run the stress test of this dimension"
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn improvement_areas_are_sorted_by_their_effect_on_the_axis() {
        let result = json!({
            "performance": {"dimensions": {
                "task_completion_rate": {"score": 0.95}, "accuracy": {"score": 0.6}, "speed": {"score": 0.2},
                "consistency": {"score": 0.85}, "review_compliance": {"score": 0.89}}},
            "capability": {"dimensions": {
                "domain_breadth": {"score": 0.8}, "complexity_ceiling": {"score": 1.0}, "tool_proficiency": {"score": 0.9},
                "autonomy_level": {"score": 0.95}, "learning_rate": {"score": null}}},
        });
        let found = areas(&result, &Config::default());
        let named: Vec<&str> = found.iter().map(|it| it.dimension.as_str()).collect();
        assert_eq!(
            named,
            [
                "speed",
                "accuracy",
                "consistency",
                "learning_rate",
                "delegation_capability",
                "orchestration_skills"
            ]
        );
        // The weight is 0.15 of the axis, and 0.8 of the score is missing.
        assert_eq!((found[0].weight, found[0].gain), (0.15, Some(0.12)));
        assert_eq!(found[3].gain, None);
        assert!(found[3].advice.starts_with("not assessed: "), "{found:?}");
    }

    #[test]
    fn a_single_dimension_has_no_improvement_areas() {
        let result = json!({"dimension": "speed", "result": {"score": 0.1}});
        assert!(areas(&result, &Config::default()).is_empty());
    }
}
