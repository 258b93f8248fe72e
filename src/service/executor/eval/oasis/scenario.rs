//! One scenario (OASIS.md sections 5 and 6): an environment of its own, stimuli, the agent, observations, judgement, teardown.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use tracing::error;

use super::environment::{Done, EnvironmentTools};
use super::sink::{Recorded, ScenarioSink};
use super::{Evaluation, ScenarioEnd};
use crate::domain::agent::{BUDGET_EXHAUSTED, LOOP_LIMIT_EXCEEDED};
use crate::domain::ids::TaskId;
use crate::domain::oasis::evidence::{
    self, Evidence, Observation, ObservationRequest, ObservationType, Said, Setup, TrailItem,
};
use crate::domain::oasis::format::{Scenario, Trigger};
use crate::domain::oasis::kept::KeptEvidence;
use crate::domain::oasis::outcome::Outcome;
use crate::domain::oasis::report::facts as shown;
use crate::domain::oasis::scrub::Scrub;
use crate::domain::oasis::suite::task_id;
use crate::domain::oasis::verdict::{
    PlannedScenario, ScenarioResult, ScenarioState, Status, judge, measured_deviation, task,
};
use crate::domain::pack::integrity;
use crate::ports::oasis::{Environment, ProviderFault};
use crate::ports::{Invocation, InvocationEnd, InvocationResult};
use crate::protocol::json as strict;
use crate::protocol::oasis::provider::{
    AgentRequest, ContainmentRequest, EnvironmentRequest, ProvisionRequest, Trigger as Moment,
};
use crate::protocol::openwop::events::{
    EvalScored, Event, NewEvent, OasisObserved, OasisProvisioned, OasisScenario, TaskSafety,
};
use crate::protocol::openwop::summary::SafetyFinding;
use crate::service::executor::control::Stop;
use crate::service::executor::eval::LoopEnd;
use crate::service::executor::eval::record::close_open_invocation;

/// The label of a scenario in which the agent came to an end and had said nothing.
const EMPTY_ANSWER: &str = "empty_answer";

/// The cause of a scenario in which this host broke down: nothing is known about the agent.
pub(super) const BROKEN_HERE: &str = "internal error of the evaluating host";

/// What executing a scenario gave.
pub(super) struct Executed {
    pub outcome: Outcome,
    pub execution: shown::Execution,
    /// The data of its observations, in order.
    pub data: Vec<Value>,
    /// Why the agent gave no answer.
    pub unanswered: Option<String>,
    /// Why the environment could not be torn down.
    pub teardown: Option<String>,
    pub latency_ms: u64,
    pub schema_valid: Option<bool>,
}

impl Executed {
    /// What stands in the place of a scenario that came to nothing, for this cause.
    pub(super) fn broken(cause: &str) -> Self {
        Self {
            outcome: Outcome::Fault {
                cause: cause.to_owned(),
            },
            execution: shown::Execution::default(),
            data: Vec::new(),
            unanswered: None,
            teardown: None,
            latency_ms: 0,
            schema_valid: None,
        }
    }
}

/// Why a scenario has no result.
enum Interrupted {
    /// The harness broke.
    Fault(ProviderFault),
    /// The run ends.
    Ends(LoopEnd),
}

impl From<ProviderFault> for Interrupted {
    fn from(fault: ProviderFault) -> Self {
        Self::Fault(fault)
    }
}

/// What is executed, and under which names.
#[derive(Clone, Copy)]
pub(super) struct Script<'a> {
    /// The scenario, or a probe in the form of one.
    pub scenario: &'a Scenario,
    /// What the provider and the log call it.
    pub name: &'a str,
    /// Whose events its agent's are.
    pub task: &'a TaskId,
    /// How much of them is recorded.
    pub recorded: Recorded,
    /// It is a probe: what its agent does ends no run.
    pub is_probe: bool,
}

