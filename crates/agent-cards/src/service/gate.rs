//! Agent card scores as a condition of promotions.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::gate::{CardPolicy, described, unmet};
use crate::service::history::CardScores;
use touchstone_deployments::described::Described;
use touchstone_deployments::promotion::Requirement;
use touchstone_deployments::service::gates::GateInput;
use touchstone_deployments::service::gates::condition::{Condition, Undescribed, complete, read};
use touchstone_kit::error::Problem;

/// Requires scores of the agent's card.
pub struct CardGate {
    scores: Arc<CardScores>,
}

impl CardGate {
    pub fn new(scores: Arc<CardScores>) -> Self {
        Self { scores }
    }
}

#[async_trait]
impl Condition for CardGate {
    fn member(&self) -> &'static str {
        "agentCard"
    }

    fn kind(&self) -> &'static str {
        "agent-card"
    }

    fn complete(&self, value: &RawValue) -> Result<Box<RawValue>, Undescribed> {
        complete::<CardPolicy>(value)
    }

    fn check(&self, value: &RawValue) -> Result<(), Problem> {
        read::<CardPolicy>(value)?
            .check()
            .map_err(|fault| Problem::validation("policy", fault.to_string()))
    }

    fn describe(&self, value: &RawValue) -> Result<Vec<Described>, Problem> {
        Ok(described(&read::<CardPolicy>(value)?))
    }

    async fn unmet(
        &self,
        value: &RawValue,
        input: &GateInput<'_>,
        now: Timestamp,
    ) -> Result<Vec<Requirement>, Problem> {
        let policy: CardPolicy = read(value)?;
        let looks = match policy.place() {
            Some(place) => self.scores.history(input.tenant, &place, 1).await?,
            None => Vec::new(),
        };
        let unmet = unmet(&policy, looks.first(), now).into_iter();
        let named =
            unmet.map(|it| Requirement::new(self.kind(), it.condition.as_str(), it.message));
        Ok(named.collect())
    }
}
