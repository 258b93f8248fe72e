//! Authorization decisions by scope, and approval gates (RFC 0049 §C, RFC 0051).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conformance::{Asked, LOOK, PATIENCE, Seams, closed, kind_of, late, required, text};
use touchstone_host::access::{Demand, Grants, Scope};
use touchstone_host::service::access::{Caller, decide};
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::head;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_openwop::wire::Major;
use touchstone_runs::fixtures::{GOVERNANCE_APPROVER, GOVERNANCE_GATE, GOVERNANCE_OVERRIDER};
use touchstone_runs::service::runs::create::Dedup;

/// The node of the gate.
const GATE: &str = "gate";
const REJECTED: &str = "approval.rejected";
/// The events that decide a gate.
const OUTCOMES: [&str; 3] = ["approval.granted", "approval.overridden", REJECTED];

impl Seams {
    /// Decides whether a principal of the caller's tenant may perform an action: `{principal,
    /// action, resource}`. An action is a scope; a principal may do what its keys allow.
    ///
    /// # Errors
    /// `validation_error`.
    pub async fn decide(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let members = closed(body, &["principal", "action", "resource"])?;
        let principal = required(members, "principal")?;
        let action = required(members, "action")?;
        let resource = required(members, "resource")?;
        let grants = self
            .keys
            .grants_of(&caller.tenant, principal)
            .await
            .map_err(|cause| internal(&cause))?;
        let asking = Caller {
            principal: principal.to_owned(),
            grants,
            ..caller.clone()
        };
        let demand = Demand {
            scope: Scope::parse(action),
            role: None,
        };
        let decision = decide(&asking, &demand, action, resource);
        Ok(json!({
            "principal": decision.principal,
            "action": decision.action,
            "resource": decision.resource,
            "allowed": decision.allowed,
            "reason": decision.reason,
        }))
    }

    /// Lets a run wait at an approval gate and answers it: `{scenario, principal?, reason?}`.
    /// `unauthorized-grant` answers as a principal without grants; `grant`, `reject` and `override`
    /// answer as a principal with the required role. A run that still waits is cancelled.
    ///
    /// # Errors
    /// `validation_error`; those of creating a run and of answering an interrupt.
    pub async fn approval_gate(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let members = closed(body, &["scenario", "principal", "reason"])?;
        let reason = text(members, "reason")?.unwrap_or("requested by a conformance suite");
        let (role, answer) = match members.get("scenario").and_then(Value::as_str) {
            Some("unauthorized-grant") => (None, json!({"action": "accept"})),
            Some("grant") => (Some(GOVERNANCE_APPROVER), json!({"action": "accept"})),
            Some("reject") => (Some(GOVERNANCE_APPROVER), json!({"action": "reject"})),
            Some("override") => (
                Some(GOVERNANCE_OVERRIDER),
                json!({"action": "accept", "override": {"reason": reason}}),
            ),
            _ => {
                return Err(Problem::validation(
                    "scenario",
                    "`scenario` must be `unauthorized-grant`, `grant`, `reject` or `override`",
                ));
            }
        };
        let principal = text(members, "principal")?.unwrap_or(&caller.principal);
        let answering = Caller {
            principal: principal.to_owned(),
            grants: Grants {
                scopes: BTreeSet::new(),
                roles: role.map(str::to_owned).into_iter().collect(),
            },
            ..caller.clone()
        };
        let body = json!({"workflowId": GOVERNANCE_GATE});
        let created = self
            .runs
            .create(caller, &body, Dedup::Off, Major::V1, None)
            .await?;
        let run = created.run_id;
        self.wait_to_be_asked(caller, &run).await?;
        let node = NodeId::from(GATE);
        let error = match self.runs.resolve(&answering, &run, &node, &answer).await {
            Ok(_) => {
                self.wait_for(&run).await?;
                None
            }
            Err(refused) if refused.code == ErrorCode::Forbidden => Some(refused.code),
            Err(problem) => return Err(problem),
        };
        let log = self.log(&caller.tenant, &run, &Asked::default()).await?;
        let outcome = log.iter().find(|event| OUTCOMES.contains(&kind_of(event)));
        if outcome.is_none() {
            let reason = Some("the conformance seam has its answer".to_owned());
            self.runs.cancel(caller, &run, reason).await?;
        }
        let released = outcome.is_some_and(|event| kind_of(event) != REJECTED);
        let event =
            outcome.map(|event| json!({"type": kind_of(event), "payload": event.get("payload")}));
        Ok(json!({"runId": run, "released": released, "error": error, "event": event}))
    }

    async fn wait_to_be_asked(&self, caller: &Caller, run: &RunId) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let head = head(&self.store, run).await;
            let head = head.map_err(|cause| internal(&cause))?.unwrap_or_default();
            if self.runs.suspended(caller, run).await?.is_some() {
                return Ok(());
            }
            self.store.run_changed(run, head, LOOK).await;
        }
        Err(late(run))
    }
}
