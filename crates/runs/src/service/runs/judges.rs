//! The models, judges and simulated users that a run would get now.

use crate::rules::run::record::{EvalSpec, JudgePin, ModelPin, RunSpec};
use crate::rules::run::retry::ConfiguredModels;
use crate::service::runs::Runs;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

impl Runs {
    pub(super) fn judging_model(&self) -> Option<ModelPin> {
        self.models.judge().as_ref().map(ModelBinding::pin)
    }

    /// The endpoint that answers for the agent of a run of this tenant, if any.
    pub(super) fn agent_model(&self, tenant: &TenantId, eval: &EvalSpec) -> Option<ModelBinding> {
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
        let judge = self.models.judge();
        let judging = judge.as_ref().map(ModelBinding::pin);
        let rubric_judge = match (&eval.judge, &judging) {
            (Some(_), Some(model)) => JudgePin::of(model, self.suite_of(eval).await?.as_ref()),
            _ => None,
        };
        let has_safety_judge = eval.safety_judge.is_some();
        let model = self.agent_model(tenant, eval);
        let (user, user_pin) = self.playing_model();
        Ok(ConfiguredModels {
            model: model.as_ref().map(ModelBinding::identity),
            judge: judge.as_ref().map(ModelBinding::identity),
            rubric_judge,
            safety_judge: judging
                .filter(|_| has_safety_judge)
                .as_ref()
                .map(JudgePin::of_safety),
            user: user.as_ref().map(ModelBinding::identity),
            user_pin,
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
        let user = self.models.simulated_user();
        let user = user.filter(|_| eval.simulated_user.is_some());
        eval.execution.user_endpoint = endpoint(user);
        eval.execution.endpoint = endpoint(self.agent_model(tenant, eval));
        eval.execution.judge_endpoint = endpoint(self.models.judge().filter(|_| judged));
        eval.execution.cassette_signed_by =
            replay.as_ref().and_then(|replay| replay.signed_by.clone());
        eval.execution.answer_cache = self.models.has_answer_cache();
        eval.execution.replayed_from = replay.map(|replay| replay.digest);
    }
}
