//! The agents of an organization by their ratings, and the ratings of one agent over time.

use serde_json::Value;

use crate::ports::agents::AgentRecord;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord, Stage};
use crate::rules::assessment::Kind;
use crate::rules::{Axis, Score, Tier};
use crate::service::{Member, Ratings};
use touchstone_kit::error::Problem;

/// Maximum number of agents that are ranked, in order of enrollment.
const MAX_AGENTS: usize = 1000;
/// Number of records read at once.
const PAGE: u32 = 200;
/// Maximum number of assessments that are read for the history of an agent.
const MAX_READ: usize = 2000;

/// The order of standings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandingOrder {
    /// The highest score on the axis first; agents without a rating last.
    By(Axis),
    /// By name.
    #[default]
    Name,
}

/// Which agents are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandingFilter {
    /// Only agents with this tier.
    pub tier: Option<Tier>,
}

/// An agent and its published rating.
#[derive(Clone, Debug)]
pub struct Standing {
    pub agent: AgentRecord,
    /// `None` without a rating, and for callers that may not read assessments.
    pub rating: Option<AssessmentRecord>,
}

impl Standing {
    /// Score and tier on an axis.
    pub fn on(&self, axis: Axis) -> Option<(Score, Tier)> {
        on_axis(self.rating.as_ref()?, axis)
    }
}

/// Score and tier of an assessment on an axis.
pub fn on_axis(assessment: &AssessmentRecord, axis: Axis) -> Option<(Score, Tier)> {
    let rated = result(assessment)?.get(axis.as_str())?;
    let member = |name: &str| rated.get(name).cloned().unwrap_or(Value::Null);
    let score = serde_json::from_value(member("composite_score")).ok()?;
    let tier = serde_json::from_value(member("tier")).ok()?;
    Some((score, tier))
}

/// The scores of an assessment; `None` if it has none.
pub fn result(assessment: &AssessmentRecord) -> Option<&Value> {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored { result, .. }) => Some(result),
        _ => None,
    }
}

/// The agents that the filter lets through, in the order.
pub fn ranked(
    mut standings: Vec<Standing>,
    order: StandingOrder,
    filter: StandingFilter,
) -> Vec<Standing> {
    if let Some(tier) = filter.tier {
        let has = |it: &Standing| it.on(tier.axis()).is_some_and(|(_, own)| own == tier);
        standings.retain(has);
    }
    standings.sort_by(|a, b| {
        a.agent
            .name
            .cmp(&b.agent.name)
            .then_with(|| a.agent.id.cmp(&b.agent.id))
    });
    if let StandingOrder::By(axis) = order {
        let score = |it: &Standing| it.on(axis).map(|(score, _)| score);
        standings.sort_by_key(|it| std::cmp::Reverse(score(it)));
    }
    standings
}

/// The agents of an organization and whether there are more than are ranked.
#[derive(Clone, Debug)]
pub struct Standings {
    pub agents: Vec<Standing>,
    pub more: bool,
}

impl Ratings {
    /// The agents that are not archived, with their published ratings.
    ///
    /// # Errors
    /// The store failed.
    pub async fn standings(&self, member: &Member) -> Result<Standings, Problem> {
        let mut agents = Vec::new();
        let mut after = None;
        loop {
            let page = self.agents(member, None, after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(Standings {
                    agents,
                    more: false,
                });
            };
            after = Some(last.position());
            for agent in page.into_iter().filter(|agent| !agent.archived) {
                if agents.len() == MAX_AGENTS {
                    return Ok(Standings { agents, more: true });
                }
                let rating = self.published_rating(member, &agent).await?;
                agents.push(Standing { agent, rating });
            }
        }
    }

    /// The last `limit` assessments of an agent, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn newest_assessments(
        &self,
        member: &Member,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<AssessmentRecord>, Problem> {
        let mut found = self.read_assessments(member, agent, None).await?;
        found.reverse();
        found.truncate(limit);
        Ok(found)
    }

