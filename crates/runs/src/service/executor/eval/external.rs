//! Obtains the decisions that this host cannot make by itself about the assertions of a task: asks a
//! judge, another model or a command.
//!
//! The decisions are recorded with the score of the task, so they are never asked for again. If one
//! of them cannot be obtained, the task is unjudged.

use futures_util::future::join_all;
use serde_json::Value;

use crate::rules::eval::assertions;
use crate::rules::eval::judged::{Decided, Exhibit};
use crate::rules::eval::scoring_document::{Assertion, Check, EffectiveScoring};
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::deciding::{self, Attempt};
use crate::service::executor::eval::judging::{JUDGE_MISSING, RunJudge};
use touchstone_agents::judge::Questioning;
use touchstone_agents::ports::agent::EventSink;
use touchstone_agents::rules::judging::form::closed_reply;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{
    AssertionDecision, AssertionReason, AssertionsDecided, AssertionsReasoned, Event, NewEvent,
};
use touchstone_openwop::suite::Task;

/// What was decided outside of this host about the assertions of a task.
#[derive(Debug, Default)]
pub(super) struct External {
    decisions: Vec<AssertionDecision>,
    reasons: Vec<AssertionReason>,
}

impl External {
    /// The decisions as scoring sees them.
    pub fn observed(&self) -> assertions::External<'_> {
        assertions::External {
            decisions: &self.decisions,
            reasons: &self.reasons,
        }
    }

    fn add(&mut self, assertion: String, by: String, decided: Decided) {
        if !decided.reason.is_empty() {
            self.reasons.push(AssertionReason {
                assertion: assertion.clone(),
                by: by.clone(),
                reason: decided.reason,
            });
        }
        self.decisions.push(AssertionDecision {
            assertion,
            by,
            score: decided.score.clamp(0.0, 1.0),
            holds: decided.holds,
            label: decided.label,
            verdicts: decided.verdicts,
        });
    }

    /// The events that record the decisions; the reasons come first.
    pub fn events(self, task: &TaskId) -> impl Iterator<Item = NewEvent> {
        let reasoned = (!self.reasons.is_empty()).then(|| {
            Event::AssertionsReasoned(AssertionsReasoned {
                task_id: task.clone(),
                reasons: self.reasons,
            })
        });
        let decided = (!self.decisions.is_empty()).then(|| {
            Event::AssertionsDecided(AssertionsDecided {
                task_id: task.clone(),
                decisions: self.decisions,
            })
        });
        let events = [reasoned, decided].into_iter().flatten();
        events.map(|event| NewEvent::of_task(event, task, None))
    }
}

/// Obtains every decision that the scoring of a task needs from outside, all concurrently.
///
/// # Errors
/// Why one of them could not be obtained, as a label: the task is then unjudged.
pub(super) async fn decide(
    context: &RunContext,
    task: &Task,
    scoring: Option<&EffectiveScoring<'_>>,
    output: &Value,
    attempt: Attempt<'_>,
    sink: &impl EventSink,
) -> Result<External, String> {
    let needed = scoring.map(EffectiveScoring::external).unwrap_or_default();
    let asked = Asking {
        context,
        task,
        output,
        attempt,
        sink,
    };
    let answers = needed.iter().map(|(place, assertion)| async move {
        let (by, decided) = asked.decision(place, assertion).await?;
        Ok::<_, String>((place.clone(), by, decided))
    });
    let mut external = External::default();
    // Wait for all of them even if one fails: every call is paid for and must be recorded.
    for answer in join_all(answers).await {
        let (place, by, decided) = answer?;
        external.add(place, by, decided);
    }
    Ok(external)
}

/// A task whose assertions are to be decided.
struct Asking<'a, S> {
    context: &'a RunContext,
    task: &'a Task,
    output: &'a Value,
    attempt: Attempt<'a>,
    sink: &'a S,
}

impl<S> Clone for Asking<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Asking<'_, S> {}

impl<S: EventSink> Asking<'_, S> {
    /// Who decided the assertion at this place, and how.
    async fn decision(
        self,
        place: &str,
        assertion: &Assertion,
    ) -> Result<(String, Decided), String> {
        match &assertion.check {
            Check::ClosedQuestion(it) => {
                let (judge, by) = self.judge()?;
                let asked = self.exhibit().closed_question(&it.question);
                let meter = &self.context.meter;
                let asking = self.questioning(judge, place, 0);
                let reply = asking.ask(asked, closed_reply, meter, self.sink).await?;
                Ok((by.to_owned(), Decided::from(reply)))
            }
            Check::Similar(it) => {
                let asked = (place, it);
                deciding::similar(self.context, self.task, self.output, asked, self.sink).await
            }
            Check::Command(it) => {
                deciding::command(self.context, self.task, self.output, it, self.attempt).await
            }
            // Every other type is decided by this host.
            _ => Err(JUDGE_MISSING.to_owned()),
        }
    }

    fn exhibit(&self) -> Exhibit<'_> {
        Exhibit {
            input: &self.task.input,
            answer: self.output,
        }
    }

    /// The judge of the run and its identity.
    fn judge(&self) -> Result<(&RunJudge, &str), String> {
        let judge = self.context.judge.as_ref();
        let identified = judge.and_then(|judge| Some((judge, judge.identity.as_deref()?)));
        identified.ok_or_else(|| JUDGE_MISSING.to_owned())
    }

    fn questioning<'b>(
        &'b self,
        judge: &'b RunJudge,
        place: &'b str,
        number: u32,
    ) -> Questioning<'b> {
        Questioning {
            tenant: &self.context.run.tenant,
            run: &self.context.run.run_id,
            task: &self.task.task_id,
            input: &self.task.input,
            model: &judge.model,
            assertion: place,
            number,
        }
    }
}
