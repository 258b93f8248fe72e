//! Moving versions of agents through their deployments (RFC 0082 §E).
//!
//! The order of checks: the request is parsed and the entities it names are looked up; it is
//! authorized, fail-closed; if the policy says so, people are asked to approve it; the evidence is
//! evaluated; only then the deployment changes. A request that is granted, denied, not approved or
//! stopped by its gate is recorded as a separate run, with the reason in its log, and as an entry
//! of the audit log. An impossible request (malformed, about something that does not exist, or not
//! allowed from this state) is refused and leaves neither. A caller without the scope does not
//! learn what is wrong with an impossible request: the response is `forbidden`. Run, deployments,
//! audit entry and response are written in one transaction, so a crash leaves all of them or none.
//! Of two concurrent requests, the later one is decided again on the state the earlier one left.

pub mod overview;
pub mod preview;
pub mod record;

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::warn;

use crate::promotion::Requirement;
use crate::rules::{Channel, Lifecycle, TransitionError, TransitionRequest, parse};
use crate::service::deployments::record::DecisionEvidence;
use crate::service::gates::approvals::Approval;
use crate::service::gates::{ApplicablePolicy, GateInput, Gates};
use crate::store;
use touchstone_host::access::{Demand, Scope};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access;
use touchstone_host::service::access::{Caller, authorise, decide};
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};
use touchstone_openwop::events::Event;
use touchstone_packs::ports::inventory::Revision;
use touchstone_packs::service::installed::{Installed, installed};
use touchstone_runs::ports::queue::CancelRequest;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::runs::interrupts::GATE_NODE;
use touchstone_runs::store as run_store;

/// How often a transition is decided again because a concurrent change came first.
const ATTEMPTS: u32 = 32;

/// Maximum number of open approvals for one version: each is a waiting run.
const MOST_QUESTIONS: usize = 32;

/// A completed transition.
#[derive(Clone, Debug)]
pub struct CompletedTransition {
    /// The record after the transition.
    pub record: AgentDeployment,
    /// The run that holds the events.
    pub run_id: RunId,
}

pub struct Deployments {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    gates: Arc<Gates>,
    channels: Arc<[Channel]>,
}

/// A parsed request whose entities exist.
struct CheckedRequest<'a> {
    caller: &'a Caller,
    agent: &'a AgentId,
    asked: &'a TransitionRequest,
    installed: &'a Installed,
    decision: &'a access::Decision,
    claim: Option<&'a IdempotencyClaim>,
}

/// The outcome of a request.
enum TransitionOutcome {
    Moved {
        after: Lifecycle,
        seen: Revision,
        events: Vec<Event>,
        record: Box<AgentDeployment>,
    },
    Denied,
    /// Approvals are missing. Other unmet conditions are reported too.
    Unapproved {
        unmet: Vec<Requirement>,
        /// The approvals to request, or the ones that were refused.
        asked: Option<(Lifecycle, Revision)>,
        opens: Vec<RunRecord>,
    },
    Unmet(Vec<Requirement>),
}

/// The conditions of a promotion.
struct PromotionConditions<'a> {
    input: GateInput<'a>,
    policies: Vec<ApplicablePolicy>,
}

