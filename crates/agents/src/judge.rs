//! Judges one answer: one question per criterion, all asked concurrently within the endpoint's
//! permits.
//!
//! ```text
//! per criterion:
//!   [touchstone.model.retried]*
//!   provider.usage [touchstone.usage.estimated]     repeated if the reply was not a verdict
//! ```
//!
//! A question whose reply is not a verdict is asked once more. Of the judge's input
//! and replies, only the reasons are recorded.

use std::time::Duration;

use futures_util::future::join_all;

use crate::calls::{CallError, CallState, Calls, seed};
use crate::ports::agent::{EventSink, Meter};
use crate::ports::judge::{JudgeRequest, Judgement};
use crate::ports::model::ModelError;
use crate::rules::activity::Activity;
use crate::rules::judging::prompt::JudgedTexts;
use crate::rules::judging::verdict;
use crate::rules::judging::verdict::{CriterionVerdict, MALFORMED};
use crate::rules::judging::{ASKED_AT_MOST, MAX_TOKENS, TEMPERATURE};
use crate::rules::{BUDGET_EXHAUSTED, ModelRequest, ResponseSchema, TaskHint, octets_of};

/// Judges every criterion and records the usage. Dropping the future cancels it.
pub async fn judge(
    request: JudgeRequest<'_>,
    meter: &dyn Meter,
    sink: &dyn EventSink,
) -> Judgement {
    let questions = request.rubric.iter().enumerate().map(|(n, criterion)| {
        let question = Question {
            request: &request,
            number: u32::try_from(n).unwrap_or(u32::MAX),
            criterion: &criterion.criterion,
        };
        question.settle(meter, sink)
    });
    // Wait for all questions even if one fails: every call is paid for and must be recorded.
    let answers: Result<Vec<CriterionVerdict>, String> =
        join_all(questions).await.into_iter().collect();
    match answers {
        Ok(verdicts) => Judgement::Judged { verdicts },
        Err(reason) => Judgement::Unjudged { reason },
    }
}

#[derive(Clone, Copy)]
struct Question<'a> {
    request: &'a JudgeRequest<'a>,
    number: u32,
    criterion: &'a str,
}

impl Question<'_> {
    /// The verdict, or why the criterion could not be judged.
    async fn settle(
        self,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> Result<CriterionVerdict, String> {
        let judged = self.request;
        let texts = JudgedTexts {
            criterion: self.criterion,
            input: judged.input,
            output: judged.output,
        };
        let messages = texts.messages();
        let bytes = messages.iter().map(octets_of).sum();
        let mut request = ModelRequest {
            messages,
            tools: &[],
            definitions: &[],
            response_schema: Some(ResponseSchema::Written(verdict::SCHEMA)),
            temperature: Some(TEMPERATURE),
            max_tokens: Some(MAX_TOKENS),
            task: Some(TaskHint {
                id: judged.task,
                input: judged.input,
                turn: 0,
            }),
            activity: None,
        };
        let calls = Calls {
            binding: judged.model,
            meter,
            sink,
            cause: None,
            task: judged.task,
            seed: seed(&format!("{}/{}", judged.task, self.number)),
        };
        for asked in 1..=ASKED_AT_MOST {
            request.activity = Some(self.activity(asked));
            let state = &mut CallState::default();
            let reply = calls.ask(&request, bytes, state, |_| None).await;
            let reply = reply.map_err(label)?;
            if let Some(verdict) = verdict::read(&reply) {
                return Ok(verdict);
            }
            if asked < ASKED_AT_MOST {
                calls
                    .retry(asked, MALFORMED, Duration::ZERO)
                    .map_err(label)?;
            }
        }
        Err(MALFORMED.to_owned())
    }

    /// The activity id of one question. A repeated question gets another id, because an endpoint
    /// may answer a repeated id with its earlier reply.
    fn activity(&self, asked: u32) -> String {
        let request = self.request;
        let activity = Activity {
            tenant: request.tenant,
            run: request.run,
            node: request.task.as_str(),
            ordinal: self
                .number
                .saturating_mul(ASKED_AT_MOST)
                .saturating_add(asked),
            provider_key: &format!("{}:chat:judge", request.model.model.info().provider),
        };
        activity.id()
    }
}

fn label(error: CallError) -> String {
    match error {
        CallError::Model(ModelError::Unavailable { reason, .. }) => verdict::unavailable(&reason),
        CallError::Model(ModelError::Rejected { reason }) => verdict::rejected(reason),
        CallError::Exhausted => BUDGET_EXHAUSTED.to_owned(),
    }
}
