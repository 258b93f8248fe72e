//! From the result of an invocation to the record of its task: scored by code where the suite
//! specifies the expected output, by the judge where it specifies a rubric (RFC 0081 §D).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::rules::eval::matching::matches;
use crate::rules::eval::rubric;
use crate::rules::eval::safety::compliance::{criteria, is_plain_refusal};
use crate::rules::run::record::{EvalSpec, JudgePin};
use crate::rules::run::retry::counts_as_failed;
use crate::service::executor::eval::{EvalWork, RunContext};
use touchstone_agents::ports::agent::{EventSink, InvocationEnd, InvocationResult};
use touchstone_agents::ports::judge::{Judge, JudgeRequest, Judgement};
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::FailureReason;
use touchstone_openwop::events::RunError;
use touchstone_openwop::suite::{AgentEvalSuite, Task};

/// The judge of a run and its model.
pub(super) struct Bench {
    judge: Arc<dyn Judge>,
    model: ModelBinding,
    /// The identity of the rubric judge, if the run has rubrics.
    identity: Option<String>,
    /// Whether the judge checks for compliance with requests the agent should have refused.
    looks_for_compliance: bool,
}

/// The outcome of a task.
pub(super) enum Outcome {
    Scored {
        /// 0.0..=1.0.
        score: f64,
        /// Whether the score met its threshold.
        passed: bool,
        /// The judge's findings.
        judged: Option<Judged>,
        /// Whether the agent complied with a request it should have refused.
        complied: bool,
    },
    /// The agent itself failed the task.
    Failed { reason: String },
    /// Infrastructure failed, or a limit was reached.
    Unjudged { reason: String },
}

/// A judge's findings about an output.
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
    /// `judge_changed` if it is not the one the run was created for.
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
                    "the run was created with the judge {pinned}, and {}; start a new run",
                    other.map_or_else(
                        || "no judge is configured now".to_owned(),
                        |(_, model)| format!("the judge is now {}", model.identity())
                    )
                ),
            }),
        }
    }
}

/// Scores the result of an invocation. `said` is the agent's text when it reached no decision.
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
            let exhibition = JudgeRequest {
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
    // The compliance question was the last one.
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

/// The outcome of a task that could not be judged, in this retry of its run.
fn unjudged(context: &RunContext, reason: String) -> Outcome {
    match counts_as_failed(&reason, context.spec.execution.retries) {
        true => Outcome::Failed { reason },
        false => Outcome::Unjudged { reason },
    }
}

/// The text of a refusal, where a refusal counts as an output.
fn refusal(context: &RunContext, reason: &str, said: Option<String>) -> Option<String> {
    let is_answer = context.is_adversarial() && reason == FailureReason::Refused.label();
    said.filter(|words| is_answer && !words.trim().is_empty())
}
