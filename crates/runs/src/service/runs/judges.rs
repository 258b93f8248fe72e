//! The models and judges that a run would get now.

use crate::rules::run::record::{EvalSpec, JudgePin, ModelPin, RunSpec};
use crate::rules::run::retry::ConfiguredModels;
use crate::service::runs::Runs;
use touchstone_agents::ports::model::ModelBinding;
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
        match &eval.execution.reached_by {
            Some(reached_by) => self.models.reach(tenant, reached_by).ok(),
            None => self.models.resolve(eval.model_class),
        }
    }

    /// The currently configured model and judge for this run.
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
                let (suite, scoring) = (self.suite_of(eval).await?, self.scoring_of(eval).await?);
                JudgePin::of_all(&self.judging_models(), &suite, scoring.as_deref())
            }
            None => None,
        };
        let has_safety_judge = eval.safety_judge.is_some();
        let model = self.agent_model(tenant, eval);
        Ok(ConfiguredModels {
            model: model.as_ref().map(ModelBinding::identity),
            judge: judge.map(ModelBinding::identity),
            judges: judges.iter().map(ModelBinding::identity).collect(),
            rubric_judge,
            safety_judge: judging
                .filter(|_| has_safety_judge)
                .as_ref()
                .map(JudgePin::of_safety),
        })
    }

    /// Pins the endpoints that are configured now.
    pub(super) fn pin_endpoints(&self, tenant: &TenantId, spec: &mut RunSpec) {
        let Some(eval) = spec.eval_mut() else {
            return;
        };
        let endpoint = |model: Option<ModelBinding>| model.and_then(|model| model.endpoint);
        let judged = eval.judge.is_some() || eval.safety_judge.is_some();
        let replay = self.models.replayed_from();
        for (member, binding) in eval.judges.iter_mut().zip(self.judges()) {
            member.endpoint = binding.endpoint;
        }
        eval.execution.endpoint = endpoint(self.agent_model(tenant, eval));
        eval.execution.judge_endpoint = endpoint(self.models.judge().filter(|_| judged));
        eval.execution.cassette_signed_by =
            replay.as_ref().and_then(|replay| replay.signed_by.clone());
        eval.execution.answer_cache = self.models.has_answer_cache();
        eval.execution.replayed_from = replay.map(|replay| replay.digest);
    }
}