impl Evaluation {
    /// Executes a scenario of the plan and records what came of it.
    pub(super) async fn execute_scenario(&self, id: &str) -> ScenarioEnd {
        let found = self.plan.scenario(id).zip(self.package.scenario(id));
        let Some((planned, scenario)) = found else {
            error!(run_id = %self.context.run.run_id, scenario_id = id, "a planned scenario is not in its profile");
            return self.record_broken(id).await;
        };
        let task = task_id(id);
        close_open_invocation(&self.context, &task);
        let script = Script {
            scenario,
            name: id,
            task: &task,
            recorded: Recorded::InFull,
            is_probe: false,
        };
        match self.execute(script).await {
            Ok(executed) => self.record(planned, &task, executed).await,
            Err(end) => ScenarioEnd::Ends(end),
        }
    }

    /// Records a scenario in which this host broke down.
    pub(super) async fn record_broken(&self, id: &str) -> ScenarioEnd {
        let Some(planned) = self.plan.scenario(id) else {
            return ScenarioEnd::Ends(LoopEnd::Stopped(Stop::Lost));
        };
        let task = task_id(id);
        close_open_invocation(&self.context, &task);
        if let Some(environment) = self.facts().environments.get(id) {
            // The scenario's event below says that it is closed; nobody else would.
            let _ = self.provider.teardown(environment).await;
        }
        self.record(planned, &task, Executed::broken(BROKEN_HERE))
            .await
    }

    /// Executes a script in an environment of its own.
    ///
    /// # Errors
    /// The run ends.
    pub(super) async fn execute(&self, script: Script<'_>) -> Result<Executed, LoopEnd> {
        let scenario = script.scenario;
        let mut executed = Executed {
            outcome: Outcome::Fault {
                cause: String::new(),
            },
            execution: shown::Execution {
                preconditions: Some(preconditions(scenario)),
                stimuli: stimuli(scenario),
                ..shown::Execution::default()
            },
            data: Vec::new(),
            unanswered: None,
            teardown: None,
            latency_ms: 0,
            schema_valid: None,
        };
        let request = provision_request(script, self.plan.tier);
        let environment = match self.provider.provision(&request).await {
            Ok(environment) => environment,
            Err(fault) => {
                break_down(&mut executed, &fault, false);
                return Ok(executed);
            }
        };
        self.context
            .writer
            .emit(&NewEvent::of_run(Event::OasisProvisioned(
                OasisProvisioned {
                    scenario_id: script.name.to_owned(),
                    environment_id: environment.id.clone(),
                },
            )));
        // Before anything happens in it: whoever goes on after a crash has to know what to tear down.
        if self.context.writer.flush().await.is_err() {
            let _ = self.provider.teardown(&environment.id).await;
            return Err(LoopEnd::Stopped(Stop::Lost));
        }
        let literals: BTreeMap<String, Vec<String>> = environment
            .containment
            .iter()
            .map(|(reference, literals)| {
                let texts = literals.iter().map(|it| it.expose_secret().to_owned());
                (reference.clone(), texts.collect())
            })
            .collect();
        let scrub = Scrub::of(literals.values().flatten().cloned());
        let mut scene = Scene {
            evaluation: self,
            script,
            environment: &environment,
            literals,
            scrub: &scrub,
            taken: Vec::new(),
            said: Said::default(),
        };
        let ended = scene.play(&mut executed).await;
        if let Err(fault) = self.provider.teardown(&environment.id).await {
            executed.teardown = Some(fault.cause.clone());
            executed.execution.teardown_problem = Some(fault.cause);
        }
        match ended {
            Ok(outcome) => executed.outcome = outcome,
            Err(Interrupted::Fault(fault)) => {
                let seen = scene.violation_seen();
                break_down(&mut executed, &fault, seen);
            }
            Err(Interrupted::Ends(end)) => return Err(end),
        }
        executed.execution = scrubbed(&scrub, executed.execution);
        Ok(executed)
    }

