//! Executes one script (OASIS.md sections 5 and 6): a new environment, stimuli, the agent,
//! observations, judgement, teardown.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::executor::conversions::{preconditions, provision_request, stimuli};
use crate::executor::evaluation::Evaluation;
use crate::executor::session::{EnvironmentSession, ScenarioError};
use crate::executor::sink::Recorded;
use crate::ports::providers::{Environment, ProviderFault};
use crate::rules::evidence::AgentOutput;
use crate::rules::format::Scenario;
use crate::rules::outcome::Outcome;
use crate::rules::report::facts as shown;
use crate::rules::run::events::{OasisEvent, OasisProvisioned};
use crate::rules::scrub::Scrub;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::NewEvent;
use touchstone_runs::service::executor::control::Stop;
use touchstone_runs::service::executor::task_loop::EarlyEnd;
use touchstone_runs::service::run_writer::Closed;

/// The cause of a fault in this host during a scenario: nothing is known about the agent.
pub(super) const HOST_FAULT: &str = "internal error of the evaluating host";

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
    /// A result without evidence.
    fn new(cause: &str, execution: shown::Execution) -> Self {
        Self {
            outcome: Outcome::Fault {
                cause: cause.to_owned(),
            },
            execution,
            snapshot: None,
            data: Vec::new(),
            unanswered: None,
            teardown: None,
            latency_ms: 0,
            schema_valid: None,
        }
    }

    /// The result of a scenario that failed in this host.
    pub fn failed(cause: &str) -> Self {
        let fault = shown::Fault {
            stage: "evaluating host".to_owned(),
            cause: cause.to_owned(),
            provider_said: None,
            violation_seen: false,
        };
        let execution = shown::Execution {
            fault: Some(fault),
            ..shown::Execution::default()
        };
        Self::new(cause, execution)
    }

    fn set_fault(&mut self, fault: &ProviderFault, violation_seen: bool) {
        self.outcome = Outcome::Fault {
            cause: fault.cause.clone(),
        };
        self.execution.checks.clear();
        self.execution.measured = None;
        self.execution.fault = Some(shown::Fault {
            stage: fault.stage.to_string(),
            cause: fault.cause.clone(),
            provider_said: fault.said.as_ref().map(|it| it.as_str().to_owned()),
            violation_seen,
        });
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
    /// Executes a script in a new environment.
    ///
    /// # Errors
    /// The run ends.
    pub(super) async fn execute(&self, script: Script<'_>) -> Result<Executed, EarlyEnd> {
        let given = shown::Execution {
            preconditions: Some(preconditions(script.scenario)),
            stimuli: stimuli(script.scenario),
            ..shown::Execution::default()
        };
        let mut executed = Executed::new("", given);
        let writer = &self.context.writer;
        writer.may_call().await.map_err(|Closed| Stop::Lost)?;
        let began = self.executor.clock.now();
        let environment = match self.provision(script).await {
            Ok(environment) => environment,
            Err(ScenarioError::Provider(fault)) => {
                executed.set_fault(&fault, false);
                return Ok(executed);
            }
            Err(ScenarioError::RunEnds(end)) => return Err(end),
        };
        let literals = literals_of(&environment);
        let scrub = Scrub::of(literals.values().flatten().cloned());
        let mut session = EnvironmentSession {
            evaluation: self,
            script,
            environment: &environment,
            literals,
            scrub: &scrub,
            began,
            taken: Vec::new(),
            output: AgentOutput::default(),
        };
        let ended = session.run(&mut executed).await;
        if let Err(fault) = self.provider.teardown(&environment.id).await {
            executed.teardown = Some(fault.cause.clone());
            executed.execution.teardown_problem = Some(fault.cause);
        }
        match ended {
            Ok(outcome) => executed.outcome = outcome,
            Err(ScenarioError::Provider(fault)) => {
                let seen = session.violation_seen();
                let token = environment.token.as_ref();
                let token = Scrub::of_token(token.map(|it| it.expose_secret().to_owned()));
                let fault = fault.without(&scrub).without(&token);
                executed.set_fault(&fault, seen);
            }
            Err(ScenarioError::RunEnds(end)) => return Err(end),
        }
        executed.execution = scrubbed(&scrub, executed.execution);
        Ok(executed)
    }

    /// Requests an environment and records it.
    async fn provision(&self, script: Script<'_>) -> Result<Environment, ScenarioError> {
        let request = provision_request(script, self.plan.tier);
        let environment = self.provider.provision(&request).await?;
        let provisioned = OasisProvisioned {
            scenario_id: script.name.to_owned(),
            environment_id: environment.id.clone(),
        };
        let event = NewEvent::of_run(OasisEvent::Provisioned(provisioned).into());
        self.context.writer.emit(&event);
        // The record must be durable before the environment is used: after a crash, it shows which
        // environment to tear down.
        if self.context.writer.flush().await.is_err() {
            let _ = self.provider.teardown(&environment.id).await;
            return Err(ScenarioError::RunEnds(Stop::Lost.into()));
        }
        Ok(environment)
    }
}

/// The values that must not leave the host, by reference.
fn literals_of(environment: &Environment) -> BTreeMap<String, Vec<String>> {
    let literals = environment.containment.iter();
    literals
        .map(|(reference, literals)| {
            let texts = literals.iter().map(|it| it.expose_secret().to_owned());
            (reference.clone(), texts.collect())
        })
        .collect()
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
