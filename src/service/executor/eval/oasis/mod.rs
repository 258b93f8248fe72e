//! OASIS evaluations (OASIS.md sections 2, 7 and 14): preflight, phase 1, phase 2, the adversarial
//! phase, the verdict.
//!
//! `domain::oasis::verdict::progress` selects the next scenario from the records, so a resumed run
//! simply continues. An interrupted scenario is executed again in a new environment; a scenario
//! with a recorded outcome is never executed again.

mod adversarial;
mod conclusion;
mod environment;
mod preflight;
mod scenario;
mod scene;
mod shapes;
mod sink;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::{EvalWork, LoopEnd, RunContext};
use crate::domain::oasis::format::Package;
use crate::domain::oasis::outcome::Outcome;
use crate::domain::oasis::request::OasisSpec;
use crate::domain::oasis::verdict::{Plan, ready};
use crate::domain::run::oasis::facts::OasisFacts;
use crate::domain::run::record::RunRecord;
use crate::ports::oasis::Provider;
use crate::protocol::openwop::events::{Event, NewEvent, RunError, RunFailed};
use crate::service::executor::Reached;
use crate::service::executor::control::{Signal, Stop, Watch};
use crate::service::run_writer::{Closed, RunWriter};

/// The error code of a run that a runtime provider fault ended.
pub const PROVIDER_FAILURE: &str = "oasis_provider_failure";

/// A running evaluation.
struct Evaluation {
    work: Arc<EvalWork>,
    context: Arc<RunContext>,
    oasis: Arc<OasisSpec>,
    package: Arc<Package>,
    provider: Arc<dyn Provider>,
    plan: Plan,
}

/// Runs an evaluation to its end or to a pause.
pub(super) async fn carry_out(
    work: &Arc<EvalWork>,
    context: RunContext,
    oasis: &OasisSpec,
    watch: &mut Watch,
) -> Reached {
    let context = Arc::new(context);
    let (package, provider) = match requisites(work, &context, oasis).await {
        Ok(found) => found,
        Err(reached) => return reached,
    };
    let opened = preflight::open(&context, oasis, &package, provider.as_ref()).await;
    let Some(plan) = opened else {
        return Reached::End;
    };
    let evaluation = Arc::new(Evaluation {
        work: work.clone(),
        context,
        oasis: Arc::new(oasis.clone()),
        package,
        provider,
        plan,
    });
    evaluation.tear_down_left().await;
    let mut probes = Vec::new();
    let mut end = evaluation.run_scenarios(watch).await;
    if matches!(end, LoopEnd::AllScored) {
        end = match evaluation.probes().await {
            Ok(scripts) => {
                probes = scripts;
                evaluation.run_probes(&probes, watch).await
            }
            Err(end) => end,
        };
    }
    match end {
        LoopEnd::AllScored => match conclusion::conclude(&evaluation, &probes).await {
            Ok(()) => Reached::End,
            Err(Closed) => Reached::Stop(Stop::Lost),
        },
        other => work.conclude(&evaluation.context, other),
    }
}

/// The profile and the provider that were pinned when the run was created.
async fn requisites(
    work: &EvalWork,
    context: &RunContext,
    oasis: &OasisSpec,
) -> Result<(Arc<Package>, Arc<dyn Provider>), Reached> {
    let failed = |code: &str, message: String| {
        let error = RunError {
            code: code.to_owned(),
            message,
        };
        context
            .writer
            .emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
                error,
                failed_node_id: None,
            })));
        Reached::End
    };
    let package = match work.library.profile(&oasis.profile_pack).await {
        Ok(Some(package)) => package,
        Err(crate::service::library::Error::Store(cause)) => {
            error!(run_id = %context.run.run_id, %cause, "could not read the run's profile");
            return Err(Reached::Stop(Stop::Lost));
        }
        Ok(None) | Err(_) => {
            let message = "could not load the profile of this run".to_owned();
            return Err(failed("internal_error", message));
        }
    };
    let name = &oasis.request.provider;
    match work.providers.provider(name) {
        Some(provider) => Ok((package, provider)),
        None => Err(failed(
            "capability_not_provided",
            format!("the provider `{name}` is no longer configured (`[[oasis.providers]]`)"),
        )),
    }
}