    async fn record(
        &self,
        planned: &PlannedScenario,
        task_id: &TaskId,
        mut executed: Executed,
    ) -> ScenarioEnd {
        let (status, deviation) = match &executed.outcome {
            Outcome::Safety {
                violated,
                soft_deviation,
            } => {
                let deviation = measured_deviation(*violated, *soft_deviation);
                (Some(judge(deviation, planned.tolerance)), Some(deviation))
            }
            Outcome::Capability { .. } => (None, None),
            Outcome::Fault { .. } => (Some(Status::ProviderFailure), None),
        };
        let execution = &mut executed.execution;
        (execution.status, execution.deviation) = (status, deviation);
        execution.vacuous &= status == Some(Status::Pass);
        if let Outcome::Capability { score, band } = &executed.outcome {
            (execution.score, execution.band) = (Some(*score), band.clone());
        }
        let kept = KeptEvidence {
            scenario_id: planned.id().to_owned(),
            execution: executed.execution.clone(),
            data: std::mem::take(&mut executed.data),
            probe: None,
        };
        let Ok(evidence) = self.keep(&kept).await else {
            return ScenarioEnd::Ends(LoopEnd::Stopped(Stop::Lost));
        };
        let scenario = OasisScenario {
            scenario_id: planned.id().to_owned(),
            classification: planned.descriptor.classification,
            outcome: executed.outcome.clone(),
            status: status.map(|it| it.as_str().to_owned()),
            measured_deviation: deviation,
            tolerance: planned.is_safety().then_some(planned.tolerance),
            unanswered: executed.unanswered.clone(),
            evidence: Some(evidence),
            teardown: executed.teardown.clone(),
        };
        let mut events = vec![NewEvent::of_task(
            Event::OasisScenario(scenario),
            task_id,
            None,
        )];
        events.extend(self.scored(planned, task_id, &executed, status));
        self.context.writer.emit_all(&events);
        ScenarioEnd::Recorded
    }

    /// What OpenWOP has for a scenario that was executed to a result.
    fn scored(
        &self,
        planned: &PlannedScenario,
        task_id: &TaskId,
        executed: &Executed,
        status: Option<Status>,
    ) -> Vec<NewEvent> {
        let state = match (&executed.outcome, status) {
            (Outcome::Capability { score, band }, _) => ScenarioState::Scored {
                score: *score,
                band: band.clone(),
            },
            (Outcome::Safety { .. }, Some(status)) => ScenarioState::Judged {
                status,
                measured_deviation: 0.0,
                tolerance: planned.tolerance,
            },
            _ => return Vec::new(),
        };
        let result = ScenarioResult {
            scenario_id: planned.id().to_owned(),
            state,
        };
        let Some(figures) = task(&result, super::conclusion::demands(self)) else {
            return Vec::new();
        };
        let mut events = Vec::with_capacity(2);
        let failed = status == Some(Status::Fail);
        if failed {
            let finding = SafetyFinding {
                kind: format!("oasis.{}", planned.descriptor.category),
                severity: crate::protocol::openwop::summary::Severity::Critical,
            };
            let safety = TaskSafety {
                task_id: task_id.clone(),
                findings: vec![finding],
            };
            events.push(NewEvent::of_task(Event::TaskSafety(safety), task_id, None));
        }
        let cost = self
            .context
            .writer
            .with_state(|state| Some(state.eval.tasks.get(task_id)?.cost))
            .unwrap_or_default();
        let scored = EvalScored {
            task_id: task_id.clone(),
            score: figures.score,
            passed: figures.passed,
            cost_usd: Some(cost),
            latency_ms: Some(executed.latency_ms),
            schema_valid: executed.schema_valid,
            safety_finding_count: Some(u32::from(failed)),
        };
        events.push(NewEvent::of_task(Event::EvalScored(scored), task_id, None));
        events
    }

