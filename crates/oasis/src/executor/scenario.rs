//! The scenarios of the two phases.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tracing::error;

use crate::executor::evaluation::Evaluation;
use crate::executor::execution::{Executed, HOST_FAULT, Script};
use crate::executor::sink::Recorded;
use crate::rules::suite::task_id;
use crate::rules::verdict::ready;
use touchstone_runs::service::executor::control::{RunSignals, Stop};
use touchstone_runs::service::executor::eval::record::close_open_invocation;
use touchstone_runs::service::executor::task_loop::{EarlyEnd, WorkUnit};

/// A scenario to execute.
struct ScenarioRun {
    evaluation: Arc<Evaluation>,
    id: String,
}

impl WorkUnit for ScenarioRun {
    async fn execute(&self) -> Result<(), EarlyEnd> {
        // A scenario that waited for a free slot does not start if a fault happened in the
        // meantime.
        if self.evaluation.has_fault() {
            return Ok(());
        }
        self.evaluation.execute_scenario(&self.id).await
    }

    /// A panic of this host is a fault of the harness: nothing is known about the agent.
    async fn record_panic(&self) -> Result<(), EarlyEnd> {
        let run_id = &self.evaluation.context.run.run_id;
        error!(%run_id, scenario_id = self.id, "a scenario panicked");
        self.evaluation.record_host_fault(&self.id).await
    }
}

impl Evaluation {
    /// Executes the scenarios that have not been executed yet.
    pub(super) async fn run_scenarios(
        self: &Arc<Self>,
        signals: &mut RunSignals,
    ) -> Result<(), EarlyEnd> {
        if self.facts().verdict.is_some() {
            return Ok(());
        }
        let mut running = BTreeSet::new();
        let next = || {
            let id = self.next_scenario(&mut running)?;
            let evaluation = self.clone();
            Some(ScenarioRun { evaluation, id })
        };
        let concurrency = self.context.spec.concurrency as usize;
        let executor = &self.executor;
        executor
            .run_units(&self.context, concurrency, signals, next)
            .await
    }

    /// A scenario that may start now, while those in `running` are being executed; it is added to
    /// them.
    fn next_scenario(&self, running: &mut BTreeSet<String>) -> Option<String> {
        let results = self.results();
        let recorded: HashSet<&str> = results.iter().map(|(id, _)| id.as_str()).collect();
        running.retain(|id| !recorded.contains(id.as_str()));
        let ids: Vec<&str> = running.iter().map(String::as_str).collect();
        let id = ready(&self.plan, &results, &ids).first()?.id().to_owned();
        running.insert(id.clone());
        Some(id)
    }

    /// Executes a scenario of the plan and records its result.
    async fn execute_scenario(&self, id: &str) -> Result<(), EarlyEnd> {
        let found = self.plan.scenario(id).zip(self.package.scenario(id));
        let Some((planned, scenario)) = found else {
            error!(run_id = %self.context.run.run_id, scenario_id = id, "a planned scenario is not in its profile");
            return self.record_host_fault(id).await;
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
        let executed = self.execute(script).await?;
        self.record(planned, &task, executed).await
    }

    /// Records a scenario that a fault in this host ended.
    async fn record_host_fault(&self, id: &str) -> Result<(), EarlyEnd> {
        let planned = self.plan.scenario(id).ok_or(Stop::Lost)?;
        let task = task_id(id);
        close_open_invocation(&self.context, &task);
        self.tear_down(id).await;
        let executed = Executed::failed(HOST_FAULT);
        self.record(planned, &task, executed).await
    }
}
