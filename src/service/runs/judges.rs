//! The models a run is carried out and judged by, as they would be chosen now.

use super::Runs;
use crate::domain::run::record::{EvalSpec, JudgePin, ModelPin};
use crate::ports::ModelBinding;
use crate::protocol::error::Problem;
use crate::protocol::openwop::suite::ModelClass;

impl Runs {
    pub(super) fn judging_model(&self) -> Option<ModelPin> {
        self.models.judge().as_ref().map(ModelBinding::pin)
    }

    /// The judge of a run's rubrics as it would be now.
    pub(super) async fn judge_now(&self, eval: &EvalSpec) -> Result<Option<JudgePin>, Problem> {
        match (&eval.judge, self.judging_model()) {
            (Some(_), Some(model)) => {
                let suite = self.suite_of(eval).await?;
                Ok(JudgePin::of(&model, &suite))
            }
            _ => Ok(None),
        }
    }

    /// Who would look now for what a run's agent should have refused.
    pub(super) fn safety_judge_now(&self, eval: &EvalSpec) -> Option<JudgePin> {
        let looks = eval.safety_judge.is_some();
        let model = self.judging_model().filter(|_| looks);
        model.as_ref().map(JudgePin::of_safety)
    }

    pub(super) fn pinned(&self, class: ModelClass) -> Option<ModelPin> {
        self.models.resolve(class).as_ref().map(ModelBinding::pin)
    }
}
