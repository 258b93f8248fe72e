//! Interrupts: pending questions, and how answers reach the run (OpenWOP interrupt; gates: RFC
//! 0051).
//!
//! A run that waits for a person is parked. An answer is an event in its log, decided on the folded
//! state under the run's lease: of two concurrent answers, one counts and the other is refused as
//! late.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rules::run::budget_extension;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::record::APPROVAL_GATE;
use crate::rules::run::record::{RunRecord, RunSpec, Work, WorkflowSpec};
use crate::rules::run::request::RunOptions;
use crate::rules::workflow::facts::InterruptFacts;
use crate::rules::workflow::gate::{GatePolicy, Responder};
use crate::rules::workflow::graph::Graph;
use crate::rules::workflow::interrupt::{Refusal, answer, deadline};
use crate::rules::workflow::node::NodeKind;
use crate::rules::workflow::step::{Step, StepContext, next};
use crate::rules::workflow::token::{Intent, InterruptToken, NoToken};
use crate::service::runs::Runs;
use touchstone_host::access::Scope;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::host_secrets::INTERRUPT_TOKENS;
use touchstone_host::ports::run_log::CompanionRecord;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{NodeId, RunId, TenantId};
use touchstone_openwop::events::{Event, InterruptKind, NewEvent};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_openwop::wire::operation::link;
use touchstone_openwop::workflow::WorkflowDefinition;

/// Maximum lifetime of a token; it ends earlier with its interrupt.
const TOKEN_LIFE: Duration = Duration::from_secs(30 * 60);
/// How long the snapshot of a waiting run stays the same, token included, so that conditional reads
/// are useful.
const TOKEN_PERIOD_SECONDS: i64 = 5 * 60;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateDecision {
    Pending,
    Granted,
    /// Rejected, expired without a decision, or its run was cancelled.
    Refused,
}

