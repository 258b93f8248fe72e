//! A scenario in its environment: everything between provisioning and teardown (OASIS.md sections 5
//! and 6).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::executor::conversions::{agent_answer, trace, wire_trigger};
use crate::executor::evaluation::Evaluation;
use crate::executor::execution::{Executed, Script};
use crate::executor::sink::{Recorded, ScenarioSink};
use crate::executor::tools::{AgentActions, EnvironmentTools};
use crate::ports::providers::{Environment, ProviderFault};
use crate::rules::evidence;
use crate::rules::evidence::{
    AgentOutput, Evidence, HostRecord, Observation, ObservationRequest, ObservationType,
    ProvisionedData, Window,
};
use crate::rules::outcome::Outcome;
use crate::rules::report::facts as shown;
use crate::rules::run::events::{OasisEvent, OasisObserved};
use crate::rules::scrub::Scrub;
use touchstone_agents::ports::agent::{Invocation, InvocationEnd};
use touchstone_agents::rules::worker_labels::NO_LABELS;
use touchstone_agents::rules::{BUDGET_EXHAUSTED, LOOP_LIMIT_EXCEEDED};
use touchstone_kit::integrity;
use touchstone_kit::json as strict;
use touchstone_openwop::events::NewEvent;
use touchstone_runs::service::executor::task_loop::EarlyEnd;

/// The label of a scenario in which the agent finished without an answer.
const EMPTY_ANSWER: &str = "empty_answer";

/// Why a scenario has no result.
pub(super) enum ScenarioError {
    /// The harness failed.
    Provider(ProviderFault),
    /// The run ends.
    RunEnds(EarlyEnd),
}

impl From<ProviderFault> for ScenarioError {
    fn from(fault: ProviderFault) -> Self {
        Self::Provider(fault)
    }
}

/// A script in its environment.
pub(super) struct EnvironmentSession<'a> {
    pub evaluation: &'a Evaluation,
    pub script: Script<'a>,
    pub environment: &'a Environment,
    pub literals: BTreeMap<String, Vec<String>>,
    pub scrub: &'a Scrub,
    /// The time just before the environment was requested, by the host's clock.
    pub began: Timestamp,
    /// Observations taken so far.
    pub taken: Vec<Observation>,
    /// The agent's output; empty until the agent has ended.
    pub output: AgentOutput,
}

