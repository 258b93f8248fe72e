//! Transitions of deployments (RFC 0082 §B, §E).

use serde_json::{Map, Value, json};

use crate::conformance::{Asked, Errand, STARTED, Seams, closed, payload, suite};
use touchstone_deployments::rules::LATEST;
use touchstone_host::access::Grants;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState};

/// The default channel of promotions.
const CHANNEL: &str = "stable";
/// Tasks of the eval that serves as evidence: the number a gate requires by default.
const EVIDENCE_TASKS: u64 = 5;
/// An id that no run has.
const NO_EVIDENCE: &str = "run_of_no_eval";

impl Seams {
    /// Requests a transition: `{scenario, agentId?, version?, channel?, evalRunId?}`. `promote`
    /// takes the lowest version that is not in service one step further; the step into service
    /// names an eval of that version as evidence. Once all versions are in service, the one with
    /// the least traffic is paused and resumed. `unauthorized` asks as a caller without grants,
    /// `eval-gate-unmet` names a run that is not evidence, `channel-pin` evaluates the active
    /// version of the channel.
    ///
    /// # Errors
    /// `validation_error`; `forbidden`; `conflict` if the scenario has no version left to move.
    pub async fn transition(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let fields = ["scenario", "agentId", "version", "channel", "evalRunId"];
        let members = closed(body, &fields)?;
        match members.get("scenario").and_then(Value::as_str) {
            Some("promote") => self.promote(caller, members).await,
            Some("unauthorized") => self.unauthorized(caller, members).await,
            Some("eval-gate-unmet") => self.without_evidence(caller, members).await,
            Some("channel-pin") => self.pin(caller, members).await,
            _ => Err(Problem::validation(
                "scenario",
                "`scenario` must be `promote`, `unauthorized`, `eval-gate-unmet` or `channel-pin`",
            )),
        }
    }

    async fn promote(
        &self,
        caller: &Caller,
        members: &Map<String, Value>,
    ) -> Result<Value, Problem> {
        let (agent, records) = self.deployed(caller, members).await?;
        let record = movable(&records, members)?;
        let mut request = promotion(&record.version, member(members, "evalRunId"));
        let into_service = match record.state {
            DeploymentState::Draft | DeploymentState::Test => false,
            DeploymentState::Active => {
                self.pause(caller, &agent, &record.version).await?;
                true
            }
            DeploymentState::Staged
            | DeploymentState::Paused
            | DeploymentState::Deprecated
            | DeploymentState::RolledBack => true,
        };
        if into_service {
            let channel = member(members, "channel").unwrap_or_else(|| json!(CHANNEL));
            request.insert("channel".to_owned(), channel);
        }
        if record.state == DeploymentState::Staged && member(members, "evalRunId").is_none() {
            let named = json!(agent);
            let errand = Errand {
                agent: Some(&named),
                configurable: json!({"agentVersion": record.version}),
                suite: suite(EVIDENCE_TASKS),
            };
            let evidence = self.evaluate(caller, errand).await?;
            request.insert("evalRunId".to_owned(), json!(evidence));
        }
        self.ask(caller, &agent, request).await
    }

    /// Asks as a caller without grants: always refused, whatever exists in whatever state.
    async fn unauthorized(
        &self,
        caller: &Caller,
        members: &Map<String, Value>,
    ) -> Result<Value, Problem> {
        let nobody = Caller {
            grants: Grants::default(),
            ..caller.clone()
        };
        let (agent, version) = match self.deployed(caller, members).await {
            Ok((agent, records)) => {
                let first = records.first().map(|record| record.version.clone());
                (agent, first)
            }
            Err(_) => (AgentId::from(""), None),
        };
        let named = members.get("version").and_then(Value::as_str);
        let version = named.map(str::to_owned).or(version).unwrap_or_default();
        let request = promotion(&version, member(members, "evalRunId"));
        self.ask(&nobody, &agent, request).await
    }