impl Runs {
    /// The pending interrupts of a run, with tokens for those that may be answered without a key.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn interrupts(&self, tenant: &TenantId, run: &RunId) -> Result<Value, Problem> {
        let record = self.record(tenant, run).await?;
        let mut shown = Vec::new();
        for (node, facts) in self.waiting(run).await? {
            let mut interrupt = interrupt_view(run, &node, &facts);
            let token = self.token(&record, &node, &facts, self.clock.now()).await?;
            if let (Some((text, expires_at)), Some(members)) = (token, interrupt.as_object_mut()) {
                members.insert("tokenExpiresAt".to_owned(), json!(expires_at));
                members.insert("token".to_owned(), json!(text));
            }
            shown.push(interrupt);
        }
        Ok(json!({"interrupts": shown}))
    }

    /// The first pending interrupt of a run, for its snapshot. If it may be answered without a key,
    /// callers with the right scope get a token and its path.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn suspended(&self, caller: &Caller, run: &RunId) -> Result<Option<Value>, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        let Some((node, facts)) = self.waiting(run).await?.into_iter().next() else {
            return Ok(None);
        };
        let mut interrupt = interrupt_view(run, &node, &facts);
        if caller.has(Scope::ApprovalsRespond) {
            let issued_at = period_start(self.clock.now());
            let token = self.token(&record, &node, &facts, issued_at).await?;
            if let (Some((text, expires_at)), Some(members)) = (token, interrupt.as_object_mut()) {
                let path = link(self.majors, format!("/v1/interrupts/{text}"));
                members.insert("tokenExpiresAt".to_owned(), json!(expires_at));
                members.insert("callbackUrl".to_owned(), json!(path));
                members.insert("interruptToken".to_owned(), json!(text));
            }
        }
        Ok(Some(interrupt))
    }

    /// The pending interrupts of a run, in order.
    pub(super) async fn waiting(
        &self,
        run: &RunId,
    ) -> Result<Vec<(NodeId, InterruptFacts)>, Problem> {
        self.with_state(run, |state| match state.status.is_terminal() {
            true => Vec::new(),
            false => state
                .flow
                .all_pending()
                .map(|(node, facts)| (node.clone(), facts.clone()))
                .collect(),
        })
        .await
    }

    /// Answers the interrupt of a node.
    ///
    /// # Errors
    /// `not_found` for the run, `interrupt_not_found` for the node; `interrupt_already_resolved`,
    /// `interrupt_cancelled`; `validation_error` for an answer that does not match the interrupt;
    /// `forbidden` for a caller who may not answer.
    pub async fn resolve(
        &self,
        caller: &Caller,
        run: &RunId,
        node: &NodeId,
        value: &Value,
    ) -> Result<Value, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        let responder = responder(caller, &record);
        self.answer(&record, node, None, &responder, value).await
    }

    /// The interrupt that a token belongs to.
    ///
    /// # Errors
    /// `interrupt_not_found`, `interrupt_already_resolved`, `interrupt_cancelled`.
    pub async fn inspect_interrupt(&self, token: &InterruptToken) -> Result<Value, Problem> {
        let record = self.record_of(token).await?;
        let facts = self
            .with_state(&record.run_id, |state| pending(state, token))
            .await??;
        Ok(request_view(&facts))
    }

    /// Answers the interrupt that a token belongs to. The token is used up afterwards.
    ///
    /// # Errors
    /// As [`inspect_interrupt`](Self::inspect_interrupt), and as [`resolve`](Self::resolve).
    pub async fn resolve_by_token(
        &self,
        token: &InterruptToken,
        value: &Value,
    ) -> Result<Value, Problem> {
        let record = self.record_of(token).await?;
        if token.intent != Intent::Resolve {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "this token is read-only",
            ));
        }
        let responder = Responder {
            principal: format!("token:{}", token.interrupt_id),
            ..Responder::default()
        };
        let answered = self
            .answer(
                &record,
                &token.node_id,
                Some(&token.interrupt_id),
                &responder,
                value,
            )
            .await;
        // The token was valid; its interrupt is gone.
        answered.map_err(|problem| match problem.code {
            ErrorCode::InterruptNotFound => already_resolved(),
            _ => problem,
        })
    }

    /// A run that asks for one approval and ends with it. The caller records it together with the
    /// change that waits for it.
    ///
    /// # Errors
    /// An internal error.
    pub fn approval_gate(
        &self,
        tenant: &TenantId,
        principal: &str,
        title: &str,
        artifact_id: &str,
        gate: &GatePolicy,
    ) -> Result<RunRecord, Problem> {
        let mut config = serde_json::to_value(gate).map_err(|cause| internal(&cause))?;
        if let Some(members) = config.as_object_mut() {
            members.insert("title".to_owned(), json!(title));
            members.insert("artifactId".to_owned(), json!(artifact_id));
        }
        let definition = json!({
            "id": APPROVAL_GATE, "name": "Approval gate", "version": "1.0",
            "nodes": [{"id": GATE_NODE, "typeId": "core.openwop.governance.approvalGate", "name": title,
                       "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}],
            "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
        });
        let definition: WorkflowDefinition =
            serde_json::from_value(definition).map_err(|cause| internal(&cause))?;
        Graph::of(&definition).map_err(|cause| internal(&cause))?;
        let spec = WorkflowSpec {
            definition,
            max_node_executions: 1,
            mock_provider: None,
            agents: Vec::new(),
        };
        let spec = RunSpec {
            // A person may take any amount of time.
            run_timeout_ms: None,
            ..RunOptions::default().spec(
                APPROVAL_GATE.to_owned(),
                Work::Workflow(Arc::new(spec)),
                &self.limits,
            )
        };
        Ok(RunRecord {
            run_id: RunId::from(self.ids.mint("run")),
            tenant: tenant.clone(),
            principal: principal.to_owned(),
            created_at: self.clock.now(),
            spec,
            fork: None,
            trace: None,
            log: LogMark::of_new(Major::V1),
        })
    }

    /// Opens the gate of an [`approval_gate`](Self::approval_gate) without waiting for a worker.
    ///
    /// # Errors
    /// `service_unavailable` while a worker holds it, which opens it then.
    pub async fn open_gate(&self, gate: &RunRecord) -> Result<(), Problem> {
        let Some(spec) = gate.spec.workflow() else {
            return Ok(());
        };
        let graph = Graph::of(&spec.definition).map_err(|cause| internal(&cause))?;
        let node = NodeId::from(GATE_NODE);
        let open = |state: &RunState| -> Result<Vec<NewEvent>, Problem> {
            let of = StepContext {
                run_id: &gate.run_id,
                inputs: &gate.spec.inputs,
                max_node_executions: spec.max_node_executions,
                agents: &spec.agents,
                hold: false,
                now: self.clock.now(),
            };
            Ok(match next(&graph, &state.flow, &of) {
                Step::Record(events) if state.flow.node(&node).is_none() => events,
                // A worker has already opened it.
                _ => Vec::new(),
            })
        };
        self.journal
            .append(&gate.tenant, &gate.run_id, open)
            .await?;
        Ok(())
    }

    /// The decision of an [`approval_gate`](Self::approval_gate)'s gate.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn gate_decision(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<GateDecision, Problem> {
        self.record(tenant, run).await?;
        self.with_state(run, |state| match state.status {
            RunStatus::Completed => GateDecision::Granted,
            RunStatus::Failed | RunStatus::Cancelled => GateDecision::Refused,
            _ => GateDecision::Pending,
        })
        .await
    }

    async fn answer(
        &self,
        record: &RunRecord,
        node: &NodeId,
        interrupt_id: Option<&str>,
        responder: &Responder,
        value: &Value,
    ) -> Result<Value, Problem> {
        let run = &record.run_id;
        let cancelling = self.cancelling(run).await?;
        let gate = gate_of(record, node);
        let decide = |state: &RunState| -> Result<Vec<NewEvent>, Problem> {
            let facts = state
                .flow
                .node(node)
                .and_then(|facts| facts.interrupt.as_ref());
            let (Some(facts), Some(gate)) = (facts, &gate) else {
                return Err(no_interrupt());
            };
            if interrupt_id.is_some_and(|id| id != facts.id) || facts.resolution.is_some() {
                return Err(already_resolved());
            }
            if cancelling || state.status == RunStatus::Cancelled {
                return Err(cancelled());
            }
            if state.status.is_terminal() {
                return Err(already_resolved());
            }
            answer(node, gate, facts, responder, value, self.clock.now()).map_err(answer_problem)
        };
        // Invalid answers are refused without claiming the run.
        self.with_state(run, decide).await??;
        let audit = |decided: &[NewEvent]| {
            let decision = self.decision(record, node, responder, decided);
            decision.map(|decision| CompanionRecord::Decision(Box::new(decision)))
        };
        let appended = self
            .journal
            .append_with(&record.tenant, run, decide, audit)
            .await;
        let state = match appended {
            // It has ended since the answer was checked.
            Err(problem) if problem.code == ErrorCode::RunTerminal => {
                self.with_state(run, decide).await??;
                return Err(already_resolved());
            }
            appended => appended?,
        };
        // The node has its answer; a worker records the consequences.
        Ok(json!({"runId": run, "nodeId": node, "status": state.status}))
    }

    /// The audit log entry of an answer to an approval gate.
    fn decision(
        &self,
        record: &RunRecord,
        node: &NodeId,
        responder: &Responder,
        decided: &[NewEvent],
    ) -> Option<Decision> {
        let mut found: Option<(&str, Vec<String>)> = None;
        // Where several people must approve, a single answer decides nothing.
        let mut outcome = Outcome::Pending;
        for event in decided {
            match &event.event {
                Event::ApprovalGranted(_) => found = Some(("approval:accept", Vec::new())),
                Event::ApprovalRejected(_) => found = Some(("approval:reject", Vec::new())),
                Event::ApprovalOverridden(over) => {
                    found = Some(("approval:override", vec![over.reason.clone()]));
                }
                Event::ApprovalReceived(received) => {
                    outcome = match received.action.as_str() {
                        "reject" => Outcome::Refused,
                        _ => Outcome::Done,
                    };
                    found = found.or_else(|| Some(("approval:accept", Vec::new())));
                }
                _ => {}
            }
        }
        let (action, reasons) = found?;
        Some(Decision {
            at: self.clock.now(),
            principal: responder.principal.clone(),
            action: action.to_owned(),
            resource: format!("{}/{node}", record.run_id),
            outcome,
            reasons,
            decided_on: None,
            run_id: Some(record.run_id.clone()),
        })
    }

    /// A token for an interrupt that may be answered without a key, and its expiry.
    async fn token(
        &self,
        record: &RunRecord,
        node: &NodeId,
        facts: &InterruptFacts,
        issued_at: Timestamp,
    ) -> Result<Option<(String, Timestamp)>, Problem> {
        if !gate_of(record, node).is_some_and(|gate| gate.is_open()) {
            return Ok(None);
        }
        let life = issued_at.checked_add(TOKEN_LIFE).unwrap_or(Timestamp::MAX);
        let expires_at = deadline(facts).map_or(life, |end| end.min(life));
        let token = InterruptToken {
            tenant: record.tenant.clone(),
            run_id: record.run_id.clone(),
            node_id: node.clone(),
            interrupt_id: facts.id.clone(),
            expires_at,
            intent: Intent::Resolve,
        };
        let secret = self.token_secret().await?;
        let text = token.sign(&secret).map_err(|cause| internal(&cause))?;
        Ok(Some((text, expires_at)))
    }

    async fn token_secret(&self) -> Result<[u8; 32], Problem> {
        self.store
            .host_secret(INTERRUPT_TOKENS, self.ids.secret())
            .await
            .map_err(|cause| internal(&cause))
    }

    /// Parses a token. Those of major 1 are admitted while the host serves it.
    ///
    /// # Errors
    /// `interrupt_token_invalid` for a string that is not a token of this host, which major 1 answers
    /// as an unknown interrupt; `interrupt_expired`.
    pub async fn interrupt_token(
        &self,
        text: &str,
        admits_v1: bool,
    ) -> Result<InterruptToken, Problem> {
        let secret = self.token_secret().await?;
        let token = match admits_v1 || InterruptToken::is_of_v2(text) {
            true => InterruptToken::read(text, &secret),
            false => Err(NoToken),
        };
        let token = token
            .map_err(|_| Problem::new(ErrorCode::InterruptTokenInvalid, no_interrupt().message))?;
        if token.expires_at <= self.clock.now() {
            return Err(Problem::new(
                ErrorCode::InterruptExpired,
                "this token has expired; request a new one",
            ));
        }
        Ok(token)
    }

    async fn record_of(&self, token: &InterruptToken) -> Result<Arc<RunRecord>, Problem> {
        let record = self.record(&token.tenant, &token.run_id).await;
        record.map_err(|problem| match problem.code {
            ErrorCode::NotFound => no_interrupt(),
            _ => problem,
        })
    }
}

