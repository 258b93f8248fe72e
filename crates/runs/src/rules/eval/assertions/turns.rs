//! The turns of a conversation, and the part of it that an assertion looks at.

use std::ops::Range;

use serde_json::Value;

use crate::rules::eval::scoring_document::scope::{Part, Scope};
use touchstone_agents::rules::judging::prompt::quoted;
use touchstone_openwop::events::Event;

/// One message of the user with the agent's answer.
#[derive(Clone, Debug, PartialEq)]
struct Turn {
    /// The user's message; absent in the first turn if it answers the input.
    said: Option<String>,
    answer: Value,
    /// The tool calls before the answer.
    calls: Range<usize>,
}

/// What happened in an invocation, turn by turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnLog {
    turns: Vec<Turn>,
    calls: usize,
    /// The user's message since the last answer.
    said: Option<String>,
}

impl TurnLog {
    /// Adds an event. A new start of the invocation clears the log.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => {
                *self = Self::default();
            }
            Event::AgentToolCalled(_) => self.called(),
            Event::TurnAnswered(answered) => self.answered(&answered.answer),
            Event::UserSaid(said) => self.said(&said.text),
            _ => {}
        }
    }

    /// Adds a tool call.
    pub fn called(&mut self) {
        self.calls += 1;
    }

    /// Adds an answer.
    pub fn answered(&mut self, answer: &Value) {
        self.turns.push(Turn {
            said: self.said.take(),
            answer: answer.clone(),
            calls: self.first_call()..self.calls,
        });
    }

    /// Adds a message of the user.
    pub fn said(&mut self, text: &str) {
        self.said = Some(text.to_owned());
    }

    fn first_call(&self) -> usize {
        self.turns.last().map_or(0, |turn| turn.calls.end)
    }

    /// Whether the user has said more than the input, or something else.
    pub fn is_conversation(&self) -> bool {
        !self.turns.is_empty() || self.said.is_some()
    }

    /// Whether a message of the user took the place of the input.
    fn is_opened_by_user(&self) -> bool {
        let first = self.turns.first().map_or(&self.said, |turn| &turn.said);
        first.is_some()
    }

    /// The answers before the last one.
    pub fn earlier_answers(&self) -> impl Iterator<Item = &Value> {
        let before = match self.said {
            Some(_) => self.turns.len(),
            None => self.turns.len().saturating_sub(1),
        };
        self.turns.iter().take(before).map(|turn| &turn.answer)
    }

    /// The messages up to the last answer, without it, as documents with `role` and `content`.
    pub fn messages(&self, input: &Value) -> Vec<Value> {
        let message =
            |role: &str, content: Value| serde_json::json!({"role": role, "content": content});
        let mut all = Vec::new();
        if !self.is_opened_by_user() {
            all.push(message("user", input.clone()));
        }
        for turn in &self.turns {
            all.extend(
                turn.said
                    .as_ref()
                    .map(|said| message("user", Value::from(said.as_str()))),
            );
            all.push(message("assistant", turn.answer.clone()));
        }
        match &self.said {
            Some(said) => all.push(message("user", Value::from(said.as_str()))),
            // The last answer is recorded.
            None if self.is_conversation() => {
                all.pop();
            }
            None => {}
        }
        all
    }

    /// The turns with the last answer, which is recorded only in a conversation.
    fn complete(&self, last_answer: &Value) -> Vec<Turn> {
        let mut turns = self.turns.clone();
        if turns.is_empty() || self.said.is_some() {
            turns.push(Turn {
                said: self.said.clone(),
                answer: last_answer.clone(),
                calls: self.first_call()..self.calls,
            });
        }
        turns
    }

    /// What an assertion with this scope looks at. An error is the number of turns, if the turn did
    /// not take place.
    pub(super) fn seen(
        &self,
        scope: Scope,
        input: &Value,
        last_answer: &Value,
    ) -> Result<Seen, usize> {
        let turns = self.complete(last_answer);
        let whole = |answer| Seen {
            answer,
            calls: 0..self.calls,
        };
        match scope {
            Scope::Part(Part::Answer) => Ok(whole(last_answer.clone())),
            Scope::Part(Part::Answers) => {
                let answers: Vec<_> = turns.iter().map(|turn| quoted(&turn.answer)).collect();
                Ok(whole(Value::String(answers.join("\n\n"))))
            }
            Scope::Part(Part::Transcript) => Ok(whole(Value::String(transcript(&turns, input)))),
            Scope::Turn(number) => {
                let count = turns.len();
                let turn = index_of(number, count).and_then(|at| turns.into_iter().nth(at));
                let turn = turn.ok_or(count)?;
                Ok(Seen {
                    answer: turn.answer,
                    calls: turn.calls,
                })
            }
        }
    }
}

/// The index of a turn, counted from 1, or from -1 at the end.
fn index_of(number: i32, count: usize) -> Option<usize> {
    let distance = usize::try_from(number.unsigned_abs()).ok()?;
    match number {
        0 => None,
        1.. => Some(distance - 1),
        _ => count.checked_sub(distance),
    }
}

