//! From what an invocation came to, to what is recorded of its task: by code where the suite says what is right, by the judge
//! where it says what to look for (RFC 0081 §D).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{EvalWork, RunContext};
use crate::domain::agent::FailureReason;
use crate::domain::eval::matching::matches;
use crate::domain::eval::rubric;
use crate::domain::eval::safety::compliance::{criteria, is_plain_refusal};
use crate::domain::run::record::{EvalSpec, JudgePin};
use crate::domain::run::retry::counts_as_failed;
use crate::ports::{
    EventSink, Exhibition, InvocationEnd, InvocationResult, Judge, Judgement, ModelBinding,
};
use crate::protocol::openwop::events::RunError;
use crate::protocol::openwop::suite::{AgentEvalSuite, Task};

/// Who judges for a run, and on which model.
pub(super) struct Bench {
    judge: Arc<dyn Judge>,
    model: ModelBinding,
    /// The identity of the one that judges rubrics, if there are any.
    identity: Option<String>,
    /// Whether it looks for what the agent should have refused.
    looks_for_compliance: bool,
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
        /// Whether the agent went along with what it should have refused.
        complied: bool,
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
        let Some(pinned) = spec.judged_by() else {
            return Ok(None);
        };
        let as_pinned = |binding: &ModelBinding| {
            let model = &binding.pin();
            let rubrics = spec.judge.as_ref();
            let safety = spec.safety_judge.as_ref();
            rubrics.is_none_or(|pin| JudgePin::of(model, suite).as_ref() == Some(pin))
                && safety.is_none_or(|pin| JudgePin::of_safety(model) == *pin)
                && binding.identity().serves(&pinned)
        };
        let found = self.judge.clone().zip(self.models.judge());
        match found {
            Some((judge, model)) if as_pinned(&model) => Ok(Some(Bench {
                judge,
                model,
                identity: spec.judge.as_ref().map(|pin| pin.identity.clone()),
                looks_for_compliance: spec.safety_judge.is_some(),
            })),
            other => Err(RunError {
                code: "judge_changed".to_owned(),
                message: format!(
                    "the run was created to be judged by {pinned}, and {}; start a new run",
                    other.map_or_else(
                        || "no judge is configured now".to_owned(),
                        |(_, model)| format!("the judge is now {}", model.identity())
                    )
                ),
            }),
        }
    }
}

/// Scores what an invocation came to. `said` is what the agent said when it reached no decision.
pub(super) async fn outcome(
    context: &RunContext,
    task: &Task,
    result: &InvocationResult,
    said: Option<String>,
    sink: &dyn EventSink,
) -> Outcome {
    let output = match &result.end {
        InvocationEnd::Decided { output } => Cow::Borrowed(output),
        InvocationEnd::Failed { reason } => match refusal(context, reason, said) {
            Some(words) => Cow::Owned(Value::String(words)),
            None => {
                let reason = reason.clone();
                return Outcome::Failed { reason };
            }
        },
        InvocationEnd::Unjudged { reason } => {
            return unjudged(context, reason.clone());
        }
    };
    let rubric = rubric::rubric(task).unwrap_or_default();
    let asks_about_compliance = context
        .judge
        .as_ref()
        .is_some_and(|bench| bench.looks_for_compliance && !is_plain_refusal(&output));
    let asked = match asks_about_compliance {
        true => Cow::Owned(criteria(rubric)),
        false => Cow::Borrowed(rubric),
    };
    let mut met = match (asked.is_empty(), &context.judge) {
        (true, _) => Vec::new(),
        (false, None) => {
            let reason = "judge_missing".to_owned();
            return Outcome::Unjudged { reason };
        }
        (false, Some(bench)) => {
            let exhibition = Exhibition {
                tenant: &context.run.tenant,
                run: &context.run.run_id,
                task: &task.task_id,
                input: &task.input,
                output: &output,
                rubric: &asked,
                model: &bench.model,
            };
            match bench.judge.judge(exhibition, &context.meter, sink).await {
                Judgement::Judged { met } => met,
                Judgement::Unjudged { reason } => return unjudged(context, reason),
            }
        }
    };
    // It was the last one.
    let complied = asks_about_compliance && met.pop().unwrap_or(true);
    if rubric.is_empty() {
        let expected = task.expected.matching.as_ref();
        let passed =
            expected.is_some_and(|expected| matches(expected, &output, &context.spec.ignore));
        return Outcome::Scored {
            score: if passed { 1.0 } else { 0.0 },
            passed,
            judged: None,
            complied,
        };
    }
    let score = rubric::score(rubric, &met);
    let identity = context
        .judge
        .as_ref()
        .and_then(|bench| bench.identity.clone());
    Outcome::Scored {
        score,
        passed: rubric::passes(score, &context.thresholds()),
        judged: identity.map(|judge| Judged { judge, met }),
        complied,
    }
}

/// What a failure to judge a task comes to in this retry of its run.
fn unjudged(context: &RunContext, reason: String) -> Outcome {
    match counts_as_failed(&reason, context.spec.execution.retries) {
        true => Outcome::Failed { reason },
        false => Outcome::Unjudged { reason },
    }
}

/// The words of a refusal, where a refusal is an answer.
fn refusal(context: &RunContext, reason: &str, said: Option<String>) -> Option<String> {
    let is_answer = context.is_adversarial() && reason == FailureReason::Refused.label();
    said.filter(|words| is_answer && !words.trim().is_empty())
}
