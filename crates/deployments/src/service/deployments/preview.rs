//! What a transition would do and need, without a change: the same steps as the transition itself.

use serde_json::Value;

use crate::examination::ExaminedCondition;
use crate::promotion::ApprovalState;
use crate::rules::{Placement, parse};
use crate::service::deployments::{
    CheckedRequest, Deployments, PromotionConditions, refused, scope_of,
};
use crate::service::gates::approvals::Approval;
use touchstone_host::access::Demand;
use touchstone_host::service::access::{Caller, decide};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_openwop::deployment::DeploymentState;
use touchstone_packs::service::installed::installed;

/// A transition that was not made.
pub struct Preview {
    pub from: DeploymentState,
    /// `None` if the transition is impossible.
    pub to: Option<DeploymentState>,
    /// Why the transition is impossible.
    pub impossible: Option<Problem>,
    /// Where the version would serve afterwards.
    pub placements: Vec<Placement>,
    /// Every condition, met or not; empty for a transition without a gate.
    pub conditions: Vec<ExaminedCondition>,
    /// The eval run that would be the evidence.
    pub eval_run_id: Option<RunId>,
}

impl Preview {
    /// Whether the transition would be made.
    pub fn is_allowed(&self) -> bool {
        self.impossible.is_none() && self.conditions.iter().all(|it| it.met)
    }

    /// Whether the transition would only ask people for approval: nothing else is missing, and an
    /// approval was not requested yet or was refused.
    pub fn asks_for_approval(&self) -> bool {
        let asks = [
            ApprovalState::ApprovalNeeded.as_str(),
            ApprovalState::ApprovalRefused.as_str(),
        ];
        let mut unmet = self.conditions.iter().filter(|it| !it.met).peekable();
        let some = unmet.peek().is_some();
        self.impossible.is_none() && some && unmet.all(|it| asks.contains(&it.condition.as_str()))
    }
}

impl Deployments {
    /// What a transition would do and need. Only [`transition`](Self::transition) decides.
    ///
    /// # Errors
    /// `validation_error` for a malformed body, `not_found`.
    pub async fn preview(
        &self,
        caller: &Caller,
        agent: &AgentId,
        body: &Value,
    ) -> Result<Preview, Problem> {
        let mut asked = parse(body, &self.channels)?;
        let installed = installed(self.store.as_ref(), &caller.tenant, agent).await?;
        asked.pack_integrity = installed.integrity(&asked.version).map(str::to_owned);
        let (before, _) = self.lifecycle(&caller.tenant, agent, &installed).await?;
        if asked.pack_integrity.is_none() && !before.knows(&asked.version) {
            return Err(Problem::new(
                ErrorCode::NotFound,
                "no such version of this agent",
            ));
        }
        let scope = scope_of(asked.transition);
        let resource = format!("{agent}@{}", asked.version);
        let decision = decide(caller, &Demand::scope(scope), scope.as_str(), &resource);
        let request = CheckedRequest {
            caller,
            agent,
            asked: &asked,
            installed: &installed,
            decision: &decision,
            claim: None,
        };
        let mut preview = Preview {
            from: before.state(&asked.version),
            to: None,
            impossible: None,
            placements: Vec::new(),
            conditions: Vec::new(),
            eval_run_id: None,
        };
        let after = match before.apply(agent, &asked) {
            Ok((after, _)) => after,
            Err(cause) => {
                preview.impossible = Some(refused(cause));
                return Ok(preview);
            }
        };
        preview.to = Some(after.state(&asked.version));
        preview.placements = after.placements(&asked.version);
        let Some(hurdles) = self.hurdles(&request, &before, &after).await? else {
            return Ok(preview);
        };
        let PromotionConditions { input, policies } = &hurdles;
        let approvals = self.gates.approvals(input, policies, &before).await?;
        let judged = self.gates.unmet(input, policies).await?;
        preview.conditions = approvals.iter().map(Approval::examined).collect();
        preview.conditions.extend(judged.conditions);
        preview.eval_run_id = input.evidence.cloned();
        Ok(preview)
    }
}
