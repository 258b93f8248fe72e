//! From the result of an invocation to the record of its task: scored by code where the suite
//! specifies the expected output, by the judge where it specifies a rubric (RFC 0081 §D).

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::Value;

use crate::rules::eval::assertions::turns::TurnLog;
use crate::rules::eval::assertions::{Observed, ToolCall, evaluate_turns};
use crate::rules::eval::rubric;
use crate::rules::eval::rubric::Rubrics;
use crate::rules::eval::rubric::votes::{RubricVote, Tally, tally};
use crate::rules::eval::safety::compliance::{criteria, is_plain_refusal};
use crate::rules::eval::scoring::{TOO_LARGE, expectation};
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::run::record::{EvalSpec, JudgePin, ModelPin, PinnedJudge};
use crate::rules::run::request::prices::PRICE_UNKNOWN;
use crate::rules::run::retry::counts_as_failed;
use crate::service::executor::eval::EvalExecutor;
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::deciding::Attempt;
use crate::service::executor::eval::external::{self, External};
use crate::service::executor::eval::transcript::TranscriptSink;
use touchstone_agents::judge::judge as judge_output;
use touchstone_agents::ports::agent::{EventSink, InvocationEnd, InvocationResult};
use touchstone_agents::ports::judge::{JudgeRequest, Judgement};
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::FailureReason;
use touchstone_openwop::events::{JudgeVote, RunError};
use touchstone_openwop::suite::{Criterion, Task};

/// The label of a task that needs a judge in a run without one.
pub(super) const JUDGE_MISSING: &str = "judge_missing";

/// The judge of a run and its model.
pub(super) struct RunJudge {
    pub model: ModelBinding,
    /// The identity of the judge of rubrics and assertions, if the run has any.
    pub identity: Option<String>,
    /// Each judge that decides about rubrics and assertions.
    pub panel: Vec<PanelJudge>,
    /// Whether the judge checks for compliance with requests the agent should have refused.
    checks_compliance: bool,
}

/// One of the judges of a run.
pub(super) struct PanelJudge {
    pub model: ModelBinding,
    pub identity: String,
}

/// The outcome of a task.
pub(super) enum TaskOutcome {
    Scored {
        /// 0.0..=1.0.
        score: f64,
        /// Whether the score met its threshold.
        passed: bool,
        /// The judge's findings, if the task has a rubric.
        rubric: Option<RubricFindings>,
        /// Whether the agent complied with a request it should have refused.
        complied: bool,
        /// The results of its assertions, if it has any.
        measured: Option<Measured>,
        /// Decisions about them from outside of this host.
        external: External,
    },
    /// The agent itself failed the task.
    Failed { reason: String },
    /// Infrastructure failed, or a limit was reached.
    Unjudged { reason: String },
}

/// The results of a task's assertions, without content.
pub(super) struct Measured {
    /// Whether each one holds.
    pub assertions: Vec<bool>,
    /// Number of those that do not count.
    pub left_out: u32,
    /// The values of named metrics.
    pub metrics: BTreeMap<String, f64>,
}

/// A judge's findings about the criteria of a rubric.
pub(super) struct RubricFindings {
    /// The judge's identity.
    pub judge: String,
    /// Whether each criterion is met.
    pub met: Vec<bool>,
    /// The judge's reason for each criterion.
    pub reasons: Vec<String>,
    /// The decisions of each of several judges.
    pub votes: Vec<JudgeVote>,
}

impl EvalExecutor {
    /// The judge of a run, if it needs one.
    ///
    /// # Errors
    /// `judge_changed` if it is not the one the run was created for.
    pub(super) fn judge_of(
        &self,
        spec: &EvalSpec,
        suite_rubrics: &Rubrics,
        scoring: Option<&ScoringDocument>,
    ) -> Result<Option<RunJudge>, RunError> {
        let Some(pinned) = spec.judged_by() else {
            return Ok(None);
        };
        let all = |first: &ModelBinding| {
            let mut all = vec![first.clone()];
            all.extend(self.models.further_judges());
            all
        };
        let as_pinned = |binding: &ModelBinding| {
            let all = all(binding);
            let pins: Vec<ModelPin> = all.iter().map(ModelBinding::pin).collect();
            let rubrics = spec.judge.as_ref();
            let safety = spec.safety_judge.as_ref();
            let members = spec.judges.iter().map(PinnedJudge::model);
            rubrics.is_none_or(|pin| {
                JudgePin::of_all(&pins, suite_rubrics, scoring).as_ref() == Some(pin)
            }) && safety.is_none_or(|pin| JudgePin::of_safety(&binding.pin()) == *pin)
                && binding.identity().serves(&pinned)
                && all
                    .iter()
                    .zip(members)
                    .all(|(it, pin)| it.identity().serves(&pin))
        };
        match self.models.judge() {
            Some(model) if as_pinned(&model) => Ok(Some(RunJudge {
                panel: panel(spec, all(&model)),
                model,
                identity: spec.judge.as_ref().map(|pin| pin.identity.clone()),
                checks_compliance: spec.safety_judge.is_some(),
            })),
            other => {
                let found = other.map_or_else(
                    || "no judge is configured now".to_owned(),
                    |model| format!("the judge is now {}", model.identity()),
                );
                let message = format!(
                    "the run was created with the judge {pinned}, and {found}; start a new run"
                );
                Err(RunError::new("judge_changed", message))
            }
        }
    }
}