/// The node of a gate's run.
pub const GATE_NODE: &str = "gate";

/// The last multiple of [`TOKEN_PERIOD_SECONDS`].
fn period_start(now: Timestamp) -> Timestamp {
    let seconds = now.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(TOKEN_PERIOD_SECONDS)).unwrap_or(now)
}

/// A caller as the principal who answers a question of this run.
pub(super) fn responder(caller: &Caller, record: &RunRecord) -> Responder {
    let scopes = caller.grants.scopes.iter();
    Responder {
        principal: caller.principal.clone(),
        roles: caller.grants.roles.clone(),
        scopes: scopes.map(|scope| scope.as_str().to_owned()).collect(),
        is_requester: caller.principal == record.principal,
    }
}

pub(super) fn gate_of(record: &RunRecord, node: &NodeId) -> Option<GatePolicy> {
    if let Some(eval) = record.spec.eval() {
        let asks = eval.budget.interrupts && node.as_str() == budget_extension::NODE;
        return asks.then(budget_extension::gate);
    }
    let definition = &record.spec.workflow()?.definition;
    let node = definition.nodes.iter().find(|known| known.id == *node)?;
    match NodeKind::of(node) {
        Ok(NodeKind::Interrupt(asked)) => Some(asked.gate),
        _ => None,
    }
}

