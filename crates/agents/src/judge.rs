//! Judges one answer: one question per criterion, all asked concurrently within the endpoint's
//! permits.
//!
//! ```text
//! per criterion:
//!   [touchstone.model.retried]*
//!   provider.usage [touchstone.usage.estimated]     repeated if the reply was not a verdict
//! ```
//!
//! A question whose reply is not a verdict is asked once more. The judge's input and replies are
//! not recorded.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use crate::calls::{Calls, Pace, Stop, seed};
use crate::ports::agent::{EventSink, Meter};
use crate::ports::judge::{Exhibition, Judge, Judgement};
use crate::ports::model::ModelError;
use crate::rules::activity::Activity;
use crate::rules::judging::prompt::Exhibit;
use crate::rules::judging::verdict;
use crate::rules::judging::verdict::MALFORMED;
use crate::rules::judging::{ASKED_AT_MOST, MAX_TOKENS, TEMPERATURE};
use crate::rules::{BUDGET_EXHAUSTED, ModelRequest, ResponseSchema, TaskHint, octets_of};

#[derive(Clone, Copy, Debug, Default)]
pub struct RubricJudge;

#[async_trait]
impl Judge for RubricJudge {
    async fn judge(
        &self,
        exhibition: Exhibition<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> Judgement {
        let questions = exhibition.rubric.iter().enumerate().map(|(n, criterion)| {
            let question = Question {
                exhibition: &exhibition,
                number: u32::try_from(n).unwrap_or(u32::MAX),
                criterion: &criterion.criterion,
            };
            question.settle(meter, sink)
        });
        // Wait for all questions even if one fails: every call is paid for and must be recorded.
        let answers: Result<Vec<bool>, String> = join_all(questions).await.into_iter().collect();
        match answers {
            Ok(met) => Judgement::Judged { met },
            Err(reason) => Judgement::Unjudged { reason },
        }
    }
}

#[derive(Clone, Copy)]
struct Question<'a> {
    exhibition: &'a Exhibition<'a>,
    number: u32,
    criterion: &'a str,
}

impl Question<'_> {
    /// Whether the criterion is met, or why it could not be judged.
    async fn settle(self, meter: &dyn Meter, sink: &dyn EventSink) -> Result<bool, String> {
        let exhibition = self.exhibition;
        let exhibit = Exhibit {
            criterion: self.criterion,
            input: exhibition.input,
            output: exhibition.output,
        };
        let messages = exhibit.messages();
        let octets = messages.iter().map(octets_of).sum();
        let mut request = ModelRequest {
            messages,
            tools: &[],
            definitions: &[],
            response_schema: Some(ResponseSchema::Written(verdict::SCHEMA)),
            temperature: Some(TEMPERATURE),
            max_tokens: Some(MAX_TOKENS),
            task: Some(TaskHint {
                id: exhibition.task,
                input: exhibition.input,
            }),
            activity: None,
        };
        let calls = Calls {
            binding: exhibition.model,
            meter,
            sink,
            cause: None,
            task: exhibition.task,
            seed: seed(&format!("{}/{}", exhibition.task, self.number)),
        };
        for asked in 1..=ASKED_AT_MOST {
            request.activity = Some(self.activity(asked));
            let pace = &mut Pace::default();
            let reply = calls.ask(&request, octets, pace, |_| None).await;
            let reply = reply.map_err(label)?;
            if let Some(met) = verdict::read(&reply) {
                return Ok(met);
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
        let exhibition = self.exhibition;
        let activity = Activity {
            tenant: exhibition.tenant,
            run: exhibition.run,
            node: exhibition.task.as_str(),
            ordinal: self
                .number
                .saturating_mul(ASKED_AT_MOST)
                .saturating_add(asked),
            provider_key: &format!("{}:chat:judge", exhibition.model.model.info().provider),
        };
        activity.id()
    }
}

fn label(stop: Stop) -> String {
    match stop {
        Stop::Model(ModelError::Unavailable { reason, .. }) => verdict::unavailable(&reason),
        Stop::Model(ModelError::Rejected { reason }) => verdict::rejected(reason),
        Stop::Exhausted => BUDGET_EXHAUSTED.to_owned(),
    }
}
