//! One dimension over all agents of an organization, to show its capability gaps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::assessment::calibration::Scores;
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::interval::Intervals;
use crate::rules::scoring::tier::{Score, Tier};

#[derive(Clone, Debug)]
pub struct RatedAgent {
    pub agent_id: String,
    pub name: String,
    pub assessment_id: String,
    /// The result of the assessment, as stored.
    pub result: Value,
    pub intervals: Intervals,
}

/// The score of an agent in one dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentScore {
    pub agent_id: String,
    pub name: String,
    pub assessment_id: String,
    /// `None` if the dimension is not assessed.
    pub score: Option<Score>,
    /// The lower limit of the 95 % interval, if there is one.
    pub low: Option<Score>,
    /// The upper limit of the 95 % interval.
    pub high: Option<Score>,
    /// The tier that an axis with a composite of this score would reach.
    pub tier: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimensionOverview {
    pub dimension: Dimension,
    pub axis: Axis,
    /// Number of agents with a score.
    pub assessed: usize,
    /// The mean of their scores.
    pub mean: Option<Score>,
    /// The agents, weakest first, then those without a score.
    pub agents: Vec<AgentScore>,
}

/// Every dimension over these agents, the one with the lowest mean first. Dimensions in which no
/// agent is assessed come last.
pub fn overview(agents: &[RatedAgent]) -> Vec<DimensionOverview> {
    let rated: Vec<(&RatedAgent, Scores)> = agents
        .iter()
        .filter_map(|agent| Some((agent, serde_json::from_value(agent.result.clone()).ok()?)))
        .collect();
    let dimensions = Axis::ALL.into_iter().flat_map(Axis::dimensions).copied();
    let mut overview: Vec<DimensionOverview> =
        dimensions.map(|dimension| of(dimension, &rated)).collect();
    // The sort is stable: equal dimensions stay in the framework's order.
    overview.sort_by_key(|it| weakest_first(it.mean));
    overview
}

/// Sorts missing scores last.
fn weakest_first(score: Option<Score>) -> (bool, Option<Score>) {
    (score.is_none(), score)
}

fn of(dimension: Dimension, rated: &[(&RatedAgent, Scores)]) -> DimensionOverview {
    let axis = dimension.axis();
    let place = |(agent, scores): &(&RatedAgent, Scores)| {
        let score = scores.score(dimension);
        let interval = agent.intervals.get(&dimension);
        AgentScore {
            agent_id: agent.agent_id.clone(),
            name: agent.name.clone(),
            assessment_id: agent.assessment_id.clone(),
            score,
            low: interval.map(|it| it.low),
            high: interval.map(|it| it.high),
            tier: score.map(|score| Tier::of(axis, score).name().to_owned()),
        }
    };
    let mut agents: Vec<AgentScore> = rated.iter().map(place).collect();
    agents.sort_by(|one, other| {
        let order = |it: &AgentScore| weakest_first(it.score);
        let by_name = one.name.cmp(&other.name);
        order(one).cmp(&order(other)).then(by_name)
    });
    let scores: Vec<f64> = agents
        .iter()
        .filter_map(|it| Some(it.score?.as_f64()))
        .collect();
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    DimensionOverview {
        dimension,
        axis,
        assessed: scores.len(),
        mean: (!scores.is_empty()).then(|| Score::of(mean)),
        agents,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(name: &str, speed: Option<f64>, accuracy: f64) -> RatedAgent {
        RatedAgent {
            agent_id: format!("id-{name}"),
            name: name.to_owned(),
            assessment_id: format!("of-{name}"),
            result: json!({"performance": {"dimensions": {"speed": {"score": speed}, "accuracy": {"score": accuracy}}},
                "capability": {"dimensions": {}}}),
            intervals: Intervals::new(),
        }
    }

    #[test]
    fn the_weakest_agent_of_the_weakest_dimension_comes_first() {
        let agents = [
            agent("strong", Some(0.8), 0.95),
            agent("unknown", None, 0.6),
            agent("weak", Some(0.1), 0.9),
        ];
        let overview = overview(&agents);
        assert_eq!(overview.len(), 12);
        let named = |it: &DimensionOverview| -> Vec<String> {
            it.agents.iter().map(|agent| agent.name.clone()).collect()
        };
        let speed = &overview[0];
        assert_eq!((speed.dimension, speed.assessed), (Dimension::Speed, 2));
        assert_eq!(speed.mean, Some(Score::of(0.45)));
        assert_eq!(named(speed), ["weak", "strong", "unknown"]);
        assert_eq!(speed.agents[0].tier.as_deref(), Some("Novice"));
        assert_eq!(speed.agents[2].score, None);
        let accuracy = &overview[1];
        assert_eq!(accuracy.dimension, Dimension::Accuracy);
        assert_eq!(named(accuracy), ["unknown", "weak", "strong"]);
        // No agent is assessed in these.
        assert!(overview[2..].iter().all(|it| it.mean.is_none()));
    }
}