fn pending(state: &RunState, token: &InterruptToken) -> Result<InterruptFacts, Problem> {
    let facts = state
        .flow
        .node(&token.node_id)
        .and_then(|facts| facts.interrupt.as_ref())
        .filter(|facts| facts.id == token.interrupt_id && facts.resolution.is_none())
        .ok_or_else(already_resolved)?;
    match state.status {
        RunStatus::Cancelled => Err(cancelled()),
        status if status.is_terminal() => Err(already_resolved()),
        _ => Ok(facts.clone()),
    }
}

fn request_view(facts: &InterruptFacts) -> Value {
    let mut shown = json!({
        "kind": facts.requested.kind,
        "key": facts.requested.key,
        "data": facts.requested.data,
        "requestedAt": facts.requested_at,
    });
    if let Some(members) = shown.as_object_mut() {
        if let Some(schema) = &facts.requested.resume_schema {
            members.insert("resumeSchema".to_owned(), schema.clone());
        }
        if let Some(timeout) = facts.requested.timeout_ms {
            members.insert("timeoutMs".to_owned(), json!(timeout));
        }
    }
    shown
}

fn interrupt_view(run: &RunId, node: &NodeId, facts: &InterruptFacts) -> Value {
    let mut shown = request_view(facts);
    if let Some(members) = shown.as_object_mut() {
        members.insert("nodeId".to_owned(), json!(node));
        members.insert("interruptId".to_owned(), json!(facts.id));
        members.insert(
            "resolveUrl".to_owned(),
            json!(resolve_url(run, node.as_str())),
        );
        if facts.requested.kind == InterruptKind::Approval {
            members.insert("grantedBy".to_owned(), json!(facts.granted_by));
        }
    }
    shown
}