fn transcript(turns: &[Turn], input: &Value) -> String {
    let mut lines = Vec::new();
    for turn in turns {
        let said = turn.said.as_deref();
        let said = said.map_or_else(|| quoted(input), Into::into);
        lines.push(format!("user: {said}"));
        lines.push(format!("agent: {}", quoted(&turn.answer)));
    }
    lines.join("\n\n")
}

/// What an assertion looks at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub answer: Value,
    pub calls: Range<usize>,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Two calls, an answer, a message, a call and an answer.
    fn log() -> TurnLog {
        let mut log = TurnLog::default();
        log.called();
        log.called();
        log.answered(&json!("Which order?"));
        log.said("Order 17.");
        log.called();
        log.answered(&json!({"refunded": true}));
        log
    }

    #[rstest]
    #[case::first(1, json!("Which order?"), 0..2)]
    #[case::second(2, json!({"refunded": true}), 2..3)]
    #[case::last(-1, json!({"refunded": true}), 2..3)]
    #[case::before_the_last(-2, json!("Which order?"), 0..2)]
    fn a_turn_is_counted_from_either_end(
        #[case] number: i32,
        #[case] answer: Value,
        #[case] calls: Range<usize>,
    ) {
        let seen = log().seen(
            Scope::Turn(number),
            &json!("Hi"),
            &json!({"refunded": true}),
        );
        assert_eq!(seen, Ok(Seen { answer, calls }));
    }

    #[rstest]
    #[case(3)]
    #[case(-3)]
    #[case(0)]
    #[case(i32::MIN)]
    #[case(i32::MAX)]
    fn a_turn_that_did_not_take_place_is_not_seen(#[case] number: i32) {
        let seen = log().seen(Scope::Turn(number), &json!("Hi"), &json!("x"));
        assert_eq!(seen, Err(2));
    }

    #[test]
    fn the_transcript_has_both_sides_and_the_answers_only_the_agents() {
        let last = json!({"refunded": true});
        let text = |part| {
            let seen = log().seen(Scope::Part(part), &json!("Hi"), &last).unwrap();
            assert_eq!(seen.calls, 0..3);
            seen.answer
        };
        assert_eq!(
            text(Part::Transcript),
            json!(
                "user: Hi\n\nagent: Which order?\n\nuser: Order 17.\n\nagent: {\"refunded\":true}"
            )
        );
        assert_eq!(
            text(Part::Answers),
            json!("Which order?\n\n{\"refunded\":true}")
        );
        assert_eq!(text(Part::Answer), last);
    }

    #[test]
    fn a_message_of_a_user_who_opens_takes_the_place_of_the_input() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let mut log = TurnLog::default();
        log.said("Hello?");
        assert_eq!(log.messages(&json!("Hi")), [user("Hello?")]);
        assert!(log.is_conversation());
        log.answered(&json!("Which order?"));
        assert_eq!(log.messages(&json!("Hi")), [user("Hello?")]);
        log.said("Order 17.");
        log.answered(&json!("Done."));
        let scope = Scope::Part(Part::Transcript);
        let seen = log.seen(scope, &json!("Hi"), &json!("Done."));
        let transcript = "user: Hello?\n\nagent: Which order?\n\nuser: Order 17.\n\nagent: Done.";
        assert_eq!(seen.unwrap().answer, json!(transcript));
        assert_eq!(log.messages(&json!("Hi")).len(), 3);
    }

    #[test]
    fn a_task_without_a_conversation_has_one_turn() {
        let mut log = TurnLog::default();
        log.called();
        let seen = log.seen(Scope::Turn(1), &json!("Hi"), &json!("Hello"));
        let expected = Seen {
            answer: json!("Hello"),
            calls: 0..1,
        };
        assert_eq!(seen, Ok(expected));
        assert_eq!(
            log.messages(&json!("Hi")),
            [json!({"role": "user", "content": "Hi"})]
        );
    }

    #[test]
    fn a_last_answer_that_is_not_recorded_is_the_last_turn() {
        let mut log = log();
        log.said("Thanks?");
        let seen = log.seen(Scope::Turn(3), &json!("Hi"), &json!("I can't."));
        assert_eq!(seen.unwrap().answer, json!("I can't."));
        assert_eq!(log.earlier_answers().count(), 2);
        assert_eq!(log.messages(&json!("Hi")).len(), 5);
    }

    #[test]
    fn the_messages_before_the_last_answer_do_not_have_it() {
        let messages = log().messages(&json!("Hi"));
        let contents: Vec<&Value> = messages.iter().map(|it| &it["content"]).collect();
        assert_eq!(
            contents,
            [&json!("Hi"), &json!("Which order?"), &json!("Order 17.")]
        );
        assert_eq!(log().earlier_answers().count(), 1);
    }
}
