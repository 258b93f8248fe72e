//! OASIS evaluations (OASIS.md sections 2, 7 and 14): preflight, phase 1, phase 2, the adversarial
//! phase, the verdict.
//!
//! `rules::verdict::progress` selects the next scenario from the records, so a resumed run
//! simply continues. An interrupted scenario is executed again in a new environment; a scenario
//! with a recorded outcome is never executed again.

pub mod adversarial;
pub mod conclusion;
pub mod conversions;
pub mod preflight;
pub mod scenario;
pub mod session;
pub mod sink;
pub mod tools;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::ports::providers::{Provider, Providers};
use crate::rules::adapter::AdapterReport;
use crate::rules::format::Package;
use crate::rules::outcome::Outcome;
use crate::rules::request::OasisSpec;
use crate::rules::run::facts::OasisFacts;
use crate::rules::run::kind::NAME;
use crate::rules::verdict::{Plan, ready};
use crate::service::library::{Error, Library};
use touchstone_openwop::events::{Event, NewEvent, RunError, RunFailed};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::executor::Reached;
use touchstone_runs::service::executor::control::{Signal, Stop, Watch};
use touchstone_runs::service::executor::eval::kind::KindExecutor;
use touchstone_runs::service::executor::eval::{EvalWork, LoopEnd, RunContext};
use touchstone_runs::service::run_writer::{Closed, RunWriter};

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
    /// The recorded facts, up to the last look at them.
    folded: Mutex<OasisFacts>,
}

/// Executes OASIS evaluations.
pub struct OasisExecutor {
    /// Provides environments.
    pub providers: Arc<dyn Providers>,
    pub library: Arc<Library>,
}

#[async_trait]
impl KindExecutor for OasisExecutor {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn carry_out(
        &self,
        work: &Arc<EvalWork>,
        context: RunContext,
        watch: &mut Watch,
    ) -> Reached {
        match OasisSpec::of(&context.spec) {
            Some(oasis) => carry_out(work, self, context, oasis, watch).await,
            None => {
                let message = "could not read the evaluation that this run was created for";
                fail(&context, "internal_error", message.to_owned())
            }
        }
    }

    /// Tears down the environments of interrupted executions.
    async fn leave(&self, run: &RunRecord, writer: &RunWriter) {
        let oasis = run.spec.eval().and_then(|eval| OasisSpec::of(eval));
        let provider = oasis.and_then(|it| self.providers.provider(&it.request.provider));
        if let Some(provider) = provider {
            tear_down_left(provider.as_ref(), run, writer).await;
        }
    }
}

async fn carry_out(
    work: &Arc<EvalWork>,
    executor: &OasisExecutor,
    context: RunContext,
    oasis: OasisSpec,
    watch: &mut Watch,
) -> Reached {
    let context = Arc::new(context);
    let requisites = match executor.requisites(&context, &oasis).await {
        Ok(found) => found,
        Err(reached) => return reached,
    };
    let opened = preflight::open(&context, &oasis, &requisites).await;
    let Requisites {
        package, provider, ..
    } = requisites;
    let Some(plan) = opened else {
        return Reached::End;
    };
    let evaluation = Arc::new(Evaluation {
        work: work.clone(),
        context,
        oasis: Arc::new(oasis),
        package,
        provider,
        plan,
        folded: Mutex::default(),
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

/// What was pinned when the run was created.
struct Requisites {
    package: Arc<Package>,
    /// The report of the agent's pack about the agent.
    report: Option<AdapterReport>,
    provider: Arc<dyn Provider>,
}

impl OasisExecutor {
    async fn requisites(
        &self,
        context: &RunContext,
        oasis: &OasisSpec,
    ) -> Result<Requisites, Reached> {
        let lost = |fault: Error| match fault {
            Error::Store(cause) => {
                error!(run_id = %context.run.run_id, %cause, "could not read the run's profile");
                Reached::Stop(Stop::Lost)
            }
            Error::Damaged(_) => unloadable(context),
        };
        let package = self.library.profile(&oasis.profile_pack).await;
        let package = package.map_err(lost)?.ok_or_else(|| unloadable(context))?;
        let agent = &context.agent;
        let report = self
            .library
            .report(&agent.pack_integrity, &agent.definition.agent_id);
        let report = report.await.map_err(lost)?;
        let name = &oasis.request.provider;
        match self.providers.provider(name) {
            Some(provider) => Ok(Requisites {
                package,
                report,
                provider,
            }),
            None => Err(fail(
                context,
                "capability_not_provided",
                format!("the provider `{name}` is no longer configured (`[[oasis.providers]]`)"),
            )),
        }
    }
}

fn unloadable(context: &RunContext) -> Reached {
    let message = "could not load the profile of this run".to_owned();
    fail(context, "internal_error", message)
}

fn fail(context: &RunContext, code: &str, message: String) -> Reached {
    let error = RunError {
        code: code.to_owned(),
        message,
    };
    let failed = Event::RunFailed(RunFailed {
        error,
        failed_node_id: None,
    });
    context.writer.emit(&NewEvent::of_run(failed));
    Reached::End
}

/// Tears down the environments of interrupted executions. No evidence is lost (D8).
async fn tear_down_left(provider: &dyn Provider, run: &RunRecord, writer: &RunWriter) {
    let left = writer.with_state(|state| OasisFacts::of(&state.eval).environments);
    let tearing = left.into_iter().map(|(name, environment)| async move {
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
        self.folded().clone()
    }

    /// Folds the events since the last call: folding all of them each time would take quadratic
    /// time.
    fn folded(&self) -> MutexGuard<'_, OasisFacts> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &self.context.writer;
        writer.with_state(|state| folded.catch_up(&state.eval));
        folded
    }

    /// The recorded outcomes.
    fn results(&self) -> Vec<(String, Outcome)> {
        let folded = self.folded();
        let scenarios = folded.scenarios.iter();
        scenarios
            .map(|it| (it.scenario_id.clone(), it.outcome.clone()))
            .collect()
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