/// The refusal to end or delay an approval gate other than by an answer, which requires another
/// scope and is audited.
pub(super) fn needs_approver(run: &RunId, done: &str) -> Problem {
    Problem::new(
        ErrorCode::RunStateConflict,
        format!(
            "an approval gate cannot be {done} directly; answer it, or leave it: the host cancels \
             it when the version's deployment changes"
        ),
    )
    .with("resolveUrl", resolve_url(run, GATE_NODE))
}

fn resolve_url(run: &RunId, node: &str) -> String {
    format!("/v1/runs/{run}/interrupts/{node}")
}

fn cancelled() -> Problem {
    Problem::new(
        ErrorCode::InterruptCancelled,
        "the run was cancelled while it waited for this answer",
    )
}

fn answer_problem(refusal: Refusal) -> Problem {
    match &refusal {
        Refusal::Invalid { field, .. } => Problem::validation(field, refusal.to_string()),
        Refusal::Forbidden(_) => Problem::new(ErrorCode::Forbidden, refusal.to_string()),
        Refusal::Voted => Problem::new(ErrorCode::AnsweredBefore, refusal.to_string()),
    }
}

fn no_interrupt() -> Problem {
    Problem::new(
        ErrorCode::InterruptNotFound,
        "this node has no pending interrupt",
    )
}

fn already_resolved() -> Problem {
    Problem::new(
        ErrorCode::InterruptAlreadyResolved,
        "this interrupt was already answered, or has ended",
    )
}