impl Deployments {
    /// The use cases over their ports, on a host with these channels.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        gates: Arc<Gates>,
        channels: Arc<[Channel]>,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            gates,
            channels,
        }
    }

    /// The channels of this host.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The deployment records of an agent, by version.
    ///
    /// # Errors
    /// `not_found` for an agent that is not installed, or is another tenant's.
    pub async fn list(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<Vec<AgentDeployment>, Problem> {
        let installed = installed(self.store.as_ref(), tenant, agent).await?;
        let (lifecycle, _) = self.lifecycle(tenant, agent, &installed).await?;
        Ok(lifecycle.records(agent, installed.versions()))
    }

    /// Makes a transition, or records why not. With a claim, the idempotency record is completed in
    /// the same transaction.
    ///
    /// # Errors
    /// In this order: `forbidden`, `validation_error` for a malformed body, `not_found`,
    /// `validation_error` for a transition that the version's state does not have, `forbidden` with
    /// `details.approvalGateId` while people have not approved it, `eval_gate_unmet` with every
    /// unmet condition in `details.unmet`.
    pub async fn transition(
        &self,
        caller: &Caller,
        agent: &AgentId,
        body: &Value,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<CompletedTransition, Problem> {
        let unless_forbidden = |problem| may_ask(caller, body).err().unwrap_or(problem);
        let mut asked = parse(body, &self.channels).map_err(unless_forbidden)?;
        let resource = format!("{agent}@{}", asked.version);
        let scope = scope_of(asked.transition);
        let decision = decide(caller, &Demand::scope(scope), scope.as_str(), &resource);
        for _ in 0..ATTEMPTS {
            let installed = installed(self.store.as_ref(), &caller.tenant, agent)
                .await
                .map_err(unless_forbidden)?;
            asked.pack_integrity = installed.integrity(&asked.version).map(str::to_owned);
            let request = CheckedRequest {
                caller,
                agent,
                asked: &asked,
                installed: &installed,
                decision: &decision,
                claim,
            };
            let (lifecycle, seen) = self.lifecycle(&caller.tenant, agent, &installed).await?;
            let known =
                installed.integrity(&asked.version).is_some() || lifecycle.knows(&asked.version);
            if !known {
                return Err(unless_forbidden(Problem::new(
                    ErrorCode::NotFound,
                    "no such version of this agent",
                )));
            }
            let (verdict, evidence) = self.judge(&request, &lifecycle, seen).await?;
            match self.record(&request, &verdict, &evidence).await {
                Ok(run_id) => {
                    match &verdict {
                        TransitionOutcome::Moved { after, .. } => {
                            self.cancel_approvals(caller, lifecycle.obsolete_gates(after))
                                .await;
                        }
                        TransitionOutcome::Unapproved { opens, .. } => self.gates.open(opens).await,
                        TransitionOutcome::Denied | TransitionOutcome::Unmet(_) => {}
                    }
                    return answer(verdict, &decision, run_id);
                }
                Err(StoreError::Stale) => {}
                Err(cause) => return Err(internal(&cause)),
            }
        }
        Err(Problem::new(
            ErrorCode::Unavailable,
            "too many concurrent transitions of this agent; try again",
        ))
    }

    async fn lifecycle(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        installed: &Installed,
    ) -> Result<(Lifecycle, Revision), Problem> {
        let kept = store::deployments(&self.store, tenant, agent).await;
        let (lifecycle, seen) = kept.map_err(|cause| internal(&cause))?;
        Ok((
            lifecycle.as_installed(|version| installed.integrity(version)),
            seen,
        ))
    }

    async fn judge(
        &self,
        request: &CheckedRequest<'_>,
        before: &Lifecycle,
        seen: Revision,
    ) -> Result<(TransitionOutcome, DecisionEvidence), Problem> {
        let CheckedRequest { agent, asked, .. } = *request;
        let moved = before.apply(agent, asked);
        let mut evidence =
            decision_evidence(asked, before, moved.as_ref().ok().map(|(after, _)| after));
        if !request.decision.allowed {
            return Ok((TransitionOutcome::Denied, evidence));
        }
        let (mut after, mut events) = moved.map_err(refused)?;
        if let Some(hurdles) = self.hurdles(request, before, &after).await? {
            let PromotionConditions { input, policies } = &hurdles;
            evidence.eval_run_id = input.evidence.cloned();
            let mut approvals = self.gates.approvals(input, policies, before).await?;
            let judged = self.gates.unmet(input, policies).await?;
            evidence.attempts = judged.attempts;
            let unmet = judged.unmet;
            if approvals
                .iter()
                .any(|approval| approval.granted().is_none())
            {
                let (asked, opens) = self.ask(request, input, &mut approvals, before)?;
                evidence.approval_gate_ids = gates_of(&approvals);
                let missing = approvals.iter().filter_map(Approval::unmet);
                let verdict = TransitionOutcome::Unapproved {
                    unmet: missing.chain(unmet).collect(),
                    asked: asked.map(|lifecycle| (lifecycle, seen)),
                    opens,
                };
                return Ok((verdict, evidence));
            }
            evidence.approval_gate_ids = gates_of(&approvals);
            if !unmet.is_empty() {
                return Ok((TransitionOutcome::Unmet(unmet), evidence));
            }
            if let Some(gate) = approvals.iter().find_map(Approval::granted) {
                let approved = TransitionRequest {
                    approval_gate: Some(gate.to_string()),
                    ..asked.clone()
                };
                (after, events) = before.apply(agent, &approved).map_err(refused)?;
            }
        }
        let record = after.record(agent, &asked.version);
        let verdict = TransitionOutcome::Moved {
            after,
            seen,
            events,
            record: Box::new(record),
        };
        Ok((verdict, evidence))
    }

    /// Requests missing approvals, and withdraws refused ones so that a later request may ask
    /// again. Returns the changed deployments, if any, and the runs that ask.
    fn ask(
        &self,
        request: &CheckedRequest<'_>,
        input: &GateInput<'_>,
        approvals: &mut [Approval],
        before: &Lifecycle,
    ) -> Result<(Option<Lifecycle>, Vec<RunRecord>), Problem> {
        let mut after = before.clone();
        let mut opens = Vec::new();
        for approval in approvals {
            if approval.is_needed() {
                if after.gates_about(input.version).count() >= MOST_QUESTIONS {
                    return Err(Problem::new(
                        ErrorCode::LimitReached,
                        "too many approvals are open for this version; resolve one first",
                    ));
                }
                let principal = &request.caller.principal;
                let gate = self.gates.ask(input, principal, approval)?;
                let version = input.version.clone();
                after.ask(approval.digest.clone(), version, gate.run_id.clone());
                approval.asked_in(gate.run_id.clone());
                opens.push(gate);
            } else if approval.is_refused() {
                after.withdraw(&approval.digest);
            }
        }
        Ok(((after != *before).then_some(after), opens))
    }

    /// Cancels approval gates that are obsolete because the version has changed. This is only
    /// tidying: an answer to them would have no effect.
    async fn cancel_approvals(&self, caller: &Caller, gates: impl Iterator<Item = &RunId>) {
        for gate in gates {
            let obsolete = CancelRequest {
                cancelled_by: caller.principal.clone(),
                reason: Some("the version's deployment has changed".to_owned()),
            };
            match run_store::queue::request_cancel(&self.store, gate, &obsolete).await {
                Ok(true) => self.store.notify_work().await,
                Ok(false) => {}
                Err(cause) => {
                    warn!(run_id = %gate, %cause, "could not cancel an obsolete approval gate");
                }
            }
        }
    }

    /// The conditions of a promotion or a larger share. A step into service must meet the policies
    /// of its channels; before that, evidence is optional but must be valid if named. A version
    /// that returns to service or gets more traffic relies on the evidence it was promoted with,
    /// unless the request names other evidence.
    async fn hurdles<'a>(
        &self,
        request: &CheckedRequest<'a>,
        before: &'a Lifecycle,
        after: &Lifecycle,
    ) -> Result<Option<PromotionConditions<'a>>, Problem> {
        let CheckedRequest { agent, asked, .. } = *request;
        let gated = match asked.transition {
            TransitionKind::Promote => true,
            // Less traffic is always allowed; more traffic is a larger promotion.
            TransitionKind::AdjustCanary => after.raises(before, &asked.version),
            TransitionKind::Pause | TransitionKind::Deprecate | TransitionKind::Rollback => false,
        };
        if !gated {
            return Ok(None);
        }
        let tenant = &request.caller.tenant;
        let pack_integrity = request.installed.integrity(&asked.version);
        let into_service = after.state(&asked.version) == DeploymentState::Active;
        if into_service && pack_integrity.is_none() {
            return Err(Problem::validation(
                "version",
                "this version is no longer installed; install its pack before promoting it",
            ));
        }
        let policies = if into_service {
            // All placements that give it traffic, including those from before a pause.
            let placements = after.placements(&asked.version);
            self.gates.in_force(tenant, agent, &placements).await?
        } else if asked.evidence.is_some() {
            vec![Gates::before_production()]
        } else {
            return Ok(None);
        };
        let in_service = [DeploymentState::Active, DeploymentState::Paused];
        let earlier = before
            .deployed(&asked.version)
            .filter(|deployed| in_service.contains(&deployed.state))
            .and_then(|deployed| deployed.eval_run_id.as_ref());
        let input = GateInput {
            tenant,
            agent,
            version: &asked.version,
            pack_integrity,
            evidence: asked.evidence.as_ref().or(earlier),
        };
        Ok(Some(PromotionConditions { input, policies }))
    }
}