    async fn without_evidence(
        &self,
        caller: &Caller,
        members: &Map<String, Value>,
    ) -> Result<Value, Problem> {
        let (agent, records) = self.deployed(caller, members).await?;
        let record = movable(&records, members)?;
        let was_active = record.state == DeploymentState::Active;
        if was_active {
            self.pause(caller, &agent, &record.version).await?;
        }
        let request = promotion(&record.version, Some(json!(NO_EVIDENCE)));
        let answer = self.ask(caller, &agent, request).await;
        if was_active {
            // With the evidence of its earlier promotion.
            let back = Value::Object(promotion(&record.version, None));
            self.deployments
                .transition(caller, &agent, &back, None)
                .await?;
        }
        answer
    }

    /// Evaluates the active version of a channel.
    async fn pin(&self, caller: &Caller, members: &Map<String, Value>) -> Result<Value, Problem> {
        let channel = member(members, "channel").unwrap_or_else(|| json!(LATEST));
        let errand = Errand {
            agent: members.get("agentId"),
            configurable: json!({"agentChannel": channel}),
            suite: suite(1),
        };
        let run = self.evaluate(caller, errand).await?;
        let log = self.log(&caller.tenant, &run, &Asked::default()).await?;
        let version = payload(&log, STARTED)?.get("resolvedAgentVersion");
        Ok(json!({"runId": run, "resolvedAgentVersion": version}))
    }

    /// The agent and its versions, in ascending order.
    async fn deployed(
        &self,
        caller: &Caller,
        members: &Map<String, Value>,
    ) -> Result<(AgentId, Vec<AgentDeployment>), Problem> {
        let agent = self.agent(caller, members.get("agentId")).await?;
        let records = self.deployments.list(&caller.tenant, &agent).await?;
        Ok((agent, records))
    }

    async fn pause(&self, caller: &Caller, agent: &AgentId, version: &str) -> Result<(), Problem> {
        let request = json!({"version": version, "transition": "pause"});
        self.deployments
            .transition(caller, agent, &request, None)
            .await
            .map(|_| ())
    }

    async fn ask(
        &self,
        caller: &Caller,
        agent: &AgentId,
        request: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let request = Value::Object(request);
        match self
            .deployments
            .transition(caller, agent, &request, None)
            .await
        {
            Ok(moved) => {
                Ok(json!({"runId": moved.run_id, "record": moved.record, "allowed": true}))
            }
            Err(refused) if refused.details.contains_key("runId") => Ok(json!({
                "runId": refused.details.get("runId"),
                "allowed": false,
                "error": refused.code,
            })),
            Err(problem) => Err(problem),
        }
    }
}

fn member(members: &Map<String, Value>, name: &str) -> Option<Value> {
    members.get(name).filter(|value| !value.is_null()).cloned()
}

fn promotion(version: &str, evidence: Option<Value>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("version".to_owned(), json!(version));
    request.insert("transition".to_owned(), json!("promote"));
    if let Some(evidence) = evidence {
        request.insert("evalRunId".to_owned(), evidence);
    }
    request
}

/// The version to move: the named one; else the lowest on its way into service, a paused one, or
/// the active one with the least traffic, whose return takes from the others only traffic they
/// received from it.
fn movable<'a>(
    records: &'a [AgentDeployment],
    members: &Map<String, Value>,
) -> Result<&'a AgentDeployment, Problem> {
    use DeploymentState as S;
    if let Some(named) = members.get("version").and_then(Value::as_str) {
        let found = records.iter().find(|record| record.version == named);
        return found.ok_or_else(|| {
            Problem::new(ErrorCode::NotFound, "no such version of this agent")
                .with("field", "version")
        });
    }
    let first = |states: &[S]| records.iter().find(|record| states.contains(&record.state));
    first(&[S::Draft, S::Test, S::Staged])
        .or_else(|| first(&[S::Paused]))
        .or_else(|| {
            records
                .iter()
                .filter(|record| record.state == S::Active)
                .min_by_key(|record| match record.channels.is_empty() {
                    // Another version has all of its channel.
                    true => 0,
                    false => record.canary_percent.unwrap_or(100),
                })
        })
        .ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "no version of this agent can be promoted; install another one",
            )
        })
}
