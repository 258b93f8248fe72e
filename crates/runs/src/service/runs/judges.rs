//! The models, judges and simulated users that a run would get now.

use crate::rules::run::deciders::{Deciders, check_same_deciders};
use crate::rules::run::record::{EvalSpec, JudgePin, ModelPin, RunSpec};
use crate::rules::run::request::prices::check_cost_limits;
use crate::rules::run::retry::ConfiguredModels;
use crate::service::runs::Runs;
use touchstone_agents::model::worker_command::at_workers;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::prices::RunPrices;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

impl Runs {
    /// The judges, the first one first.
    pub(super) fn judges(&self) -> Vec<ModelBinding> {
        let first = self.models.judge();
        let further = first.as_ref().map(|_| self.models.further_judges());
        first
            .into_iter()
            .chain(further.into_iter().flatten())
            .collect()
    }

    pub(super) fn judging_models(&self) -> Vec<ModelPin> {
        self.judges().iter().map(ModelBinding::pin).collect()
    }

    /// The endpoint that answers for the agent of a run of this tenant, if any.
    pub(super) fn agent_model(&self, tenant: &TenantId, eval: &EvalSpec) -> Option<ModelBinding> {
        if let Some(command) = &eval.execution.worker_command {
            return Some(at_workers(command));
        }
        match &eval.execution.reached_by {
            Some(reached_by) => self.models.reach(tenant, reached_by).ok(),
            None => self.models.resolve(eval.model_class),
        }
    }

    /// The currently configured model, judge and simulated user for this run.
    pub(super) async fn configured(
        &self,
        tenant: &TenantId,
        eval: &EvalSpec,
    ) -> Result<ConfiguredModels, Problem> {
        let judges = self.judges();
        let judge = judges.first();
        let judging = judge.map(ModelBinding::pin);
        let rubric_judge = match &eval.judge {
            Some(_) => {
                let suite = self.suite_index(eval).await?;
                let rubrics = self.library.rubrics(&suite).await;
                let rubrics = rubrics.map_err(|cause| internal(&cause))?;
                let scoring = self.scoring_of(eval).await?;
                JudgePin::of_all(&self.judging_models(), &rubrics, scoring.as_deref())
            }
            None => None,
        };
        let has_safety_judge = eval.safety_judge.is_some();
        let model = self.agent_model(tenant, eval);
        let (user, user_pin) = self.playing_model();
        Ok(ConfiguredModels {
            model: model.as_ref().map(ModelBinding::identity),
            judge: judge.map(ModelBinding::identity),
            judges: judges.iter().map(ModelBinding::identity).collect(),
            rubric_judge,
            safety_judge: judging
                .filter(|_| has_safety_judge)
                .as_ref()
                .map(JudgePin::of_safety),
            deciders: self.deciders(),
            user: user.as_ref().map(ModelBinding::identity),
            user_pin,
        })
    }

    /// What could decide assertions now.
    fn deciders(&self) -> Deciders {
        let program = self.models.assertion_program();
        Deciders {
            embeddings: self.models.embeddings().map(|it| it.identity().into()),
            command: program.map(|it| it.digest().to_owned()),
        }
    }

    /// Pins what decides the run's assertions, and refuses a run that lacks it or whose cost limit
    /// cannot be enforced, or whose baseline was decided by something else.
    pub(super) async fn pin_deciders(
        &self,
        tenant: &TenantId,
        spec: &mut RunSpec,
    ) -> Result<(), Problem> {
        let Some(eval) = spec.eval_mut() else {
            return Ok(());
        };
        let thresholds = self.thresholds(eval).await?;
        let scoring = self.scoring_of(eval).await?;
        eval.deciders = self.deciders().needed(scoring.as_deref(), &eval.tasks)?;
        if eval.deciders.embeddings.is_some()
            && let (Some(prices), Some(model)) = (&mut eval.prices, self.models.embeddings())
        {
            prices.embeddings = model.model.info().price.clone();
        }
        if let Some(baseline) = &eval.baseline {
            let record = self.projections.record(tenant, &baseline.run_id).await;
            let record = record.map_err(|cause| internal(&cause))?;
            let compared = record.as_ref().and_then(|record| record.spec.eval());
            if let Some(compared) = compared {
                check_same_deciders(&baseline.run_id, &compared.deciders, &eval.deciders)?;
            }
        }
        let is_set = self.limits.is_max_cost_set;
        check_cost_limits(eval, &thresholds, scoring.as_deref(), is_set)
    }

    /// Pins the endpoints that are configured now, and their prices.
    pub(super) fn pin_endpoints(&self, tenant: &TenantId, spec: &mut RunSpec) {
        let Some(eval) = spec.eval_mut() else {
            return;
        };
        let endpoint = |model: &Option<ModelBinding>| model.as_ref()?.endpoint.clone();
        let price = |model: &Option<ModelBinding>| model.as_ref()?.model.info().price.clone();
        let judged = eval.judge.is_some() || eval.safety_judge.is_some();
        let replay = self.models.replayed_from();
        for (member, binding) in eval.judges.iter_mut().zip(self.judges()) {
            member.endpoint = binding.endpoint;
        }
        let agent = self.agent_model(tenant, eval);
        let judge = self.models.judge().filter(|_| judged);
        eval.execution.endpoint = endpoint(&agent);
        eval.execution.judge_endpoint = endpoint(&judge);
        let user = self.models.simulated_user();
        let user = user.filter(|_| eval.simulated_user.is_some());
        eval.execution.user_endpoint = endpoint(&user);
        // With several judges, the cost of judging is known only if every price is.
        let mut members = eval.judges.iter().zip(self.judges());
        let priced = members.all(|(_, binding)| binding.model.info().price.is_some());
        eval.prices = Some(RunPrices {
            model: price(&agent),
            judge: price(&judge).filter(|_| priced),
            embeddings: None,
            user: price(&user),
        });
        eval.execution.cassette_signed_by =
            replay.as_ref().and_then(|replay| replay.signed_by.clone());
        eval.execution.answer_cache = self.models.has_answer_cache();
        eval.execution.replayed_from = replay.map(|replay| replay.digest);
    }
}