/// The evidence for a request before its gate is evaluated: for a change of what a version serves,
/// the new placements; for its end, the old ones.
fn decision_evidence(
    asked: &TransitionRequest,
    before: &Lifecycle,
    after: Option<&Lifecycle>,
) -> DecisionEvidence {
    let version = &asked.version;
    let placements = match (asked.transition, after) {
        (TransitionKind::Promote, Some(after)) => after.placements(version),
        (TransitionKind::AdjustCanary, Some(after)) => after.served(version),
        _ => before.served(version),
    };
    DecisionEvidence {
        pack_integrity: asked.pack_integrity.clone(),
        eval_run_id: asked.evidence.clone(),
        attempts: None,
        placements,
        approval_gate_ids: Vec::new(),
    }
}

fn gates_of(approvals: &[Approval]) -> Vec<RunId> {
    approvals
        .iter()
        .filter_map(Approval::gate)
        .cloned()
        .collect()
}

/// The scope a transition requires (RFC 0082 §E).
pub const fn scope_of(transition: TransitionKind) -> Scope {
    match transition {
        TransitionKind::Promote | TransitionKind::AdjustCanary => Scope::DeployPromote,
        TransitionKind::Pause | TransitionKind::Deprecate => Scope::DeployPause,
        TransitionKind::Rollback => Scope::DeployRollback,
    }
}