/// The judges of rubrics and assertions, each with its identity.
fn panel(spec: &EvalSpec, models: Vec<ModelBinding>) -> Vec<PanelJudge> {
    let members = match spec.judges.is_empty() {
        true => spec.judge.iter().map(|pin| pin.identity.clone()).collect(),
        false => {
            let members = spec.judges.iter();
            members
                .map(|it| it.judge.identity.clone())
                .collect::<Vec<_>>()
        }
    };
    let panel = models.into_iter().zip(members);
    panel
        .map(|(model, identity)| PanelJudge { model, identity })
        .collect()
}

/// Scores the result of an invocation, whose events `sink` has received.
pub(super) async fn judge_result(
    context: &RunContext,
    task: &Task,
    result: &InvocationResult,
    sink: &TranscriptSink<impl EventSink>,
) -> TaskOutcome {
    let scoring = context.scoring(&task.task_id);
    let refusals_count = context.is_adversarial()
        || scoring
            .as_ref()
            .is_some_and(|scoring| scoring.has(|check| *check == Check::Refusal));
    let output = match &result.end {
        InvocationEnd::Decided { output } => Cow::Borrowed(output),
        InvocationEnd::Failed { reason } => match refusal(refusals_count, reason, sink) {
            Some(text) => Cow::Owned(Value::String(text)),
            None => {
                let reason = reason.clone();
                return TaskOutcome::Failed { reason };
            }
        },
        InvocationEnd::Unjudged { reason } => {
            return unjudged(context, reason.clone());
        }
    };
    let needs_expectation = scoring
        .as_ref()
        .is_none_or(|scoring| scoring.has(|check| *check == Check::Expected));
    // A rubric that no assertion refers to is not paid for.
    let rubric = rubric::rubric(task)
        .filter(|_| needs_expectation)
        .unwrap_or_default();
    let turns = sink.turns();
    let is_refusal = || {
        turns
            .earlier_answers()
            .chain([&*output])
            .all(is_plain_refusal)
    };
    let asks_about_compliance = context
        .judge
        .as_ref()
        .is_some_and(|judge| judge.checks_compliance && !is_refusal());
    let questions = match asks_about_compliance {
        true => Cow::Owned(criteria(rubric)),
        false => Cow::Borrowed(rubric),
    };
    let asked = (questions.as_ref(), rubric);
    let shown = Shown::of(task, &output, &turns, asks_about_compliance);
    let mut votes = match rubric_votes(context, task, &shown, asked, sink).await {
        Ok(votes) => votes,
        Err(outcome) => return outcome,
    };
    // The compliance question was the last one, to the first judge only.
    let last = votes.first_mut().filter(|_| asks_about_compliance);
    let complied = last.is_some_and(|it| it.verdicts.pop().is_none_or(|it| it.met));
    let Tally {
        met,
        reasons,
        votes,
    } = tally(votes);
    let calls = sink.calls();
    let attempt = Attempt {
        calls: &calls,
        latency_ms: result.latency_ms,
    };
    let shown = Shown::of(task, &output, &turns, false);
    let shown = (&*shown.input, &*shown.output);
    let external = external::decide(context, task, scoring.as_ref(), shown, attempt, sink);
    let external = match external.await {
        Ok(external) => external,
        Err((others, reason)) => {
            others.record(context, &task.task_id);
            return unjudged(context, reason);
        }
    };
    let judged = JudgedOutput {
        output: &output,
        met,
        reasons,
        votes,
        complied,
        external,
    };
    score_output(context, task, result, (calls, turns), judged)
}

/// The decisions of every judge about a rubric. The first judge also gets the questions beyond the
/// rubric.
async fn rubric_votes(
    context: &RunContext,
    task: &Task,
    shown: &Shown<'_>,
    (questions, rubric): (&[Criterion], &[Criterion]),
    sink: &TranscriptSink<impl EventSink>,
) -> Result<Vec<RubricVote>, TaskOutcome> {
    if questions.is_empty() {
        return Ok(Vec::new());
    }
    let Some(judge) = &context.judge else {
        let reason = JUDGE_MISSING.to_owned();
        return Err(TaskOutcome::Unjudged { reason });
    };
    let first = judge.panel.first().map(|it| it.identity.as_str());
    let first = (&judge.model, first.unwrap_or_default(), questions);
    let further = judge.panel.iter().skip(1);
    let further = further.map(|it| (&it.model, it.identity.as_str(), rubric));
    let asked = std::iter::once(first).chain(further.filter(|it| !it.2.is_empty()));
    let asked = asked.map(|(model, identity, rubric)| async move {
        let exhibition = JudgeRequest {
            tenant: &context.run.tenant,
            run: &context.run.run_id,
            task: &task.task_id,
            input: &shown.input,
            output: &shown.output,
            rubric,
            model,
        };
        match judge_output(exhibition, &context.meter, sink).await {
            Judgement::Judged { verdicts } => Ok(RubricVote {
                judge: identity.to_owned(),
                verdicts,
            }),
            Judgement::Unjudged { reason } => Err(unjudged(context, reason)),
        }
    });
    // Wait for all judges even if one fails: every call is paid for and must be recorded.
    join_all(asked.collect::<Vec<_>>())
        .await
        .into_iter()
        .collect()
}

