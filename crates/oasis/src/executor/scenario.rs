//! Executes one scenario (OASIS.md sections 5 and 6): a new environment, stimuli, the agent,
//! observations, judgement, teardown.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use tracing::error;

use crate::executor::scene::{Interrupted, Scene};
use crate::executor::shapes::{preconditions, provision_request, stimuli};
use crate::executor::sink::Recorded;
use crate::executor::{Evaluation, ScenarioEnd};
use crate::ports::providers::ProviderFault;
use crate::rules::evidence::AgentOutput;
use crate::rules::format::Scenario;
use crate::rules::outcome::Outcome;
use crate::rules::report::facts as shown;
use crate::rules::scrub::Scrub;
use crate::rules::stored::StoredEvidence;
use crate::rules::suite::task_id;
use crate::rules::verdict::{
    PlannedScenario, ScenarioResult, ScenarioState, Status, judge, measured_deviation, task,
};
use crate::wire::events::{OasisDeviation, OasisEvent, OasisProvisioned, OasisScenario};
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_kit::json as strict;
use touchstone_openwop::events::{EvalScored, Event, NewEvent, TaskSafety};
use touchstone_openwop::summary::{SafetyFinding, Severity};
use touchstone_packs::store as pack_store;
use touchstone_runs::service::executor::control::Stop;
use touchstone_runs::service::executor::eval::LoopEnd;
use touchstone_runs::service::executor::eval::record::close_open_invocation;

/// The cause of a fault in this host during a scenario: nothing is known about the agent.
pub(super) const BROKEN_HERE: &str = "internal error of the evaluating host";

/// The result of executing a scenario.
pub(super) struct Executed {
    pub outcome: Outcome,
    pub execution: shown::Execution,
    /// The baseline snapshot, if it was taken.
    pub snapshot: Option<Value>,
    /// The data of the observations, in order.
    pub data: Vec<Value>,
    /// Why the agent gave no answer.
    pub unanswered: Option<String>,
    /// Why the environment could not be torn down.
    pub teardown: Option<String>,
    pub latency_ms: u64,
    pub schema_valid: Option<bool>,
}

impl Executed {
    /// The result of a scenario that failed for this cause.
    pub(super) fn broken(cause: &str) -> Self {
        Self {
            outcome: Outcome::Fault {
                cause: cause.to_owned(),
            },
            execution: shown::Execution {
                fault: Some(shown::Fault {
                    stage: "evaluating host".to_owned(),
                    cause: cause.to_owned(),
                    provider_said: None,
                    violation_seen: false,
                }),
                ..shown::Execution::default()
            },
            snapshot: None,
            data: Vec::new(),
            unanswered: None,
            teardown: None,
            latency_ms: 0,
            schema_valid: None,
        }
    }
}

/// The scenario or probe to execute.
#[derive(Clone, Copy)]
pub(super) struct Script<'a> {
    /// The scenario, or a probe in the form of a scenario.
    pub scenario: &'a Scenario,
    /// The name for the provider and the log.
    pub name: &'a str,
    /// The task that the agent's events belong to.
    pub task: &'a TaskId,
    /// How much of the events is recorded.
    pub recorded: Recorded,
    /// Whether it is a probe, whose agent actions do not end the run.
    pub is_probe: bool,
}

impl Evaluation {
    /// Executes a scenario of the plan and records its result.
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

    /// Records a scenario that a fault in this host ended.
    pub(super) async fn record_broken(&self, id: &str) -> ScenarioEnd {
        let Some(planned) = self.plan.scenario(id) else {
            return ScenarioEnd::Ends(LoopEnd::Stopped(Stop::Lost));
        };
        let task = task_id(id);
        close_open_invocation(&self.context, &task);
        if let Some(environment) = self.facts().environments.get(id) {
            // The scenario's event below marks the environment as closed, so no later step would
            // tear it down.
            let _ = self.provider.teardown(environment).await;
        }
        self.record(planned, &task, Executed::broken(BROKEN_HERE))
            .await
    }

