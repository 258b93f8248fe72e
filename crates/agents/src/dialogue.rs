//! The user's side of an invocation: the first message, and the message after each answer.
//!
//! ```text
//! if the simulated user opens:
//!   touchstone.user.opens
//!   [touchstone.model.retried]*
//!   provider.usage [touchstone.usage.estimated]     repeated if the reply was not valid
//!   touchstone.user.said
//! per answer:
//!   touchstone.turn.answered
//!   of a simulated user, while it has replies left:
//!     [touchstone.model.retried]*
//!     provider.usage [touchstone.usage.estimated]     repeated if the reply was not valid
//!   touchstone.user.said | touchstone.user.stopped    neither after the last scripted message
//! ```
//!
//! The simulated user is only asked if the agent would read its reply. Its calls are metered like
//! those of the agent, and by its own budget.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;

use crate::budget::Estimate;
use crate::calls::{CallRole, CallState, Calls, seed};
use crate::ports::agent::{Dialogue, EventSink, Exhausted, Invocation, Meter, UserTurns};
use crate::ports::model::ModelBinding;
use crate::rules::activity::Activity;
use crate::rules::dialogue::{EarlierMessage, MessageRole, SimulatedUser};
use crate::rules::judging::prompt::quoted;
use crate::rules::simulated_user::prompt::{Said, messages};
use crate::rules::simulated_user::reply::{self, MALFORMED, OWN_BUDGET, SCHEMA, UserReply};
use crate::rules::simulated_user::{ASKED_AT_MOST, MAX_TOKENS, TEMPERATURE};
use crate::rules::{
    BUDGET_EXHAUSTED, Conversation, ModelReply, ModelRequest, Next, ResponseSchema, TaskHint,
};
use touchstone_kit::ids::EventId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{Event, TurnAnswered, UserOpens, UserSaid, UserStopped};

/// The turns of the user in one invocation.
pub(super) struct Turns<'a> {
    invocation: &'a Invocation<'a>,
    sink: &'a dyn EventSink,
    started: &'a EventId,
    meter: UserMeter<'a>,
    /// The conversation from the input on, for a simulated user.
    said: Vec<Said>,
    /// Messages of the user after the first one.
    replies: u32,
    /// Whether the user has been asked for the first message.
    has_opened: bool,
}

impl<'a> Turns<'a> {
    pub fn of(
        invocation: &'a Invocation<'a>,
        meter: &'a dyn Meter,
        sink: &'a dyn EventSink,
        started: &'a EventId,
    ) -> Self {
        let limit = match invocation.dialogue {
            Some(Dialogue {
                turns: UserTurns::Simulated { user, .. },
                ..
            }) => user.max_cost_usd.and_then(NanoUsd::from_usd),
            _ => None,
        };
        Self {
            invocation,
            sink,
            started,
            meter: UserMeter {
                of_run: meter,
                limit,
                own: Mutex::default(),
            },
            said: Vec::new(),
            replies: 0,
            has_opened: false,
        }
    }

    /// Whether the user of this invocation may say more than the input.
    pub fn has_any(invocation: &Invocation<'_>) -> bool {
        let turns = invocation.dialogue.map(|it| it.turns);
        turns.is_some_and(|turns| !matches!(turns, UserTurns::None))
    }

    /// Whether the user has said more than the input.
    pub const fn has_begun(&self) -> bool {
        self.replies > 0
    }

    /// The first message of a user who opens the conversation. An error is the reason why the task
    /// cannot be judged.
    pub async fn open(&mut self) -> Result<Option<String>, String> {
        let Some(dialogue) = self.invocation.dialogue else {
            return Ok(None);
        };
        let UserTurns::Simulated { user, model } = dialogue.turns else {
            return Ok(None);
        };
        if !user.opens {
            return Ok(None);
        }
        self.said
            .extend(dialogue.messages.iter().filter_map(said_earlier));
        self.emit(Event::UserOpens(UserOpens {}));
        let reply = self.ask(user, model, true).await?;
        self.has_opened = true;
        let UserReply::Says(text) = reply else {
            return Err(MALFORMED.to_owned());
        };
        self.said.push(said(true, text.clone()));
        self.emit(Event::UserSaid(UserSaid {
            turn: 1,
            text: text.clone(),
        }));
        Ok(Some(text))
    }

    /// Records an answer and continues the conversation, if the user says more. An error is the
    /// reason why the task cannot be judged.
    pub async fn after(
        &mut self,
        next: Next,
        conversation: &mut Conversation<'_>,
        state: &mut CallState,
    ) -> Result<Next, String> {
        let (Next::Decided { output, .. }, true) = (&next, Self::has_any(self.invocation)) else {
            return Ok(next);
        };
        self.emit(Event::TurnAnswered(TurnAnswered {
            turn: self.replies + 1,
            answer: output.clone(),
        }));
        // Others may wait for the room of the last answer.
        state.give_back(self.sink).await;
        let began = Instant::now();
        let text = self.next_text(&quoted(output)).await?;
        state.leave_out(began.elapsed());
        let Some(text) = text else {
            return Ok(next);
        };
        self.replies += 1;
        self.emit(Event::UserSaid(UserSaid {
            turn: self.replies + 1,
            text: text.clone(),
        }));
        Ok(conversation.reply(&text))
    }

