//! A running evaluation and its recorded facts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tracing::warn;

use crate::ports::providers::Provider;
use crate::rules::format::Package;
use crate::rules::outcome::Outcome;
use crate::rules::request::OasisSpec;
use crate::rules::run::facts::OasisFacts;
use crate::rules::verdict::Plan;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::executor::eval::EvalExecutor;
use touchstone_runs::service::executor::eval::context::RunContext;
use touchstone_runs::service::run_writer::RunWriter;

pub(super) struct Evaluation {
    pub executor: Arc<EvalExecutor>,
    pub context: Arc<RunContext>,
    pub oasis: OasisSpec,
    pub package: Arc<Package>,
    pub provider: Arc<dyn Provider>,
    pub plan: Plan,
    /// The recorded facts, up to the last look at them.
    facts: Mutex<OasisFacts>,
}

impl Evaluation {
    pub fn new(
        executor: Arc<EvalExecutor>,
        context: Arc<RunContext>,
        oasis: OasisSpec,
        package: Arc<Package>,
        provider: Arc<dyn Provider>,
        plan: Plan,
    ) -> Self {
        Self {
            executor,
            context,
            oasis,
            package,
            provider,
            plan,
            facts: Mutex::default(),
        }
    }

    /// The recorded facts. Folds the events since the last call: folding all of them each time
    /// would take quadratic time.
    pub fn facts(&self) -> MutexGuard<'_, OasisFacts> {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &self.context.writer;
        writer.with_state(|state| facts.catch_up(&state.eval));
        facts
    }

    /// The recorded outcomes.
    pub fn results(&self) -> Vec<(String, Outcome)> {
        let facts = self.facts();
        let scenarios = facts.scenarios.iter();
        scenarios
            .map(|it| (it.scenario_id.clone(), it.outcome.clone()))
            .collect()
    }

    /// Whether a fault of the provider or of this host ended a scenario.
    pub fn has_fault(&self) -> bool {
        let facts = self.facts();
        let mut outcomes = facts.scenarios.iter().map(|it| &it.outcome);
        outcomes.any(|it| matches!(it, Outcome::Fault { .. }))
    }

    /// Tears down the environment of a scenario or probe whose execution panicked. The event that
    /// records its result marks the environment as closed, so no later step would tear it down.
    pub async fn tear_down(&self, name: &str) {
        let environment = self.facts().environments.get(name).cloned();
        if let Some(environment) = environment {
            let _ = self.provider.teardown(&environment).await;
        }
    }
}

/// Tears down the environments of interrupted executions. No evidence is lost (D8).
pub(super) async fn tear_down_environments(
    provider: &dyn Provider,
    run: &RunRecord,
    writer: &RunWriter,
) {
    let left = writer.with_state(|state| OasisFacts::of(&state.eval).environments);
    let tearing = left.into_iter().map(|(name, environment)| async move {
        if let Err(fault) = provider.teardown(&environment).await {
            warn!(run_id = %run.run_id, scenario_id = name, cause = fault.cause, "could not tear down an environment");
        }
    });
    join_all(tearing).await;
}