    /// Executes a script in a new environment.
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
            snapshot: None,
            data: Vec::new(),
            unanswered: None,
            teardown: None,
            latency_ms: 0,
            schema_valid: None,
        };
        let request = provision_request(script, self.plan.tier);
        if self.context.writer.may_call().await.is_err() {
            return Err(LoopEnd::Stopped(Stop::Lost));
        }
        let began = self.work.clock.now();
        let environment = match self.provider.provision(&request).await {
            Ok(environment) => environment,
            Err(fault) => {
                break_down(&mut executed, &fault, false);
                return Ok(executed);
            }
        };
        self.context.writer.emit(&NewEvent::of_run(
            OasisEvent::Provisioned(OasisProvisioned {
                scenario_id: script.name.to_owned(),
                environment_id: environment.id.clone(),
            })
            .into(),
        ));
        // The record must be durable before the environment is used: after a crash, it shows which
        // environment to tear down.
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
            began,
            taken: Vec::new(),
            said: AgentOutput::default(),
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
                let token = environment.token.as_ref();
                let token = Scrub::of_token(token.map(|it| it.expose_secret().to_owned()));
                let fault = fault.without(&scrub).without(&token);
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
        let measured = executed.execution.measured.as_ref();
        let measured = measured.and_then(OasisDeviation::of);
        let kept = StoredEvidence {
            scenario_id: planned.id().to_owned(),
            execution: executed.execution.clone(),
            snapshot: executed.snapshot.take(),
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
            deviation: measured,
            tolerance: planned.is_safety().then_some(planned.tolerance),
            profile_tolerance: planned.overridden(),
            unanswered: executed.unanswered.clone(),
            evidence: Some(evidence),
            teardown: executed.teardown.clone(),
        };
        let mut events = vec![NewEvent::of_task(
            OasisEvent::Scenario(scenario).into(),
            task_id,
            None,
        )];
        events.extend(self.scored(planned, task_id, &executed, status));
        self.context.writer.emit_all(&events);
        ScenarioEnd::Recorded
    }

    /// The OpenWOP score of a scenario with a result.
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
        let Some(figures) = task(&result, crate::executor::conclusion::demands(self)) else {
            return Vec::new();
        };
        let mut events = Vec::with_capacity(2);
        let failed = status == Some(Status::Fail);
        if failed {
            let finding = SafetyFinding {
                kind: format!("oasis.{}", planned.descriptor.category),
                severity: Severity::Critical,
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

    /// Stores evidence under its digest. It becomes visible only when an event refers to it.
    pub(super) async fn keep(&self, evidence: &StoredEvidence) -> Result<String, ()> {
        let failed = |cause: &dyn std::fmt::Display| {
            error!(run_id = %self.context.run.run_id, %cause, "could not store evidence");
        };
        let value = serde_json::to_value(evidence).map_err(|cause| failed(&cause))?;
        let text = strict::canonical_text(&value);
        let digest = integrity::of(text.as_bytes());
        let kept = pack_store::blobs::put(&self.work.store, &digest, text.as_bytes()).await;
        kept.map_err(|cause| failed(&cause))?;
        Ok(digest)
    }
}

fn break_down(executed: &mut Executed, fault: &ProviderFault, violation_seen: bool) {
    executed.outcome = Outcome::Fault {
        cause: fault.cause.clone(),
    };
    executed.execution.checks.clear();
    executed.execution.measured = None;
    executed.execution.fault = Some(shown::Fault {
        stage: fault.stage.to_string(),
        cause: fault.cause.clone(),
        provider_said: fault.said.as_ref().map(|it| it.as_str().to_owned()),
        violation_seen,
    });
}

fn scrubbed(scrub: &Scrub, execution: shown::Execution) -> shown::Execution {
    let read = serde_json::to_value(&execution).and_then(|mut value| {
        scrub.value(&mut value);
        serde_json::from_value(value)
    });
    // A literal may equal one of this host's own words. Returning nothing is safer than returning
    // the literal.
    read.unwrap_or_default()
}
