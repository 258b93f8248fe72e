//! Asks a judge. [`judge`] checks a rubric: one question per criterion, all asked concurrently
//! within the endpoint's permits. [`Questioning::ask`] asks one question of any form.
//!
//! ```text
//! per question:
//!   [touchstone.model.retried]*
//!   provider.usage [touchstone.usage.estimated]     repeated if the reply was not a verdict
//! ```
//!
//! A question whose reply is not a verdict is asked once more. Of the judge's input
//! and replies, only the reasons are recorded.

use futures_util::future::join_all;
use serde_json::Value;

use crate::calls::{CallRole, Calls, seed};
use crate::ports::agent::{EventSink, Meter};
use crate::ports::judge::{JudgeRequest, Judgement};
use crate::ports::model::ModelBinding;
use crate::rules::activity::Activity;
use crate::rules::judging::form::Asked;
use crate::rules::judging::prompt::JudgedTexts;
use crate::rules::judging::verdict;
use crate::rules::judging::verdict::CriterionVerdict;
use crate::rules::judging::{ASKED_AT_MOST, MAX_TOKENS, TEMPERATURE};
use crate::rules::{ModelReply, ModelRequest, ResponseSchema, TaskHint};
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// Judges every criterion and records the usage. Dropping the future cancels it.
pub async fn judge(
    request: JudgeRequest<'_>,
    meter: &dyn Meter,
    sink: &dyn EventSink,
) -> Judgement {
    let questions = request.rubric.iter().enumerate().map(|(n, criterion)| {
        let questioning = Questioning {
            tenant: request.tenant,
            run: request.run,
            task: request.task,
            input: request.input,
            model: request.model,
            assertion: "",
            number: u32::try_from(n).unwrap_or(u32::MAX),
        };
        let texts = JudgedTexts {
            criterion: &criterion.criterion,
            input: request.input,
            output: request.output,
        };
        let asked = Asked {
            messages: texts.messages(),
            schema: verdict::SCHEMA,
            max_tokens: MAX_TOKENS,
        };
        questioning.ask(asked, verdict::read, meter, sink)
    });
    // Wait for all questions even if one fails: every call is paid for and must be recorded.
    let answers: Result<Vec<CriterionVerdict>, String> =
        join_all(questions).await.into_iter().collect();
    match answers {
        Ok(verdicts) => Judgement::Judged { verdicts },
        Err(reason) => Judgement::Unjudged { reason },
    }
}

/// Where a question belongs, and who is asked.
#[derive(Clone, Copy)]
pub struct Questioning<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    pub task: &'a TaskId,
    /// The agent's input.
    pub input: &'a Value,
    /// The model that judges.
    pub model: &'a ModelBinding,
    /// The assertion that is decided, such as `1.0`; empty for the task's rubric.
    pub assertion: &'a str,
    /// The number of the question among those of the assertion or rubric.
    pub number: u32,
}

impl Questioning<'_> {
    /// Asks, and once more if the reply is not of the requested form. Records the usage. Dropping
    /// the future cancels it.
    ///
    /// # Errors
    /// Why there is no reply, as a label; `budget_exhausted` if the meter refused.
    pub async fn ask<T>(
        self,
        asked: Asked,
        read: impl Fn(&ModelReply) -> Option<T> + Send,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> Result<T, String> {
        let request = ModelRequest {
            messages: asked.messages,
            response_schema: Some(ResponseSchema::Written(asked.schema)),
            temperature: Some(TEMPERATURE),
            max_tokens: Some(asked.max_tokens),
            task: Some(TaskHint {
                id: self.task,
                input: self.input,
                turn: 0,
            }),
            ..ModelRequest::default()
        };
        let calls = Calls {
            binding: self.model,
            role: CallRole::Judge,
            meter,
            sink,
            cause: None,
            task: self.task,
            seed: seed(&format!("{}/{}{}", self.task, self.assertion, self.number)),
        };
        let activity = |times| self.activity(times);
        calls.ask_for(ASKED_AT_MOST, request, activity, read).await
    }

    fn activity(&self, times: u32) -> String {
        let info = self.model.model.info();
        // Several judges may be models of one endpoint.
        let provider_key = format!(
            "{}:chat:judge:{}:{}",
            info.provider, info.model, self.assertion
        );
        let activity = Activity {
            tenant: self.tenant,
            run: self.run,
            node: self.task.as_str(),
            ordinal: self
                .number
                .saturating_mul(ASKED_AT_MOST)
                .saturating_add(times),
            provider_key: &provider_key,
        };
        activity.id()
    }
}