/// The part of a task that the judge reads.
struct Shown<'a> {
    input: Cow<'a, Value>,
    output: Cow<'a, Value>,
}

impl<'a> Shown<'a> {
    /// The input and the answer. In a conversation, the input is all messages before the last
    /// answer. The question about compliance is about every answer, so the judge then gets all of
    /// them.
    fn of(task: &'a Task, output: &'a Value, turns: &TurnLog, all_answers: bool) -> Self {
        if !turns.is_conversation() {
            return Self {
                input: Cow::Borrowed(&task.input),
                output: Cow::Borrowed(output),
            };
        }
        let answers = turns.earlier_answers().chain([output]).cloned();
        Self {
            input: Cow::Owned(Value::Array(turns.messages(&task.input))),
            output: match all_answers {
                true => Cow::Owned(Value::Array(answers.collect())),
                false => Cow::Borrowed(output),
            },
        }
    }
}

/// An output and the judge's decisions about it.
struct JudgedOutput<'a> {
    output: &'a Value,
    /// About the criteria of the rubric; empty if it was not judged.
    met: Vec<bool>,
    reasons: Vec<String>,
    votes: Vec<JudgeVote>,
    complied: bool,
    external: External,
}

/// Scores an output by its assertions, or by the suite's expectation alone.
fn score_output(
    context: &RunContext,
    task: &Task,
    result: &InvocationResult,
    (calls, turns): (Vec<ToolCall>, TurnLog),
    judged: JudgedOutput<'_>,
) -> TaskOutcome {
    let (output, met) = (judged.output, judged.met);
    let thresholds = context.thresholds();
    let expected = expectation(task, output, &context.spec.ignore, &met, &thresholds);
    let identity = context
        .judge
        .as_ref()
        .and_then(|judge| judge.identity.clone());
    let (reasons, votes) = (judged.reasons, judged.votes);
    let rubric = identity
        .filter(|_| !met.is_empty())
        .map(|judge| RubricFindings {
            judge,
            met,
            reasons,
            votes,
        });
    let (complied, external) = (judged.complied, judged.external);
    let Some(scoring) = context.scoring(&task.task_id) else {
        return TaskOutcome::Scored {
            score: expected.score,
            passed: expected.passed,
            rubric,
            complied,
            measured: None,
            external: External::default(),
        };
    };
    let (cost, tokens) = context.writer.with_state(|state| {
        let facts = state.eval.tasks.get(&task.task_id);
        facts.map_or_else(Default::default, |it| (it.attempt_cost, it.attempt_tokens))
    });
    // The run was refused if the price was unknown then, but a resumed run may have other prices.
    if cost.known().is_none() && scoring.has(|check| matches!(check, Check::Cost(_))) {
        let reason = PRICE_UNKNOWN.to_owned();
        return TaskOutcome::Unjudged { reason };
    }
    let observed = Observed {
        answer: output,
        calls: &calls,
        latency_ms: Some(result.latency_ms),
        cost: cost.known(),
        tokens,
        expected: Some(expected),
        external: external.observed(),
    };
    let evaluation = evaluate_turns(&scoring, &observed, &task.input, &turns);
    if evaluation.gave_up {
        let reason = TOO_LARGE.to_owned();
        return TaskOutcome::Failed { reason };
    }
    if evaluation.undecided {
        let reason = JUDGE_MISSING.to_owned();
        return TaskOutcome::Unjudged { reason };
    }
    TaskOutcome::Scored {
        score: evaluation.score,
        passed: evaluation.passed,
        rubric,
        complied,
        measured: Some(Measured {
            assertions: evaluation.held(),
            left_out: evaluation.left_out(),
            metrics: evaluation.metrics(),
        }),
        external,
    }
}

/// The outcome of a task that could not be judged, in this retry of its run.
fn unjudged(context: &RunContext, reason: String) -> TaskOutcome {
    match counts_as_failed(&reason, context.spec.execution.retries) {
        true => TaskOutcome::Failed { reason },
        false => TaskOutcome::Unjudged { reason },
    }
}

/// The text of a refusal, where a refusal counts as an output.
fn refusal(
    refusals_count: bool,
    reason: &str,
    sink: &TranscriptSink<impl EventSink>,
) -> Option<String> {
    let is_answer = refusals_count && reason == FailureReason::Refused.label();
    let text = is_answer.then(|| sink.final_text()).flatten();
    text.filter(|text| !text.trim().is_empty())
}
