//! A promotion policy with the conditions that the commands have options and words for.

use serde::{Deserialize, Serialize};

use touchstone_agent_cards::gate::CardPolicy;
use touchstone_deployments::promotion::{PolicyScope, PromotionPolicy};
use touchstone_oasis::gate::OasisPolicy;
use touchstone_ratings::gate::RatingPolicy;
use touchstone_runs::rules::eval::gate::GatePolicy;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policy {
    pub eval: Option<GatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<RatingPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<CardPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oasis: Option<OasisPolicy>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            eval: PromotionPolicy::default().eval,
            approval: None,
            rating: None,
            agent_card: None,
            oasis: None,
        }
    }
}

impl Policy {
    /// Refuses a policy that is contradictory or can never be met.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn check(&self) -> Result<(), String> {
        let core = PromotionPolicy {
            eval: self.eval.clone(),
            approval: self.approval.clone(),
            ..PromotionPolicy::default()
        };
        core.check().map_err(|fault| fault.to_string())?;
        if let Some(rating) = &self.rating {
            rating.check().map_err(|fault| fault.to_string())?;
        }
        if let Some(card) = &self.agent_card {
            card.check().map_err(|fault| fault.to_string())?;
        }
        if let Some(oasis) = &self.oasis {
            oasis.check().map_err(|fault| fault.to_string())?;
        }
        Ok(())
    }
}

/// A policy and the agent and channel that it is set for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scoped {
    #[serde(flatten)]
    pub scope: PolicyScope,
    pub policy: Policy,
}
