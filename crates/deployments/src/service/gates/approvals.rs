//! Approval of promotions by people: which approvals the policies in force require, and their state
//! (RFC 0051, RFC 0082 §E).

use tracing::warn;

use crate::examination::ExaminedCondition;
use crate::promotion::{APPROVAL, ApprovalState, Requirement, approvers};
use crate::rules::{Lifecycle, Placement, Subject};
use crate::service::gates::{ApplicablePolicy, GateInput, Gates};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;
use touchstone_runs::service::runs::interrupts::GateDecision;

/// An approval that a promotion requires.
pub struct Approval {
    /// The digest of what is approved.
    pub digest: String,
    terms: ApprovalPolicy,
    placements: Vec<Placement>,
    state: State,
}

enum State {
    /// Not requested yet.
    Needed,
    Asked(RunId, GateDecision),
}

impl Approval {
    /// The run that grants it, if it is granted.
    pub fn granted(&self) -> Option<&RunId> {
        match &self.state {
            State::Asked(gate, GateDecision::Granted) => Some(gate),
            _ => None,
        }
    }

    /// Whether it has not been requested yet.
    pub fn is_needed(&self) -> bool {
        matches!(self.state, State::Needed)
    }

    /// The run that requests it, in any state.
    pub fn gate(&self) -> Option<&RunId> {
        match &self.state {
            State::Needed => None,
            State::Asked(gate, _) => Some(gate),
        }
    }

    pub fn is_refused(&self) -> bool {
        matches!(self.state, State::Asked(_, GateDecision::Refused))
    }

    /// Sets the run that was created to request it.
    pub fn asked_in(&mut self, gate: RunId) {
        self.state = State::Asked(gate, GateDecision::Pending);
    }

    /// The missing condition, if it is not granted.
    pub fn unmet(&self) -> Option<Requirement> {
        let (consent, gate) = match &self.state {
            State::Asked(_, GateDecision::Granted) => return None,
            State::Needed => (ApprovalState::ApprovalNeeded, None),
            State::Asked(gate, GateDecision::Pending) => {
                (ApprovalState::ApprovalPending, Some(gate))
            }
            State::Asked(gate, GateDecision::Refused) => {
                (ApprovalState::ApprovalRefused, Some(gate))
            }
        };
        Some(Requirement::approval(consent, &self.terms, gate.cloned()))
    }

    /// The condition, met or not.
    pub fn examined(&self) -> ExaminedCondition {
        let unmet = self.unmet();
        let granted = "approval-granted".to_owned();
        ExaminedCondition {
            kind: APPROVAL.to_owned(),
            condition: unmet.as_ref().map_or(granted, |it| it.condition.clone()),
            requirement: requirement(&self.terms),
            met: unmet.is_none(),
            message: unmet.map_or_else(String::new, |it| it.message),
            approval_gate_id: self.gate().cloned(),
        }
    }
}

/// An approval as a condition.
pub fn requirement(terms: &ApprovalPolicy) -> String {
    format!("approval of {}", approvers(terms))
}

impl Gates {
    /// The approvals that a promotion requires under these policies, and their states.
    ///
    /// # Errors
    /// An internal error.
    pub async fn approvals(
        &self,
        input: &GateInput<'_>,
        policies: &[ApplicablePolicy],
        lifecycle: &Lifecycle,
    ) -> Result<Vec<Approval>, Problem> {
        let mut found: Vec<Approval> = Vec::new();
        for policy in policies {
            let Some(terms) = &policy.policy.approval else {
                continue;
            };
            if found.iter().any(|approval| approval.terms == *terms) {
                continue;
            }
            // Channels with the same approval terms share one request.
            let placements: Vec<&Placement> = policies
                .iter()
                .filter(|other| other.policy.approval.as_ref() == Some(terms))
                .map(|other| &other.placement)
                .collect();
            let subject = Subject {
                agent_id: input.agent,
                version: input.version,
                pack_integrity: input.pack_integrity.unwrap_or_default(),
                placements: placements.clone(),
                eval_run_id: input.evidence,
                terms,
            };
            let digest = subject.digest().map_err(|cause| internal(&cause))?;
            let state = match lifecycle.gate_of(&digest) {
                None => State::Needed,
                Some(gate) => match self.runs.gate_decision(input.tenant, gate).await {
                    Ok(decision) => State::Asked(gate.clone(), decision),
                    // A gate whose run was deleted grants nothing.
                    Err(problem) if problem.code == ErrorCode::NotFound => State::Needed,
                    Err(problem) => return Err(problem),
                },
            };
            found.push(Approval {
                digest,
                terms: terms.clone(),
                placements: placements.into_iter().cloned().collect(),
                state,
            });
        }
        Ok(found)
    }

    /// The decision of the run that asks for an approval.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn decision_of(
        &self,
        tenant: &TenantId,
        gate: &RunId,
    ) -> Result<GateDecision, Problem> {
        self.runs.gate_decision(tenant, gate).await
    }

    /// Opens recorded gates at once, so that they can be answered immediately. A gate that cannot
    /// be opened here is opened by a worker, like any run.
    pub async fn open(&self, gates: &[RunRecord]) {
        for gate in gates {
            if let Err(problem) = self.runs.open_gate(gate).await {
                warn!(run_id = %gate.run_id, code = %problem.code, "could not open an approval gate; a worker will open it");
                self.store.notify_work().await;
            }
        }
    }

    /// The run that requests an approval, not yet recorded.
    ///
    /// # Errors
    /// An internal error.
    pub fn ask(
        &self,
        input: &GateInput<'_>,
        principal: &str,
        approval: &Approval,
    ) -> Result<RunRecord, Problem> {
        let what = format!("{}@{}", input.agent, input.version);
        let places: Vec<String> = approval
            .placements
            .iter()
            .map(Placement::to_string)
            .collect();
        let rests = match input.evidence {
            Some(run) => format!("based on eval run {run}"),
            None => "without an eval run".to_owned(),
        };
        let title = format!(
            "Promote {what} into service {}; {rests}",
            places.join(" and ")
        );
        let tenant = input.tenant;
        self.runs
            .approval_gate(tenant, principal, &title, &what, &approval.terms)
    }
}
