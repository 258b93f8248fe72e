//! Moving versions of agents through their deployments (RFC 0082 §E).
//!
//! A request is read and what it names is found; then it is authorised, fail-closed; then the gates are asked; only then
//! something changes. Whatever came of it, the request is a run of its own whose log says so, and an entry of the audit log.
//! Run, deployments, audit entry and answer are written in one transaction, so a crash leaves all of it or nothing; of two
//! requests at once the later one decides again on what the earlier one has left.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::{self, Caller, decide};
use super::executor::started;
use super::fault::internal;
use super::gates::{Gates, Question};
use super::installed::{Installed, installed};
use crate::domain::access::{Demand, Scope};
use crate::domain::audit::{Decision, Outcome};
use crate::domain::deployment::{Channel, Lifecycle, Move, Refused, parse};
use crate::domain::ids::{AgentId, EventId, RunId, TenantId};
use crate::domain::promotion::Requirement;
use crate::domain::run::record::{RunRecord, RunSpec, Work};
use crate::ports::{
    Clock, DeploymentCommit, Head, IdempotencyClaim, IdempotencyCompletion, Ids, Revision, Store,
    StoreError, StoredEvent,
};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};
use crate::protocol::openwop::events::{
    AuthorizationDecided, Event, NewEvent, RunCompleted, RunError, RunFailed, RunOutputs,
    write_document,
};

/// How often a transition is decided again because somebody was faster.
const ATTEMPTS: u32 = 32;

/// A transition that was made.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The record as it is now.
    pub record: AgentDeployment,
    /// The run that holds the events.
    pub run_id: RunId,
}

/// The use cases of deployments.
pub struct Deployments {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    gates: Arc<Gates>,
    channels: Arc<[Channel]>,
}

/// A request that has been read and found to be about something.
struct Asked<'a> {
    caller: &'a Caller,
    agent: &'a AgentId,
    asked: &'a Move,
    installed: &'a Installed,
    decision: &'a access::Decision,
    claim: Option<&'a IdempotencyClaim>,
}

/// What a request came to.
enum Verdict {
    Moved {
        after: Lifecycle,
        seen: Revision,
        events: Vec<Event>,
        record: Box<AgentDeployment>,
    },
    Denied,
    Unmet(Vec<Requirement>),
}

