//! OASIS evaluations (OASIS.md sections 2, 7 and 14): preflight, phase 1, phase 2, the adversarial
//! phase, the verdict.
//!
//! `rules::verdict::progress` selects the next scenario from the records, so a resumed run
//! simply continues. An interrupted scenario is executed again in a new environment; a scenario
//! with a recorded outcome is never executed again.

pub mod adversarial;
pub mod conclusion;
pub mod conversions;
pub mod evaluation;
pub mod execution;
pub mod preflight;
pub mod record;
pub mod scenario;
pub mod session;
pub mod sink;
pub mod tools;

use std::sync::Arc;

use async_trait::async_trait;
use tracing::error;

use crate::executor::evaluation::{Evaluation, tear_down_environments};
use crate::ports::providers::{Provider, Providers};
use crate::rules::adapter::AdapterReport;
use crate::rules::format::Package;
use crate::rules::request::OasisSpec;
use crate::rules::run::kind::NAME;
use crate::service::library::{Error, Library};
use touchstone_openwop::events::RunError;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::executor::control::{RunSignals, Stop};
use touchstone_runs::service::executor::endings::fail;
use touchstone_runs::service::executor::eval::EvalExecutor;
use touchstone_runs::service::executor::eval::conclusion::conclude;
use touchstone_runs::service::executor::eval::context::RunContext;
use touchstone_runs::service::executor::eval::kind::KindExecutor;
use touchstone_runs::service::executor::{INTERNAL_ERROR, WorkEnd};
use touchstone_runs::service::run_writer::{Closed, RunWriter};

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

    async fn execute(
        &self,
        executor: &Arc<EvalExecutor>,
        context: RunContext,
        signals: &mut RunSignals,
    ) -> WorkEnd {
        let Some(oasis) = OasisSpec::of(&context.spec) else {
            let message = "could not read the evaluation that this run was created for";
            return fail(&context.writer, RunError::new(INTERNAL_ERROR, message));
        };
        let inputs = match self.load(&context, &oasis).await {
            Ok(inputs) => inputs,
            Err(end) => return end,
        };
        let Some(plan) = preflight::run(&context, &oasis, &inputs).await else {
            return WorkEnd::Ended;
        };
        let evaluation = Evaluation::new(
            executor.clone(),
            Arc::new(context),
            oasis,
            inputs.package,
            inputs.provider,
            plan,
        );
        run_phases(&Arc::new(evaluation), signals).await
    }

    /// Tears down the environments of interrupted executions.
    async fn release(&self, run: &RunRecord, writer: &RunWriter) {
        let oasis = run.spec.eval().and_then(|eval| OasisSpec::of(eval));
        let provider = oasis.and_then(|it| self.providers.provider(&it.request.provider));
        if let Some(provider) = provider {
            tear_down_environments(provider.as_ref(), run, writer).await;
        }
    }
}

async fn run_phases(evaluation: &Arc<Evaluation>, signals: &mut RunSignals) -> WorkEnd {
    let (context, kinds) = (&evaluation.context, evaluation.executor.library.kinds);
    tear_down_environments(evaluation.provider.as_ref(), &context.run, &context.writer).await;
    if let Err(end) = evaluation.run_scenarios(signals).await {
        return conclude(kinds, context, Err(end));
    }
    let probes = match evaluation.probes().await {
        Ok(probes) => Arc::new(probes),
        Err(end) => return conclude(kinds, context, Err(end)),
    };
    if let Err(end) = evaluation.run_probes(&probes, signals).await {
        return conclude(kinds, context, Err(end));
    }
    match conclusion::conclude(evaluation, &probes).await {
        Ok(end) => end,
        Err(Closed) => WorkEnd::Stopped(Stop::Lost),
    }
}

/// The inputs that were pinned when the run was created.
struct PinnedInputs {
    package: Arc<Package>,
    /// The report of the agent's pack about the agent.
    report: Option<AdapterReport>,
    provider: Arc<dyn Provider>,
}

impl OasisExecutor {
    async fn load(&self, context: &RunContext, oasis: &OasisSpec) -> Result<PinnedInputs, WorkEnd> {
        let unloadable = || {
            let message = "could not load the profile of this run";
            fail(&context.writer, RunError::new(INTERNAL_ERROR, message))
        };
        let failed = |fault: Error| match fault {
            Error::Store(cause) => {
                error!(run_id = %context.run.run_id, %cause, "could not read the run's profile");
                WorkEnd::Stopped(Stop::Lost)
            }
            Error::Damaged(_) => unloadable(),
        };
        let package = self.library.profile(&oasis.profile_pack).await;
        let package = package.map_err(failed)?.ok_or_else(unloadable)?;
        let agent = &context.agent;
        let report = self
            .library
            .report(&agent.pack_integrity, &agent.definition.agent_id);
        let report = report.await.map_err(failed)?;
        let name = &oasis.request.provider;
        let provider = self.providers.provider(name).ok_or_else(|| {
            let message =
                format!("the provider `{name}` is no longer configured (`[[oasis.providers]]`)");
            let error = RunError::new("capability_not_provided", message);
            fail(&context.writer, error)
        })?;
        Ok(PinnedInputs {
            package,
            report,
            provider,
        })
    }
}