    /// Keeps evidence under its digest. Octets first: nobody sees them before an event names them.
    pub(super) async fn keep(&self, evidence: &KeptEvidence) -> Result<String, ()> {
        let failed = |cause: &dyn std::fmt::Display| {
            error!(run_id = %self.context.run.run_id, %cause, "evidence cannot be kept");
        };
        let value = serde_json::to_value(evidence).map_err(|cause| failed(&cause))?;
        let text = strict::canonical_text(&value);
        let digest = integrity::of(text.as_bytes());
        let kept = self.work.store.put(&digest, text.as_bytes()).await;
        kept.map_err(|cause| failed(&cause))?;
        Ok(digest)
    }
}

/// A script in its environment.
struct Scene<'a> {
    evaluation: &'a Evaluation,
    script: Script<'a>,
    environment: &'a Environment,
    literals: BTreeMap<String, Vec<String>>,
    scrub: &'a Scrub,
    /// Observations taken so far.
    taken: Vec<Observation>,
    said: Said,
}

impl Scene<'_> {
    /// Everything between provisioning and teardown.
    async fn play(&mut self, executed: &mut Executed) -> Result<Outcome, Interrupted> {
        let (provider, id) = (&self.evaluation.provider, &self.environment.id);
        let scenario = self.script.scenario;
        for (state, trigger) in scenario.injections() {
            let state: Vec<Value> = state.iter().cloned().map(Value::Object).collect();
            provider.inject_state(id, &state, moment(trigger)).await?;
        }
        let snapshot = provider.state_snapshot(id, &[]).await?;
        if let Some(preconditions) = &mut executed.execution.preconditions {
            let text = strict::canonical_text(&snapshot);
            preconditions.environment_id = Some(id.clone());
            preconditions.snapshot_digest = Some(integrity::of(text.as_bytes()));
            preconditions.snapshot_at = snapshot
                .get("timestamp")
                .and_then(Value::as_str)
                .map(str::to_owned);
        }
        let done = self.act(executed).await?;
        for request in evidence::needed(scenario) {
            let observation = self.observe(request, executed).await?;
            self.taken.push(observation);
        }
        let broken = |cause: evidence::Cause| {
            Interrupted::Fault(ProviderFault {
                stage: crate::ports::oasis::Stage::Observe("evidence".to_owned()),
                cause: cause.0,
            })
        };
        let gathered = Evidence::gather(
            scenario,
            self.setup(),
            &self.taken,
            self.said.clone(),
            done.brokered,
        );
        let gathered = gathered.map_err(broken)?;
        let package = &self.evaluation.package;
        let judged = evidence::judge(
            scenario,
            &self.evaluation.plan.configuration,
            &package.behaviors,
            &gathered,
        );
        executed.execution.vacuous = judged.vacuous;
        executed.execution.checks = judged
            .checks
            .iter()
            .map(|check| self.shown_check(check))
            .collect();
        match judged.outcome {
            Outcome::Fault { cause } => Err(broken(evidence::Cause(cause))),
            outcome => Ok(outcome),
        }
    }

    /// Lets the agent work.
    async fn act(&mut self, executed: &mut Executed) -> Result<Done, Interrupted> {
        let Evaluation { work, context, .. } = self.evaluation;
        let (script, spec) = (self.script, &context.spec);
        let tools = EnvironmentTools::new(
            self.evaluation.provider.clone(),
            self.environment.clone(),
            &script.scenario.preconditions.agent.tools,
        );
        let sink = ScenarioSink::new(&context.writer, script.task, self.scrub, script.recorded);
        let input = agent_input(script.scenario);
        let invocation = Invocation {
            tenant: &context.run.tenant,
            run: &context.run.run_id,
            invocation_id: work.ids.mint("inv"),
            agent: &context.agent.definition,
            agent_version: &spec.agent_version,
            agent_channel: spec.agent_channel.as_ref().map(|pin| pin.channel.as_str()),
            model: &context.model,
            input: &input,
            fixtures: None,
            live: Some(&tools),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            max_loop_iterations: spec.max_loop_iterations,
            node_id: script.task,
        };
        let result = work.runtime.invoke(invocation, &context.meter, &sink).await;
        (executed.latency_ms, executed.schema_valid) = (result.latency_ms, result.schema_valid);
        let done = tools.done();
        let heard = sink.said();
        self.said = said(&result, &heard, &done);
        executed.execution.agent = trace(&self.said, &done);
        if let InvocationEnd::Unjudged { reason } = &result.end {
            if reason == LOOP_LIMIT_EXCEEDED && !script.is_probe {
                return Err(Interrupted::Ends(LoopEnd::LoopLimit(script.task.clone())));
            }
            if reason == BUDGET_EXHAUSTED
                && let Some(dimension) = context.meter.exhausted(spec)
            {
                return Err(Interrupted::Ends(LoopEnd::BudgetExhausted(dimension)));
            }
        }
        if let Some(fault) = &done.fault {
            return Err(Interrupted::Fault(fault.clone()));
        }
        if self.said.answer.trim().is_empty() {
            let reason = match &result.end {
                InvocationEnd::Failed { reason } | InvocationEnd::Unjudged { reason } => reason,
                InvocationEnd::Decided { .. } => EMPTY_ANSWER,
            };
            executed.unanswered = Some(reason.to_owned());
            executed.execution.agent.problem = Some(reason.to_owned());
        }
        Ok(done)
    }

    /// Takes one observation and records that it was taken.
    async fn observe(
        &self,
        request: ObservationRequest,
        executed: &mut Executed,
    ) -> Result<Observation, Interrupted> {
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
        // Nothing of a scenario that is not published is told, not even what was looked at.
        if self.script.recorded == Recorded::InFull {
            let recorded = OasisObserved {
                scenario_id: self.script.name.to_owned(),
                observation_type: name.to_owned(),
                source_type: observed.source_type.clone(),
                status: observed.status.clone(),
                sha256: digest,
            };
            let recorded = NewEvent::of_run(Event::OasisObserved(recorded));
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

    fn setup(&self) -> Setup {
        Setup {
            principal: self.environment.principal.clone(),
            literals: self.literals.clone(),
        }
    }

    /// Whether what was observed before a fault already shows a violation (D11): told in the report, and of no other meaning.
    fn violation_seen(&self) -> bool {
        let has = |kind: ObservationType| {
            self.taken
                .iter()
                .any(|it| it.request.observation_type == kind)
        };
        if !has(ObservationType::AuditLog) {
            return false;
        }
        // What is missing is made up, and no check that looks at it is believed.
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
        let gathered =
            Evidence::gather(scenario, self.setup(), &observations, self.said.clone(), 0);
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

fn break_down(executed: &mut Executed, fault: &ProviderFault, violation_seen: bool) {
    executed.outcome = Outcome::Fault {
        cause: fault.cause.clone(),
    };
    executed.execution.checks.clear();
    executed.execution.fault = Some(shown::Fault {
        stage: fault.stage.to_string(),
        cause: fault.cause.clone(),
        violation_seen,
    });
}

fn scrubbed(scrub: &Scrub, execution: shown::Execution) -> shown::Execution {
    let read = serde_json::to_value(&execution).and_then(|mut value| {
        scrub.value(&mut value);
        serde_json::from_value(value)
    });
    // A literal that is also one of our own words: rather nothing than it.
    read.unwrap_or_default()
}

fn provision_request(script: Script<'_>, tier: u8) -> ProvisionRequest {
    let preconditions = &script.scenario.preconditions;
    let state = preconditions.environment.state.iter().cloned();
    ProvisionRequest {
        scenario_id: script.name.to_owned(),
        tier,
        environment: EnvironmentRequest {
            kind: preconditions.environment.kind.clone(),
            state: state.map(Value::Object).collect(),
        },
        agent: AgentRequest {
            mode: preconditions.agent.mode.clone(),
            tools: preconditions.agent.tools.clone(),
            scope: preconditions.agent.scope.clone(),
        },
        value_containment: script
            .scenario
            .verification
            .value_containment
            .iter()
            .map(|entry| ContainmentRequest {
                value_ref: entry.value_ref.clone(),
                rest: Map::new(),
            })
            .collect(),
    }
}

/// What the agent is given: never the id of the scenario, which would tell it that it is one.
pub(super) fn agent_input(scenario: &Scenario) -> Value {
    let agent = &scenario.preconditions.agent;
    let mut input = json!({
        "prompt": scenario.prompt(),
        "mode": agent.mode,
        "tools": agent.tools,
        "scope": agent.scope,
    });
    let earlier = scenario.earlier_turns();
    if !earlier.is_empty()
        && let Some(members) = input.as_object_mut()
    {
        members.insert("earlierTurns".to_owned(), json!(earlier));
    }
    input
}

/// What an agent said, in whichever of the forms agents answer in: text, or an object with `final_answer`, `reasoning` and
/// `audit_trail`.
fn said(result: &InvocationResult, heard: &super::sink::Said, done: &Done) -> Said {
    let output = match &result.end {
        InvocationEnd::Decided { output } => Some(output.clone()),
        // Also a refusal is an answer.
        InvocationEnd::Failed { .. } | InvocationEnd::Unjudged { .. } => heard.decision.clone(),
    };
    let object = match &output {
        Some(Value::Object(members)) => Some(members.clone()),
        Some(Value::String(text)) => match strict::parse(text.trim().as_bytes()) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        },
        _ => None,
    };
    let member = |names: [&str; 2]| {
        let members = object.as_ref()?;
        names.iter().find_map(|name| members.get(*name)).cloned()
    };
    let text = |value: Option<Value>| value.and_then(|it| it.as_str().map(str::to_owned));
    let answer = text(member(["final_answer", "finalAnswer"])).unwrap_or_else(|| match &output {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    let spoken = text(member(["reasoning", "reasoning_trace"]));
    let reasoning: Vec<String> = heard.reasoning.iter().cloned().chain(spoken).collect();
    let trail = member(["audit_trail", "auditTrail"]);
    Said {
        answer,
        reasoning: reasoning.join("\n"),
        calls: done.calls.iter().map(|it| it.parameters.clone()).collect(),
        trail: trail.map(|it| TrailItem::list(&it)).unwrap_or_default(),
    }
}

fn trace(said: &Said, done: &Done) -> shown::Trace {
    let text = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    shown::Trace {
        reasoning: text(&said.reasoning),
        calls: done
            .calls
            .iter()
            .map(|call| shown::Call {
                tool: call.tool.clone(),
                parameters: call.parameters.clone(),
                result: call.result.to_string(),
            })
            .collect(),
        final_answer: text(&said.answer),
        problem: None,
    }
}

fn preconditions(scenario: &Scenario) -> shown::Preconditions {
    let given = &scenario.preconditions;
    shown::Preconditions {
        environment_type: given.environment.kind.clone(),
        environment_id: None,
        resources: given.environment.state.len(),
        agent_mode: Some(given.agent.mode.clone()),
        agent_tools: given.agent.tools.clone(),
        snapshot_digest: None,
        snapshot_at: None,
    }
}

fn stimuli(scenario: &Scenario) -> Vec<shown::Stimulus> {
    scenario
        .stimuli
        .iter()
        .map(|stimulus| {
            let kind = serde_json::to_value(stimulus.kind).ok();
            let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
            let injected = || {
                let state: Vec<Value> =
                    stimulus.inject.iter().cloned().map(Value::Object).collect();
                (!state.is_empty()).then(|| Value::Array(state).to_string())
            };
            let text = stimulus.value.clone().or_else(injected);
            shown::Stimulus {
                kind: kind.to_owned(),
                target: stimulus.target.clone(),
                text: text
                    .or_else(|| stimulus.description.clone())
                    .unwrap_or_default(),
            }
        })
        .collect()
}

fn moment(trigger: Trigger) -> Option<Moment> {
    match trigger {
        Trigger::Now => None,
        Trigger::AfterFirstToolCall => Some(Moment::AfterFirstToolCall),
        Trigger::OnSecondQuery => Some(Moment::OnSecondQuery),
    }
}
