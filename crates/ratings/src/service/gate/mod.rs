//! Ratings as a condition of promotions.

pub mod rating_status;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::gate::{RatingPolicy, described, unmet};
use crate::service::Ratings;
use touchstone_deployments::described::Described;
use touchstone_deployments::promotion::Requirement;
use touchstone_deployments::service::gates::GateInput;
use touchstone_deployments::service::gates::condition::{Condition, Undescribed, complete, read};
use touchstone_kit::error::Problem;

/// Requires a rating of the version.
pub struct RatingGate {
    ratings: Arc<Ratings>,
}

impl RatingGate {
    pub fn new(ratings: Arc<Ratings>) -> Self {
        Self { ratings }
    }
}

#[async_trait]
impl Condition for RatingGate {
    fn member(&self) -> &'static str {
        "rating"
    }

    fn kind(&self) -> &'static str {
        "rating"
    }

    fn complete(&self, value: &RawValue) -> Result<Box<RawValue>, Undescribed> {
        complete::<RatingPolicy>(value)
    }

    fn check(&self, value: &RawValue) -> Result<(), Problem> {
        read::<RatingPolicy>(value)?
            .check()
            .map_err(|fault| Problem::validation("policy", fault.to_string()))
    }

    fn describe(&self, value: &RawValue) -> Result<Vec<Described>, Problem> {
        Ok(described(&read::<RatingPolicy>(value)?))
    }

    async fn unmet(
        &self,
        value: &RawValue,
        input: &GateInput<'_>,
        now: Timestamp,
    ) -> Result<Vec<Requirement>, Problem> {
        let policy: RatingPolicy = read(value)?;
        let version = input.version.to_string();
        let (tenant, agent) = (input.tenant, input.agent.as_str());
        let rating_status = self.ratings.rating_status(tenant, agent, &version).await?;
        let unmet = unmet(&policy, &version, &rating_status, now).into_iter();
        let named =
            unmet.map(|it| Requirement::new(self.kind(), it.condition.as_str(), it.message));
        Ok(named.collect())
    }
}