    /// The last `limit` assessments of an agent that rated both axes, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn rating_history(
        &self,
        member: &Member,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<AssessmentRecord>, Problem> {
        let mut found = self
            .read_assessments(member, agent, Some(Stage::Completed))
            .await?;
        found.retain(|it| {
            let single = matches!(it.request.assessment.kind, Kind::SingleDimension(_));
            !single && result(it).is_some()
        });
        let surplus = found.len().saturating_sub(limit);
        found.drain(..surplus);
        Ok(found)
    }

    /// The first [`MAX_READ`] assessments of an agent, oldest first.
    async fn read_assessments(
        &self,
        member: &Member,
        agent: &str,
        stage: Option<Stage>,
    ) -> Result<Vec<AssessmentRecord>, Problem> {
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < MAX_READ {
            let page = self.assessments(member, Some(agent), stage, after.as_ref(), PAGE);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            after = Some(last.position());
            found.extend(page);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::ports::agents::AgentNumber;
    use crate::ports::assessments::AssessmentRequest;
    use crate::ports::organizations::OrganizationNumber;
    use crate::rules::Assessment;

    fn standing(name: &str, scores: Option<(f64, f64)>) -> Standing {
        let agent = AgentRecord {
            number: AgentNumber(1),
            id: name.to_owned(),
            name: name.to_owned(),
            archived: false,
            suspended: false,
            observed: true,
            profile: serde_json::from_value(json!({"domains": [], "tools": []})).unwrap(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            revision: 1,
        };
        let rating = scores.map(|(performance, capability)| AssessmentRecord {
            id: name.to_owned(),
            organization: OrganizationNumber(1),
            agent_number: AgentNumber(1),
            agent: name.to_owned(),
            stage: Stage::Completed,
            request: request(),
            outcome: Some(AssessmentOutcome::Scored {
                result: json!({
                    "performance": axis(Axis::Performance, performance),
                    "capability": axis(Axis::Capability, capability),
                }),
                evidence_until: None,
                calibration: None,
                uncertified: None,
                review: None,
                intervals: Default::default(),
            }),
            badge: None,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: None,
            ended_at: None,
        });
        Standing { agent, rating }
    }

    fn axis(axis: Axis, score: f64) -> Value {
        let score = Score::of(score);
        json!({"composite_score": score, "tier": Tier::of(axis, score)})
    }

    fn request() -> AssessmentRequest {
        AssessmentRequest {
            assessment: Assessment {
                id: None,
                kind: Kind::PassiveOnly,
                window_start: Timestamp::UNIX_EPOCH,
                window_end: Timestamp::UNIX_EPOCH,
            },
            config: Value::Null,
            triggered_by: "dana".to_owned(),
            weighs_sources: true,
            stress_test: None,
            stress_test_omitted: None,
            agent_version: None,
            command: None,
        }
    }

    fn names(order: StandingOrder, tier: Option<Tier>) -> Vec<String> {
        let all = vec![
            standing("quiet", None),
            standing("good", Some((0.95, 0.2))),
            standing("broad", Some((0.5, 0.9))),
        ];
        let ranked = ranked(all, order, StandingFilter { tier });
        ranked.into_iter().map(|it| it.agent.name).collect()
    }

    #[test]
    fn agents_are_ordered_by_axis_and_those_without_a_rating_come_last() {
        let by = |axis| names(StandingOrder::By(axis), None);
        assert_eq!(by(Axis::Performance), ["good", "broad", "quiet"]);
        assert_eq!(by(Axis::Capability), ["broad", "good", "quiet"]);
        assert_eq!(names(StandingOrder::Name, None), ["broad", "good", "quiet"]);
    }

    #[test]
    fn a_tier_selects_the_agents_that_have_it() {
        let elite = Tier::of(Axis::Performance, Score::of(0.95));
        assert_eq!(names(StandingOrder::Name, Some(elite)), ["good"]);
    }
}
