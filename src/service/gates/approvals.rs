//! The consent of people to promotions: which approvals the policies in force ask for, and whether they are there
//! (RFC 0051, RFC 0082 §E).

use tracing::warn;

use super::{Gates, InForce, Question};
use crate::domain::deployment::{Lifecycle, Placement, Subject};
use crate::domain::ids::RunId;
use crate::domain::promotion::{ApprovalPolicy, Consent, Requirement, Unapproved};
use crate::domain::run::record::RunRecord;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::fault::internal;
use crate::service::runs::GateDecision;

/// An approval that a promotion takes.
pub struct Approval {
    /// What is consented to.
    pub digest: String,
    terms: ApprovalPolicy,
    /// Where the version goes.
    placements: Vec<Placement>,
    state: State,
}

enum State {
    /// Nobody was asked.
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

    /// Whether nobody was asked yet.
    pub fn is_needed(&self) -> bool {
        matches!(self.state, State::Needed)
    }

    /// The run that asks for it, whatever came of it.
    pub fn gate(&self) -> Option<&RunId> {
        match &self.state {
            State::Needed => None,
            State::Asked(gate, _) => Some(gate),
        }
    }

    /// Whether it was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.state, State::Asked(_, GateDecision::Refused))
    }

    /// The run that was opened to ask for it.
    pub fn asked_in(&mut self, gate: RunId) {
        self.state = State::Asked(gate, GateDecision::Pending);
    }

    /// What is missing, if it is not granted.
    pub fn unmet(&self) -> Option<Requirement> {
        let (consent, gate) = match &self.state {
            State::Asked(_, GateDecision::Granted) => return None,
            State::Needed => (Consent::ApprovalNeeded, None),
            State::Asked(gate, GateDecision::Pending) => (Consent::ApprovalPending, Some(gate)),
            State::Asked(gate, GateDecision::Refused) => (Consent::ApprovalRefused, Some(gate)),
        };
        let unapproved = Unapproved::new(consent, &self.terms, gate.cloned());
        Some(Requirement::Approval(unapproved))
    }
}

impl Gates {
    /// The approvals that a promotion takes under these policies, and how far each of them is.
    ///
    /// # Errors
    /// A fault of ours.
    pub async fn approvals(
        &self,
        question: &Question<'_>,
        policies: &[InForce],
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
            // Whoever is asked by several channels under the same terms is asked once.
            let placements: Vec<&Placement> = policies
                .iter()
                .filter(|other| other.policy.approval.as_ref() == Some(terms))
                .map(|other| &other.placement)
                .collect();
            let subject = Subject {
                agent_id: question.agent,
                version: question.version,
                pack_integrity: question.pack_integrity.unwrap_or_default(),
                placements: placements.clone(),
                eval_run_id: question.evidence,
                terms,
            };
            let digest = subject.digest().map_err(|cause| internal(&cause))?;
            let state = match lifecycle.gate_of(&digest) {
                None => State::Needed,
                Some(gate) => match self.runs.gate_decision(question.tenant, gate).await {
                    Ok(decision) => State::Asked(gate.clone(), decision),
                    // What nobody can look up any more is no consent.
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

    /// Has recorded gates ask at once, so that whoever learns of them can answer. One that cannot be opened is a worker's to
    /// open, as any run is.
    pub async fn open(&self, gates: &[RunRecord]) {
        for gate in gates {
            if let Err(problem) = self.runs.open_gate(gate).await {
                warn!(run_id = %gate.run_id, code = %problem.code, "an approval gate is left to the workers");
                self.store.notify_work().await;
            }
        }
    }

    /// The run that asks for an approval, not yet recorded.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn ask(
        &self,
        question: &Question<'_>,
        principal: &str,
        approval: &Approval,
    ) -> Result<RunRecord, Problem> {
        let what = format!("{}@{}", question.agent, question.version);
        let places: Vec<String> = approval
            .placements
            .iter()
            .map(Placement::to_string)
            .collect();
        let rests = match question.evidence {
            Some(run) => format!("resting on eval run {run}"),
            None => "resting on no eval run".to_owned(),
        };
        let title = format!(
            "Promote {what} into service {}; {rests}",
            places.join(" and ")
        );
        let tenant = question.tenant;
        self.runs
            .approval_gate(tenant, principal, &title, &what, &approval.terms)
    }
}
