//! Obtains the decisions that this host cannot make by itself about the assertions of a task: asks
//! a judge, another model or a command.
//!
//! The decisions are recorded with the score of the task, so they are never asked for again. If one
//! of them cannot be obtained, the task is unjudged.

use futures_util::future::join_all;
use serde_json::Value;

use crate::rules::eval::assertions;
use crate::rules::eval::judged::exhibit::Exhibit;
use crate::rules::eval::judged::{Decided, preferred_to_none};
use crate::rules::eval::scoring_document::{Assertion, Check, EffectiveScoring};
use crate::service::examination::Examination;
use crate::service::executor::eval::baseline::BaselineAnswers;
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::deciding::{self, Attempt};
use crate::service::executor::eval::judging::JUDGE_MISSING;
use crate::service::executor::eval::transcript::TranscriptSink;
use touchstone_agents::ports::agent::EventSink;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{
    AssertionDecision, AssertionReason, AssertionsDecided, AssertionsReasoned, Event, NewEvent,
};
use touchstone_openwop::suite::Task;

/// Decisions from outside of this host about the assertions of a task.
#[derive(Debug, Default)]
pub(super) struct External {
    decisions: Vec<AssertionDecision>,
    reasons: Vec<AssertionReason>,
    has_baseline: bool,
}

impl External {
    /// The decisions as scoring sees them.
    pub fn observed(&self) -> assertions::External<'_> {
        assertions::External {
            decisions: &self.decisions,
            reasons: &self.reasons,
            has_baseline: self.has_baseline,
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

impl External {
    /// Records the decisions about an unjudged task, which show people how far it was judged.
    pub fn record(self, context: &RunContext, task: &TaskId) {
        let events: Vec<NewEvent> = self.events(task).collect();
        context.writer.emit_all(&events);
    }
}

/// Obtains every decision that the scoring of a task needs from outside, all concurrently.
///
/// # Errors
/// The others, and why one of them could not be obtained, as a label: the task is then unjudged.
pub(super) async fn decide(
    context: &RunContext,
    task: &Task,
    scoring: Option<&EffectiveScoring<'_>>,
    (shown, output): (&Value, &Value),
    attempt: Attempt<'_>,
    sink: &TranscriptSink<impl EventSink>,
) -> Result<External, (External, String)> {
    let mut needed = scoring.map(EffectiveScoring::external).unwrap_or_default();
    let compares = context.spec.compares_answers;
    needed.retain(|(_, assertion)| compares || !assertion.check.needs_baseline());
    let asked = Asking {
        context,
        task,
        shown,
        output,
        attempt,
        sink,
    };
    let answers = needed.iter().map(|(place, assertion)| async move {
        let decided = asked.decisions(place, assertion).await?;
        Ok::<_, String>((place.clone(), decided))
    });
    let mut external = External {
        has_baseline: compares,
        ..External::default()
    };
    // Wait for all of them even if one fails: every call is paid for and must be recorded.
    let mut failed = None;
    for answer in join_all(answers).await {
        match answer {
            Ok((place, decided)) => {
                for (by, decided) in decided {
                    external.add(place.clone(), by, decided);
                }
            }
            Err(reason) => failed = failed.or(Some(reason)),
        }
    }
    match failed {
        None => Ok(external),
        Some(reason) => Err((external, reason)),
    }
}

/// The label of a task whose answer cannot be compared with that of the baseline.
const BASELINE_DELETED: &str = "baseline_content_deleted";

/// A task whose assertions are to be decided.
struct Asking<'a, S> {
    context: &'a RunContext,
    task: &'a Task,
    /// The part that a judge reads before the answer: the input, or all messages of a conversation.
    shown: &'a Value,
    output: &'a Value,
    attempt: Attempt<'a>,
    sink: &'a TranscriptSink<S>,
}

impl<S> Clone for Asking<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Asking<'_, S> {}

impl<S: EventSink> Asking<'_, S> {
    /// Who decided the assertion at this place, and how.
    async fn decisions(
        self,
        place: &str,
        assertion: &Assertion,
    ) -> Result<Vec<(String, Decided)>, String> {
        match &assertion.check {
            check if check.is_judged() => self.judged(place, check).await,
            Check::Similar(it) => {
                let asked = (place, it);
                let (task, output) = (self.task, self.output);
                let decided = deciding::similar(self.context, task, output, asked, self.sink).await;
                Ok(vec![decided?])
            }
            Check::Command(it) => {
                let (task, output) = (self.task, self.output);
                let decided = deciding::command(self.context, task, output, it, self.attempt).await;
                Ok(vec![decided?])
            }
            // Every other type is decided by this host.
            _ => Err(JUDGE_MISSING.to_owned()),
        }
    }

    /// The decision of every judge of the run.
    async fn judged(self, place: &str, check: &Check) -> Result<Vec<(String, Decided)>, String> {
        let judge = self.context.judge.as_ref();
        let panel = judge.map_or(&[][..], |judge| &judge.panel);
        if panel.is_empty() {
            return Err(JUDGE_MISSING.to_owned());
        }
        let returned = &self.sink.returned();
        let asked = panel.iter().map(|judge| async move {
            let decided = self.judged_by(&judge.model, returned, place, check).await?;
            Ok::<_, String>((judge.identity.clone(), decided))
        });
        // Wait for all judges even if one fails: every call is paid for and must be recorded.
        join_all(asked).await.into_iter().collect()
    }

    async fn judged_by(
        self,
        model: &ModelBinding,
        returned: &[Value],
        place: &str,
        check: &Check,
    ) -> Result<Decided, String> {
        let examination = Examination {
            tenant: &self.context.run.tenant,
            run: &self.context.run.run_id,
            task: &self.task.task_id,
            exhibit: Exhibit {
                input: self.shown,
                answer: self.output,
            },
            input: &self.task.input,
            returned,
            model,
            meter: &self.context.meter,
            sink: self.sink,
        };
        match check {
            Check::PreferredToBaseline(it) => match self.baseline_answer()? {
                Some(baseline) => examination.preferred(place, it, baseline).await,
                None => Ok(preferred_to_none()),
            },
            check => examination.decide(place, check).await,
        }
    }

    /// The answer of the baseline to this task, if its agent gave one.
    fn baseline_answer(&self) -> Result<Option<&Value>, String> {
        match &self.context.baseline {
            Some(BaselineAnswers::Kept(answers)) => Ok(answers.get(&self.task.task_id)),
            Some(BaselineAnswers::Deleted) | None => Err(BASELINE_DELETED.to_owned()),
        }
    }
}