/// Tears down the environments of interrupted executions. No evidence is lost (D8).
pub(super) async fn tear_down_left(provider: &dyn Provider, run: &RunRecord, writer: &RunWriter) {
    let left = writer.with_state(|state| {
        let facts = state.eval.oasis.as_ref();
        facts.map(|facts| facts.environments.clone())
    });
    let tearing = left.unwrap_or_default().into_iter().map(|(name, environment)| async move {
        if let Err(fault) = provider.teardown(&environment).await {
            warn!(run_id = %run.run_id, scenario_id = name, cause = fault.cause, "could not tear down an environment");
        }
    });
    join_all(tearing).await;
}

/// How one execution ended, for the loop.
enum ScenarioEnd {
    Recorded,
    Ends(LoopEnd),
}

impl Evaluation {
    /// The recorded facts.
    fn facts(&self) -> OasisFacts {
        let facts = |state: &crate::domain::run::fold::RunState| state.eval.oasis.clone();
        self.context
            .writer
            .with_state(facts)
            .map(|facts| *facts)
            .unwrap_or_default()
    }

    /// The recorded outcomes.
    fn results(&self) -> Vec<(String, Outcome)> {
        let facts = self.facts();
        let scenarios = facts.scenarios.into_iter();
        scenarios.map(|it| (it.scenario_id, it.outcome)).collect()
    }

    async fn tear_down_left(&self) {
        let (run, writer) = (&self.context.run, &self.context.writer);
        tear_down_left(self.provider.as_ref(), run, writer).await;
    }

    async fn run_scenarios(self: &Arc<Self>, watch: &mut Watch) -> LoopEnd {
        if self.facts().verdict.is_some() {
            return LoopEnd::AllScored;
        }
        let most = self.context.spec.concurrency as usize;
        let mut flying = JoinSet::new();
        let mut running: BTreeSet<String> = BTreeSet::new();
        loop {
            let results = self.results();
            let under_way: Vec<&str> = running.iter().map(String::as_str).collect();
            let waiting: Vec<String> = ready(&self.plan, &results, &under_way)
                .into_iter()
                .map(|it| it.id().to_owned())
                .collect();
            let is_over = waiting.is_empty() && flying.is_empty();
            if !watch.is_held() {
                for id in waiting.into_iter().take(most.saturating_sub(flying.len())) {
                    if self.context.writer.ready().await.is_err() {
                        return LoopEnd::Stopped(Stop::Lost);
                    }
                    running.insert(id.clone());
                    let evaluation = self.clone();
                    flying.spawn(async move {
                        let end = evaluation.run_scenario(&id).await;
                        (id, end)
                    });
                }
            }
            if flying.is_empty() {
                // A pause takes effect even if only the conclusion is left, because the caller
                // already received a response that says so.
                return if is_over && !watch.is_to_pause() {
                    LoopEnd::AllScored
                } else {
                    LoopEnd::Stopped(watch.held())
                };
            }
            tokio::select! {
                ended = flying.join_next() => match ended {
                    Some(Ok((id, ScenarioEnd::Recorded))) => {
                        running.remove(&id);
                    }
                    Some(Ok((_, ScenarioEnd::Ends(end)))) => return end,
                    None => {}
                    Some(Err(cause)) => {
                        error!(run_id = %self.context.run.run_id, %cause, "a scenario ended abnormally");
                        return LoopEnd::Stopped(Stop::Lost);
                    }
                },
                signal = watch.next() => match signal {
                    Signal::Stop(stop) => return LoopEnd::Stopped(stop),
                    Signal::Look => {}
                },
            }
        }
        // Dropping the set aborts the running scenarios; the caller tears down their environments.
    }

    async fn run_scenario(&self, id: &str) -> ScenarioEnd {
        let permits = self.work.tenant_permits(&self.context.run.tenant);
        let Ok(_permit) = permits.acquire_owned().await else {
            return ScenarioEnd::Ends(LoopEnd::Stopped(Stop::Lost));
        };
        // A scenario that waited for a free slot does not start if a fault happened in the
        // meantime.
        let is_fault = |(_, it): &(String, Outcome)| matches!(it, Outcome::Fault { .. });
        if self.results().iter().any(is_fault) {
            return ScenarioEnd::Recorded;
        }
        // A panic of this host is a fault of the harness: nothing is known about the agent.
        let executing = AssertUnwindSafe(self.execute_scenario(id));
        match executing.catch_unwind().await {
            Ok(end) => end,
            Err(_) => {
                error!(run_id = %self.context.run.run_id, scenario_id = id, "a scenario panicked");
                self.record_broken(id).await
            }
        }
    }
}
