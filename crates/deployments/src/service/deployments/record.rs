//! Recording the outcome of a transition request: its run with the whole log, the audit entry, the
//! response.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::ports::DeploymentCommit;
use crate::promotion::Requirement;
use crate::rules::Placement;
use crate::service::deployments::{CheckedRequest, Deployments, TransitionOutcome};
use crate::store;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::run_log::{Head, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::{EventId, RunId};
use touchstone_openwop::events::{
    AuthorizationDecided, Event, NewEvent, RunCompleted, RunError, RunFailed, RunOutputs,
    write_document,
};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_runs::rules::eval::attempts::AttemptIds;
use touchstone_runs::rules::run::record::{RunRecord, RunSpec, Work};
use touchstone_runs::service::executor::endings::started;

/// The evidence behind a decision about a deployment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionEvidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_integrity: Option<String>,
    /// The eval run used as evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The runs of the same agent, suite and model that were judged together with `eval_run_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<AttemptIds>,
    /// The affected channels, with their traffic shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placement>,
    /// The approval runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approval_gate_ids: Vec<RunId>,
}

impl Deployments {
    /// Records the outcome in one transaction.
    pub(super) async fn record(
        &self,
        request: &CheckedRequest<'_>,
        verdict: &TransitionOutcome,
        evidence: &DecisionEvidence,
    ) -> Result<RunId, StoreError> {
        let now = self.clock.now();
        let run_id = RunId::from(self.ids.mint("run"));
        let run = RunRecord {
            run_id: run_id.clone(),
            tenant: request.caller.tenant.clone(),
            principal: request.caller.principal.clone(),
            created_at: now,
            fork: None,
            trace: None,
            log: LogMark::of_new(Major::V1),
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
        let (outcome, mut reasons) = outcome(verdict, request.decision);
        if let Some(reason) = &request.asked.reason {
            reasons.push(format!("said: {reason}"));
        }
        let completes = match (verdict, request.claim) {
            (TransitionOutcome::Moved { record, .. }, Some(claim)) => Some(IdempotencyCompletion {
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
                TransitionOutcome::Moved { after, seen, .. } => Some((after, *seen)),
                TransitionOutcome::Unapproved { asked, .. } => {
                    asked.as_ref().map(|(lifecycle, seen)| (lifecycle, *seen))
                }
                TransitionOutcome::Denied | TransitionOutcome::Unmet(_) => None,
            },
            serves: match verdict {
                TransitionOutcome::Moved { after, .. }
                    if after.is_in_service(&request.asked.version) =>
                {
                    request.asked.pack_integrity.as_deref()
                }
                _ => None,
            },
            opens: match verdict {
                TransitionOutcome::Unapproved { opens, .. } => opens,
                _ => &[],
            },
            decision: &Decision {
                at: now,
                principal: request.caller.principal.clone(),
                action: format!("deployment:{}", request.asked.transition),
                resource: request.decision.resource.clone(),
                outcome,
                reasons,
                decided_on: Some(json!(evidence)),
                run_id: Some(run_id.clone()),
            },
            completes: completes.as_ref(),
        };
        store::commit_deployment(&self.store, &commit).await?;
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
        verdict: &TransitionOutcome,
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
            TransitionOutcome::Moved {
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
            TransitionOutcome::Denied => failed(
                ErrorCode::Forbidden,
                "the caller is not allowed to make this transition",
            ),
            TransitionOutcome::Unapproved { .. } => failed(
                ErrorCode::Forbidden,
                "the approval that this transition requires is missing",
            ),
            TransitionOutcome::Unmet(_) => failed(
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

/// The outcome for the audit log, with its reasons.
fn outcome(verdict: &TransitionOutcome, decision: &access::Decision) -> (Outcome, Vec<String>) {
    match verdict {
        TransitionOutcome::Moved { .. } => (Outcome::Done, Vec::new()),
        TransitionOutcome::Denied => (Outcome::Denied, decision.reason.iter().cloned().collect()),
        TransitionOutcome::Unapproved { unmet, .. } => {
            let outcome = match unmet.iter().any(Requirement::is_pending_approval) {
                true => Outcome::Pending,
                false => Outcome::Refused,
            };
            (outcome, unmet.iter().map(Requirement::reason).collect())
        }
        TransitionOutcome::Unmet(unmet) => (
            Outcome::Refused,
            unmet.iter().map(Requirement::reason).collect(),
        ),
    }
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

/// The request as the inputs of its run: ids, names and numbers.
fn inputs(request: &CheckedRequest<'_>) -> Map<String, Value> {
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