impl EnvironmentSession<'_> {
    /// Runs everything between provisioning and teardown.
    pub(super) async fn run(&mut self, executed: &mut Executed) -> Result<Outcome, ScenarioError> {
        let (provider, id) = (&self.evaluation.provider, &self.environment.id);
        let scenario = self.script.scenario;
        for (state, trigger) in scenario.injections() {
            let state: Vec<Value> = state.iter().cloned().map(Value::Object).collect();
            provider
                .inject_state(id, &state, wire_trigger(trigger))
                .await?;
        }
        let snapshot = provider.state_snapshot(id, &[]).await?;
        let mut kept = snapshot.clone();
        self.scrub.value(&mut kept);
        executed.snapshot = Some(kept);
        if let Some(preconditions) = &mut executed.execution.preconditions {
            let text = strict::canonical_text(&snapshot);
            preconditions.environment_id = Some(id.clone());
            preconditions.snapshot_digest = Some(integrity::of(text.as_bytes()));
            preconditions.snapshot_at = snapshot
                .get("timestamp")
                .and_then(Value::as_str)
                .map(str::to_owned);
        }
        let actions = self.run_agent(executed).await?;
        for request in evidence::needed(scenario) {
            let observation = self.observe(request, executed).await?;
            self.taken.push(observation);
        }
        let broken = |cause: evidence::EvidenceFault| {
            ScenarioError::Provider(ProviderFault {
                stage: crate::ports::providers::Stage::Observe("evidence".to_owned()),
                cause: cause.0,
                said: None,
            })
        };
        let gathered = Evidence::gather(scenario, self.setup(), &self.taken, self.output.clone());
        let mut gathered = gathered.map_err(broken)?;
        let window = self.window();
        let brokered = actions.brokered();
        executed.execution.cross_check = Some(shown::CrossCheck {
            operations: brokered.len(),
            from: window.from.to_string(),
            to: window.to.to_string(),
            clock_tolerance_s: window.tolerance.as_secs_f64(),
        });
        let witness = HostRecord {
            brokered: &brokered,
            snapshot: &snapshot,
            window,
        };
        witness
            .check(scenario, &mut gathered, &self.taken)
            .map_err(broken)?;
        let package = &self.evaluation.package;
        let judged = evidence::judge(
            scenario,
            &self.evaluation.plan.configuration,
            &package.behaviors,
            &gathered,
        );
        executed.execution.vacuous = judged.vacuous;
        executed.execution.measured = judged.measured;
        executed.execution.checks = judged
            .checks
            .iter()
            .map(|check| self.shown_check(check))
            .collect();
        match judged.outcome {
            Outcome::Fault { cause } => Err(broken(evidence::EvidenceFault(cause))),
            outcome => Ok(outcome),
        }
    }

    /// The time of the scenario so far, with the tolerance of the provider's clock.
    fn window(&self) -> Window {
        let tolerance = self.evaluation.provider.clock_tolerance();
        Window {
            from: self.began,
            to: self.evaluation.executor.clock.now(),
            tolerance: SignedDuration::try_from(tolerance).unwrap_or(SignedDuration::MAX),
        }
    }

    /// Runs the agent.
    async fn run_agent(&mut self, executed: &mut Executed) -> Result<AgentActions, ScenarioError> {
        let Evaluation {
            executor, context, ..
        } = self.evaluation;
        let (script, spec) = (self.script, &context.spec);
        let tools = EnvironmentTools::new(
            self.evaluation.provider.clone(),
            self.environment.clone(),
            &script.scenario.preconditions.agent.tools,
        );
        let sink = ScenarioSink::new(&context.writer, script.task, self.scrub, script.recorded);
        let input = script.scenario.agent_input();
        let invocation = Invocation {
            tenant: &context.run.tenant,
            run: &context.run.run_id,
            invocation_id: executor.ids.mint("inv"),
            agent: &context.agent.definition,
            agent_version: &spec.agent_version,
            agent_channel: spec.agent_channel.as_ref().map(|pin| pin.channel.as_str()),
            model: &context.model,
            input: &input,
            dialogue: None,
            fixtures: None,
            recorded: None,
            live: Some(&tools),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            max_loop_iterations: spec.max_loop_iterations,
            // The scenario has a limit of its own, which includes its provider.
            timeout: None,
            node_id: script.task,
            worker_labels: &NO_LABELS,
        };
        let result = executor.runtime.invoke(invocation, &context.meter, &sink);
        let result = result.await;
        (executed.latency_ms, executed.schema_valid) = (result.latency_ms, result.schema_valid);
        let actions = tools.actions();
        self.output = agent_answer(&result, &sink.output(), &actions);
        executed.execution.agent = trace(&self.output, &actions);
        if let InvocationEnd::Unjudged { reason } = &result.end {
            if reason == LOOP_LIMIT_EXCEEDED && !script.is_probe {
                return Err(ScenarioError::RunEnds(EarlyEnd::LoopLimit(
                    script.task.clone(),
                )));
            }
            if reason == BUDGET_EXHAUSTED
                && let Some(dimension) = context.meter.exhausted(spec)
            {
                return Err(ScenarioError::RunEnds(EarlyEnd::BudgetExhausted(dimension)));
            }
        }
        if let Some(fault) = &actions.fault {
            return Err(ScenarioError::Provider(fault.clone()));
        }
        if self.output.answer.trim().is_empty() {
            let reason = match &result.end {
                InvocationEnd::Failed { reason } | InvocationEnd::Unjudged { reason } => reason,
                InvocationEnd::Decided { .. } => EMPTY_ANSWER,
            };
            executed.unanswered = Some(reason.to_owned());
            executed.execution.agent.problem = Some(reason.to_owned());
        }
        Ok(actions)
    }

    /// Takes one observation and records it.
    async fn observe(
        &self,
        request: ObservationRequest,
        executed: &mut Executed,
    ) -> Result<Observation, ScenarioError> {
        let name = request.observation_type.name();
        let (provider, id) = (&self.evaluation.provider, &self.environment.id);
        let observed = provider.observe(id, name, &request.parameters).await?;
        let mut data = observed.data.clone();
        self.scrub.value(&mut data);
        let digest = integrity::of(strict::canonical_text(&data).as_bytes());
        let source = shown::EvidenceSource {
            kind: observed.source_type.clone(),
            status: observed.status.clone(),
        };
        executed.execution.observations.push(shown::Observation {
            observation_type: name.to_owned(),
            timestamp: Some(observed.timestamp.clone()),
            evidence_source: Some(source),
            digest: Some(digest.clone()),
        });
        executed.data.push(data);
        // Nothing about an unpublished scenario is disclosed, not even the observation types.
        if self.script.recorded == Recorded::InFull {
            let recorded = OasisObserved {
                scenario_id: self.script.name.to_owned(),
                observation_type: name.to_owned(),
                source_type: observed.source_type.clone(),
                status: observed.status.clone(),
                sha256: digest,
            };
            let recorded = NewEvent::of_run(OasisEvent::Observed(recorded).into());
            self.evaluation.context.writer.emit(&recorded);
        }
        Ok(Observation {
            request,
            timestamp: observed.timestamp,
            data: observed.data,
            evidence_source: evidence::EvidenceSource {
                kind: observed.source_type,
                status: observed.status,
            },
        })
    }

    fn setup(&self) -> ProvisionedData {
        ProvisionedData {
            principal: self.environment.principal.clone(),
            literals: self.literals.clone(),
        }
    }

    /// Whether the observations before a fault already show a violation (D11). The report mentions
    /// it; it has no other effect.
    pub(super) fn violation_seen(&self) -> bool {
        let has = |kind: ObservationType| {
            self.taken
                .iter()
                .any(|it| it.request.observation_type == kind)
        };
        if !has(ObservationType::AuditLog) {
            return false;
        }
        // Missing observations are filled with placeholders, and checks that depend on them are
        // ignored.
        let mut observations = self.taken.clone();
        for request in evidence::needed(self.script.scenario) {
            if !observations.iter().any(|it| it.request == request) {
                let data = match request.observation_type {
                    ObservationType::ResourceState => json!({"exists": false}),
                    _ => json!({"before": {}, "after": {}, "changes": []}),
                };
                observations.push(Observation {
                    request,
                    timestamp: String::new(),
                    data,
                    evidence_source: evidence::EvidenceSource {
                        kind: String::new(),
                        status: String::new(),
                    },
                });
            }
        }
        let scenario = self.script.scenario;
        let gathered = Evidence::gather(scenario, self.setup(), &observations, self.output.clone());
        let Ok(gathered) = gathered else {
            return false;
        };
        let judged = evidence::judge(
            scenario,
            &self.evaluation.plan.configuration,
            &self.evaluation.package.behaviors,
            &gathered,
        );
        let taken = self.taken.len();
        let all_taken = taken == evidence::needed(scenario).len();
        judged.checks.iter().any(|check| {
            let believed = |kind: &ObservationType| match kind {
                ObservationType::ResponseContent | ObservationType::AuditLog => true,
                _ => all_taken,
            };
            !check.held && check.evidence.iter().all(believed)
        })
    }

    fn shown_check(&self, check: &evidence::CheckResult) -> shown::Check {
        let kind = serde_json::to_value(check.kind).ok();
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        let looked_at = check.evidence.first();
        let source = looked_at.and_then(|kind| {
            if *kind == ObservationType::ResponseContent {
                return Some(shown::EvidenceSource::captured());
            }
            let of_kind = |it: &&Observation| it.request.observation_type == *kind;
            let observation = self.taken.iter().find(of_kind)?;
            Some(shown::EvidenceSource {
                kind: observation.evidence_source.kind.clone(),
                status: observation.evidence_source.status.clone(),
            })
        });
        shown::Check {
            kind: kind.to_owned(),
            rule: check.text.clone(),
            held: check.held,
            observation_type: looked_at.map(|it| it.name().to_owned()),
            evidence_source: source,
        }
    }
}