    fn emit(&self, event: Event) {
        self.sink.emit(event, Some(self.started));
    }

    /// The user's message after this answer; `None` at the end of the conversation.
    async fn next_text(&mut self, answer: &str) -> Result<Option<String>, String> {
        let Some(dialogue) = self.invocation.dialogue else {
            return Ok(None);
        };
        match dialogue.turns {
            UserTurns::None => Ok(None),
            UserTurns::Scripted(script) => Ok(script.get(self.replies as usize).cloned()),
            UserTurns::Simulated { user, model } => {
                if self.said.is_empty() {
                    let earlier = dialogue.messages.iter();
                    self.said.extend(earlier.filter_map(said_earlier));
                    self.said
                        .push(said(true, quoted(self.invocation.input).into_owned()));
                }
                self.said.push(said(false, answer.to_owned()));
                if self.replies >= user.max_turns {
                    self.stop(UserStopped::MAX_TURNS, String::new());
                    return Ok(None);
                }
                match self.ask(user, model, false).await? {
                    UserReply::Says(text) => {
                        self.said.push(said(true, text.clone()));
                        Ok(Some(text))
                    }
                    UserReply::Stops(note) => {
                        self.stop(UserStopped::DONE, note);
                        Ok(None)
                    }
                }
            }
        }
    }

    fn stop(&self, reason: &str, note: String) {
        self.emit(Event::UserStopped(UserStopped {
            turn: self.replies + 1,
            reason: reason.to_owned(),
            note,
        }));
    }

    /// Asks the model that plays the user. With `opens`, it is asked for the first message
    /// and cannot stop.
    async fn ask(
        &self,
        user: &SimulatedUser,
        model: &ModelBinding,
        opens: bool,
    ) -> Result<UserReply, String> {
        let invocation = self.invocation;
        let request = ModelRequest {
            messages: messages(user, &self.said, opens),
            response_schema: Some(ResponseSchema::Written(SCHEMA)),
            temperature: Some(TEMPERATURE),
            max_tokens: Some(MAX_TOKENS),
            task: Some(TaskHint {
                id: invocation.node_id,
                input: invocation.input,
                turn: self.messages_before(),
            }),
            ..ModelRequest::default()
        };
        let calls = Calls {
            binding: model,
            role: CallRole::User,
            meter: &self.meter,
            sink: self.sink,
            cause: Some(self.started),
            task: invocation.node_id,
            seed: seed(&format!("{}/user", invocation.invocation_id)),
        };
        let activity = |asked| self.activity(model, asked);
        let read = |reply: &ModelReply| reply::read(reply).filter(|it| !(opens && it.is_stop()));
        let asked = calls.ask_for(ASKED_AT_MOST, request, activity, read);
        asked.await.map_err(|reason| {
            let is_own_limit = reason == BUDGET_EXHAUSTED && self.meter.has_refused();
            if is_own_limit {
                OWN_BUDGET.to_owned()
            } else {
                reason
            }
        })
    }

    /// Messages that the model has written.
    fn messages_before(&self) -> u32 {
        self.replies + u32::from(self.has_opened)
    }

    fn activity(&self, model: &ModelBinding, asked: u32) -> String {
        let ordinal = self.messages_before().saturating_mul(ASKED_AT_MOST);
        let activity = Activity {
            tenant: self.invocation.tenant,
            run: self.invocation.run,
            node: self.invocation.node_id.as_str(),
            ordinal: ordinal.saturating_add(asked),
            provider_key: &format!("{}:chat:user", model.model.info().provider),
        };
        activity.id()
    }
}

fn said(by_user: bool, text: String) -> Said {
    Said { by_user, text }
}

fn said_earlier(message: &EarlierMessage) -> Option<Said> {
    match message.role {
        // Instructions of the agent are not for its user.
        MessageRole::System => None,
        MessageRole::User => Some(said(true, message.content.clone())),
        MessageRole::Assistant => Some(said(false, message.content.clone())),
    }
}

/// The run's budget, with the own budget of the simulated user of one task.
struct UserMeter<'a> {
    of_run: &'a dyn Meter,
    limit: Option<NanoUsd>,
    own: Mutex<OwnBudget>,
}

#[derive(Default)]
struct OwnBudget {
    spent: NanoUsd,
    has_refused: bool,
}

impl UserMeter<'_> {
    fn own(&self) -> MutexGuard<'_, OwnBudget> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_refused(&self) -> bool {
        self.own().has_refused
    }
}

#[async_trait]
impl Meter for UserMeter<'_> {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        if let Some(limit) = self.limit {
            let mut own = self.own();
            if own.spent + estimate.cost > limit {
                own.has_refused = true;
                return Err(Exhausted);
            }
        }
        self.of_run.reserve(estimate).await
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        let mut own = self.own();
        own.spent = own.spent + used.cost;
        drop(own);
        self.of_run.settle(estimate, used);
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        self.of_run.call_tool().await
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        self.of_run.retry().await
    }
}
