//! Dimensions over all agents of an organization.

use crate::ports::agents::AgentRecord;
use crate::ports::assessments::AssessmentOutcome;
use crate::rules::agent::Status;
use crate::rules::assessment::overview::{DimensionOverview, RatedAgent, overview};
use crate::service::{Member, Ratings};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;

/// Maximum number of agents that are included, in order of enrollment.
const MAX_AGENTS: usize = 1000;
/// Number of agents read at once.
const PAGE: u32 = 200;

/// Every dimension over the agents of an organization.
#[derive(Debug)]
pub struct Dimensions {
    /// Number of agents that were included.
    pub agents: usize,
    /// The included agents without a rating.
    pub not_rated: Vec<AgentRecord>,
    /// Whether there are agents beyond the limit.
    pub more: bool,
    /// The dimensions, weakest first.
    pub dimensions: Vec<DimensionOverview>,
}

impl Ratings {
    /// Every dimension over the agents that are neither suspended nor archived, based on their
    /// published ratings.
    ///
    /// # Errors
    /// The store failed.
    pub async fn dimensions(&self, member: &Member) -> Result<Dimensions, Problem> {
        let (mut rated, mut not_rated) = (Vec::new(), Vec::new());
        let (mut agents, mut more, mut after) = (0, false, None);
        while !more {
            let page = self
                .agents(member, Some(Status::Active), after.as_ref(), PAGE)
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(last.position());
            for agent in page {
                if agents == MAX_AGENTS {
                    more = true;
                    break;
                }
                agents += 1;
                match self.rated_agent(&agent).await? {
                    Some(it) => rated.push(it),
                    None => not_rated.push(agent),
                }
            }
        }
        let dimensions =
            crate::service::assessments::score_on_thread(move || overview(&rated)).await?;
        Ok(Dimensions {
            agents,
            not_rated,
            more,
            dimensions,
        })
    }

    async fn rated_agent(&self, agent: &AgentRecord) -> Result<Option<RatedAgent>, Problem> {
        let rating = self.accepted_rating(agent.number).await;
        let rating = rating.map_err(|cause| internal(&cause))?;
        Ok(rating.and_then(|it| match it.outcome {
            Some(AssessmentOutcome::Scored {
                result, intervals, ..
            }) => Some(RatedAgent {
                agent_id: agent.id.clone(),
                name: agent.name.clone(),
                assessment_id: it.id,
                result,
                intervals,
            }),
            _ => None,
        }))
    }
}