/// Whether the caller may make the transition that a body names, however malformed the rest is. If
/// the body names none, the right to any transition is enough.
///
/// # Errors
/// `forbidden`.
pub fn may_ask(caller: &Caller, body: &Value) -> Result<(), Problem> {
    let named = body.get("transition").and_then(Value::as_str);
    match named.and_then(TransitionKind::parse) {
        Some(kind) => authorise(caller, scope_of(kind)),
        None => {
            let mut scopes = TransitionKind::ALL.iter().map(|kind| scope_of(*kind));
            match scopes.any(|scope| caller.has(scope)) {
                true => Ok(()),
                false => authorise(caller, Scope::DeployPromote),
            }
        }
    }
}

fn answer(
    verdict: TransitionOutcome,
    decision: &access::Decision,
    run_id: RunId,
) -> Result<CompletedTransition, Problem> {
    match verdict {
        TransitionOutcome::Moved { record, .. } => Ok(CompletedTransition {
            record: *record,
            run_id,
        }),
        TransitionOutcome::Denied => {
            decision
                .enforce()
                .map_err(|problem| problem.with("runId", run_id.as_str()))?;
            // A decision that denies but was not enforced must still deny.
            Err(Problem::new(
                ErrorCode::Forbidden,
                "the caller is not allowed to make this transition",
            ))
        }
        TransitionOutcome::Unapproved { unmet, .. } => {
            let pending = unmet.iter().find(|it| it.is_pending_approval());
            let remedy = match pending {
                Some(_) => "repeat the request once it is approved",
                None => "repeat the request to ask for approval again",
            };
            let gate = pending
                .or_else(|| unmet.iter().find(|it| it.is_approval()))
                .and_then(|approval| approval.approval_gate_id.as_ref());
            let reasons: Vec<String> = unmet.iter().map(Requirement::reason).collect();
            let mut problem = Problem::new(
                ErrorCode::Forbidden,
                format!(
                    "the promotion is not approved ({}); {remedy}",
                    reasons.join("; ")
                ),
            )
            .with("unmet", json!(unmet))
            .with("runId", run_id.as_str());
            if let Some(gate) = gate {
                problem = problem
                    .with("approvalGateId", gate.as_str())
                    .with("gateRunId", gate.as_str())
                    .with(
                        "resolveUrl",
                        format!("/v1/runs/{gate}/interrupts/{GATE_NODE}"),
                    );
            }
            Err(problem)
        }
        TransitionOutcome::Unmet(unmet) => {
            let reasons: Vec<String> = unmet.iter().map(Requirement::reason).collect();
            Err(Problem::new(
                ErrorCode::EvalGateUnmet,
                format!(
                    "the gate is not met ({}); name an eval run that meets it in `evalRunId`",
                    reasons.join("; ")
                ),
            )
            .with("unmet", json!(unmet))
            .with("runId", run_id.as_str()))
        }
    }
}

fn refused(refused: TransitionError) -> Problem {
    let problem = Problem::validation(refused.field(), refused.to_string());
    match &refused {
        TransitionError::RaisesAnother(raised) => problem.with("raises", json!(raised)),
        _ => problem,
    }
}