impl Deployments {
    /// The use cases over their ports, on a host with these channels.
    pub fn new(
        store: Arc<dyn Store>,
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

    /// The records of an agent, by version.
    ///
    /// # Errors
    /// `not_found` for an agent that is not installed, or another tenant's.
    pub async fn list(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<Vec<AgentDeployment>, Problem> {
        let installed = installed(self.store.as_ref(), tenant, agent).await?;
        let (lifecycle, _) = self.lifecycle(tenant, agent).await?;
        Ok(lifecycle.records(agent, installed.versions()))
    }

    /// Makes a transition, or records why not. With a claim, the idempotency record is completed in the same transaction.
    ///
    /// # Errors
    /// In this order: `validation_error` for a malformed body, `not_found`, `forbidden`, `validation_error` for a transition
    /// that the version's state does not have, `eval_gate_unmet` with every unmet condition in `details.unmet`.
    pub async fn transition(
        &self,
        caller: &Caller,
        agent: &AgentId,
        body: &Value,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Moved, Problem> {
        let asked = parse(body, &self.channels)?;
        let installed = installed(self.store.as_ref(), &caller.tenant, agent).await?;
        let resource = format!("{agent}@{}", asked.version);
        let scope = scope_of(asked.transition);
        let decision = decide(caller, &Demand::scope(scope), scope.as_str(), &resource);
        let request = Asked {
            caller,
            agent,
            asked: &asked,
            installed: &installed,
            decision: &decision,
            claim,
        };
        for _ in 0..ATTEMPTS {
            let (lifecycle, seen) = self.lifecycle(&caller.tenant, agent).await?;
            let known =
                installed.integrity(&asked.version).is_some() || lifecycle.knows(&asked.version);
            if !known {
                return Err(Problem::new(
                    ErrorCode::NotFound,
                    "no such version of this agent",
                ));
            }
            let verdict = self.judge(&request, lifecycle, seen).await?;
            match self.record(&request, &verdict).await {
                Ok(run_id) => return answer(verdict, &decision, run_id),
                Err(StoreError::Stale) => {}
                Err(cause) => return Err(internal(&cause)),
            }
        }
        Err(Problem::new(
            ErrorCode::Unavailable,
            "too many transitions of this agent at once; try again",
        ))
    }

    async fn lifecycle(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<(Lifecycle, Revision), Problem> {
        self.store
            .deployments(tenant, agent)
            .await
            .map_err(|cause| internal(&cause))
    }

    async fn judge(
        &self,
        request: &Asked<'_>,
        before: Lifecycle,
        seen: Revision,
    ) -> Result<Verdict, Problem> {
        let Asked { agent, asked, .. } = *request;
        if !request.decision.allowed {
            return Ok(Verdict::Denied);
        }
        let (after, events) = before.apply(agent, asked).map_err(refused)?;
        let unmet = self.unmet(request, &before, &after).await?;
        if !unmet.is_empty() {
            return Ok(Verdict::Unmet(unmet));
        }
        let record = after.record(agent, &asked.version);
        Ok(Verdict::Moved {
            after,
            seen,
            events,
            record: Box::new(record),
        })
    }

    /// Asks the gates. Into service a version goes by the policies of its channels; before that, evidence need not be
    /// offered, but what is offered must be evidence. A version that comes back rests on the evidence it went in with.
    async fn unmet(
        &self,
        request: &Asked<'_>,
        before: &Lifecycle,
        after: &Lifecycle,
    ) -> Result<Vec<Requirement>, Problem> {
        let Asked { agent, asked, .. } = *request;
        if asked.transition != TransitionKind::Promote {
            return Ok(Vec::new());
        }
        let tenant = &request.caller.tenant;
        let pack_integrity = request.installed.integrity(&asked.version);
        let into_service = after.state(&asked.version) == DeploymentState::Active;
        if into_service && pack_integrity.is_none() {
            return Err(Problem::validation(
                "version",
                "this version is no longer installed; install its pack before it goes into service",
            ));
        }
        let policies = if into_service {
            let channels = match &asked.channel {
                Some(channel) => vec![channel.clone()],
                None => after.channels_of(&asked.version),
            };
            self.gates.in_force(tenant, agent, &channels).await?
        } else if asked.evidence.is_some() {
            vec![Gates::before_production()]
        } else {
            return Ok(Vec::new());
        };
        let earlier = before
            .deployed(&asked.version)
            .filter(|deployed| deployed.state == DeploymentState::Paused)
            .and_then(|deployed| deployed.eval_run_id.as_ref());
        let question = Question {
            tenant,
            agent,
            version: &asked.version,
            pack_integrity,
            evidence: asked.evidence.as_ref().or(earlier),
        };
        let policies: Vec<_> = policies.iter().collect();
        self.gates.unmet(&question, &policies).await
    }

    /// Writes down what came of it, whole.
    async fn record(&self, request: &Asked<'_>, verdict: &Verdict) -> Result<RunId, StoreError> {
        let now = self.clock.now();
        let run_id = RunId::from(self.ids.mint("run"));
        let run = RunRecord {
            run_id: run_id.clone(),
            tenant: request.caller.tenant.clone(),
            principal: request.caller.principal.clone(),
            created_at: now,
            fork: None,
            spec: RunSpec {
                workflow_id: format!("deployment:{}", request.agent),
                work: Work::Journal,
                scope: None,
                run_timeout_ms: None,
                configurable: Map::new(),
                inputs: inputs(request),
                tags: Vec::new(),
                metadata: Map::new(),
            },
        };
        let log = self.log(&run, request.decision, verdict, now)?;
        let (outcome, mut reasons) = match verdict {
            Verdict::Moved { .. } => (Outcome::Done, Vec::new()),
            Verdict::Denied => (
                Outcome::Denied,
                request.decision.reason.iter().cloned().collect(),
            ),
            Verdict::Unmet(unmet) => (
                Outcome::Refused,
                unmet.iter().map(Requirement::reason).collect(),
            ),
        };
        if let Some(reason) = &request.asked.reason {
            reasons.push(format!("said: {reason}"));
        }
        let completes = match (verdict, request.claim) {
            (Verdict::Moved { record, .. }, Some(claim)) => Some(IdempotencyCompletion {
                claim: claim.clone(),
                status: 200,
                body: json!(**record).to_string().into(),
            }),
            _ => None,
        };
        let commit = DeploymentCommit {
            run: &run,
            events: &log,
            agent: request.agent,
            after: match verdict {
                Verdict::Moved { after, seen, .. } => Some((after, *seen)),
                Verdict::Denied | Verdict::Unmet(_) => None,
            },
            decision: &Decision {
                at: now,
                principal: request.caller.principal.clone(),
                action: format!("deployment:{}", request.asked.transition),
                resource: request.decision.resource.clone(),
                outcome,
                reasons,
                run_id: Some(run_id.clone()),
            },
            completes: completes.as_ref(),
        };
        self.store.commit_deployment(&commit).await?;
        let head = Head {
            sequence: log.last().map_or(0, |event| event.sequence),
            ended: true,
        };
        self.store.notify_run(&run_id, head).await;
        Ok(run_id)
    }

    /// The whole log of the request.
    fn log(
        &self,
        run: &RunRecord,
        decision: &access::Decision,
        verdict: &Verdict,
        at: Timestamp,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let authorised = EventId::from(self.ids.mint("evt"));
        let mut events = vec![
            (
                EventId::from(self.ids.mint("evt")),
                NewEvent::of_run(Event::RunStarted(started(run))),
            ),
            (
                authorised.clone(),
                NewEvent::of_run(Event::AuthorizationDecided(AuthorizationDecided {
                    principal: decision.principal.clone(),
                    action: decision.action.clone(),
                    resource: decision.resource.clone(),
                    allowed: decision.allowed,
                    reason: decision.reason.clone(),
                })),
            ),
        ];
        let ends = match verdict {
            Verdict::Moved {
                events: changes,
                record,
                ..
            } => {
                events.extend(changes.iter().map(|change| {
                    let id = EventId::from(self.ids.mint("evt"));
                    (
                        id,
                        NewEvent {
                            causation_id: Some(authorised.clone()),
                            ..NewEvent::of_run(change.clone())
                        },
                    )
                }));
                Event::RunCompleted(RunCompleted {
                    outputs: RunOutputs::Workflow(members(json!(record))),
                    duration_ms: 0,
                })
            }
            Verdict::Denied => failed(
                ErrorCode::Forbidden,
                "the caller may not make this transition",
            ),
            Verdict::Unmet(_) => failed(
                ErrorCode::EvalGateUnmet,
                "the gate of this transition is not met",
            ),
        };
        events.push((EventId::from(self.ids.mint("evt")), NewEvent::of_run(ends)));
        let written = (1..).zip(events).map(|(sequence, (id, event))| {
            let kind = event.event.kind().into();
            let line = write_document(&run.run_id, &id, sequence, at, &event)
                .map_err(|cause| StoreError::Backend(Box::new(cause)))?;
            Ok(StoredEvent {
                sequence,
                kind,
                body: line.into(),
            })
        });
        written.collect()
    }
}

/// What a transition takes (RFC 0082 §E).
fn scope_of(transition: TransitionKind) -> Scope {
    match transition {
        TransitionKind::Promote | TransitionKind::AdjustCanary => Scope::DeployPromote,
        TransitionKind::Pause | TransitionKind::Deprecate => Scope::DeployPause,
        TransitionKind::Rollback => Scope::DeployRollback,
    }
}

fn answer(verdict: Verdict, decision: &access::Decision, run_id: RunId) -> Result<Moved, Problem> {
    match verdict {
        Verdict::Moved { record, .. } => Ok(Moved {
            record: *record,
            run_id,
        }),
        Verdict::Denied => {
            decision
                .enforce()
                .map_err(|problem| problem.with("runId", run_id.as_str()))?;
            // A decision that denies and is not enforced: still no.
            Err(Problem::new(ErrorCode::Forbidden, "this is not allowed"))
        }
        Verdict::Unmet(unmet) => {
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

fn refused(refused: Refused) -> Problem {
    Problem::validation(refused.field(), refused.to_string())
}

fn failed(code: ErrorCode, message: &str) -> Event {
    Event::RunFailed(RunFailed {
        error: RunError {
            code: code.as_str().to_owned(),
            message: message.to_owned(),
        },
        failed_node_id: None,
    })
}

/// What was asked, as the inputs of its run: ids, names and numbers.
fn inputs(request: &Asked<'_>) -> Map<String, Value> {
    let asked = request.asked;
    let mut inputs = members(json!({
        "agentId": request.agent,
        "version": asked.version,
        "transition": asked.transition,
        "toState": asked.to_state,
        "channel": asked.channel,
        "canaryPercent": asked.share,
        "evalRunId": asked.evidence,
    }));
    inputs.retain(|_, value| !value.is_null());
    inputs
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
