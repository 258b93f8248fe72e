//! From what an invocation came to, to what is recorded of its task: by code where the suite says what is right, by the judge
//! where it says what to look for (RFC 0081 §D).

use std::sync::Arc;

use super::{EvalWork, RunContext};
use crate::domain::eval::matching::matches;
use crate::domain::eval::rubric;
use crate::domain::run::record::{EvalSpec, JudgePin};
use crate::ports::{
    EventSink, Exhibition, InvocationEnd, InvocationResult, Judge, Judgement, ModelBinding,
};
use crate::protocol::openwop::events::RunError;
use crate::protocol::openwop::suite::{AgentEvalSuite, Task};

/// Who judges the rubrics of a run, and on which model.
pub(super) struct Bench {
    judge: Arc<dyn Judge>,
    model: ModelBinding,
    identity: String,
}

/// What came of a task.
pub(super) enum Outcome {
    /// It has a score.
    Scored {
        /// 0.0..=1.0.
        score: f64,
        /// Whether it met its bar.
        passed: bool,
        /// What a judge said.
        judged: Option<Judged>,
    },
    /// The agent failed it by its own doing.
    Failed {
        /// A label.
        reason: String,
    },
    /// The machinery failed, or a bound was reached.
    Unjudged {
        /// A label.
        reason: String,
    },
}

/// What a judge said of an answer.
pub(super) struct Judged {
    /// The judge's identity.
    pub judge: String,
    /// Whether each criterion is met.
    pub met: Vec<bool>,
}

impl EvalWork {
    /// The judge of a run, if it needs one.
    ///
    /// # Errors
    /// `judge_changed` when it is not the one the run was created for.
    pub(super) fn judge_of(
        &self,
        spec: &EvalSpec,
        suite: &AgentEvalSuite,
    ) -> Result<Option<Bench>, RunError> {
        let Some(pinned) = &spec.judge else {
            return Ok(None);
        };
        let found = self.judge.clone().zip(self.models.judge());
        let bench =
            found.filter(|(_, model)| JudgePin::of(&model.pin(), suite).as_ref() == Some(pinned));
        match bench {
            Some((judge, model)) => Ok(Some(Bench {
                judge,
                model,
                identity: pinned.identity.clone(),
            })),
            None => Err(RunError {
                code: "judge_changed".to_owned(),
                message: format!(
                    "the run was created with a judge on model `{}`, which is not the judge that is configured now; \
                     start a new run",
                    pinned.model.model
                ),
            }),
        }
    }
}

/// Scores what an invocation came to.
pub(super) async fn outcome(
    context: &RunContext,
    task: &Task,
    result: &InvocationResult,
    sink: &dyn EventSink,
) -> Outcome {
    let output = match &result.end {
        InvocationEnd::Decided { output } => output,
        InvocationEnd::Failed { reason } => {
            let reason = reason.clone();
            return Outcome::Failed { reason };
        }
        InvocationEnd::Unjudged { reason } => {
            let reason = reason.clone();
            return Outcome::Unjudged { reason };
        }
    };
    if rubric::rubric(task).is_some() && context.judge.is_none() {
        let reason = "judge_missing".to_owned();
        return Outcome::Unjudged { reason };
    }
    let (Some(rubric), Some(bench)) = (rubric::rubric(task), &context.judge) else {
        let expected = task.expected.matching.as_ref();
        let passed =
            expected.is_some_and(|expected| matches(expected, output, &context.spec.ignore));
        return Outcome::Scored {
            score: if passed { 1.0 } else { 0.0 },
            passed,
            judged: None,
        };
    };
    let exhibition = Exhibition {
        tenant: &context.run.tenant,
        run: &context.run.run_id,
        task: &task.task_id,
        input: &task.input,
        output,
        rubric,
        model: &bench.model,
    };
    match bench.judge.judge(exhibition, &context.meter, sink).await {
        Judgement::Judged { met } => {
            let score = rubric::score(rubric, &met);
            Outcome::Scored {
                score,
                passed: rubric::passes(score, &context.thresholds()),
                judged: Some(Judged {
                    judge: bench.identity.clone(),
                    met,
                }),
            }
        }
        Judgement::Unjudged { reason } => Outcome::Unjudged { reason },
    }
}
