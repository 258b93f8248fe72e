//! The conversation of a task: a user's messages in addition to the suite's input.

use serde::{Deserialize, Serialize};

pub use touchstone_agents::rules::dialogue::{EarlierMessage, MessageRole, SimulatedUser};
use touchstone_agents::rules::dialogue::{MAX_MESSAGES, MAX_REPLIES, MAX_TEXT_BYTES};

/// The conversation of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Conversation {
    /// Sent before the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<EarlierMessage>,
    /// The user's message after each answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    /// A model that plays the user, instead of `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<SimulatedUser>,
}

impl Conversation {
    /// Most turns, the one of the input included.
    pub fn most_turns(&self) -> usize {
        let replies = self.user.as_ref().map(|user| user.max_turns as usize);
        1 + replies.unwrap_or(self.turns.len())
    }

    /// Texts that the author of the suite wrote, apart from instructions.
    pub fn given(&self) -> impl Iterator<Item = &str> {
        let messages = self.messages.iter().map(|it| it.content.as_str());
        let turns = self.turns.iter().map(String::as_str);
        let of_user = self.user.iter();
        let of_user = of_user.flat_map(|it| [Some(it.goal.as_str()), it.persona.as_deref()]);
        messages.chain(turns).chain(of_user.flatten())
    }

    /// Its faults, each with the pointer of the member.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut add = |at: String, reason: String| faults.push((at, reason));
        if self.messages.is_empty() && self.turns.is_empty() && self.user.is_none() {
            add(
                String::new(),
                "is empty; add `messages`, `turns` or `user`, or remove it".to_owned(),
            );
        }
        if !self.turns.is_empty() && self.user.is_some() {
            add(
                String::new(),
                "has both `turns` and `user`; keep the script or the simulated user".to_owned(),
            );
        }
        for (name, count) in [
            ("messages", self.messages.len()),
            ("turns", self.turns.len()),
        ] {
            if count > MAX_MESSAGES {
                add(
                    format!("/{name}"),
                    format!("has {count} entries; at most {MAX_MESSAGES} are possible"),
                );
            }
        }
        let messages = self.messages.iter().enumerate();
        let messages = messages.map(|(n, it)| (format!("/messages/{n}/content"), &it.content));
        let turns = self.turns.iter().enumerate();
        let turns = turns.map(|(n, it)| (format!("/turns/{n}"), it));
        for (at, text) in messages.chain(turns) {
            if let Some(reason) = text_fault(text) {
                add(at, reason);
            }
        }
        if let Some(user) = &self.user {
            faults.extend(user_faults(user));
        }
        faults
    }
}

fn text_fault(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("is empty; a message needs text".to_owned());
    }
    let size = text.len();
    (size > MAX_TEXT_BYTES)
        .then(|| format!("has {size} bytes; at most {MAX_TEXT_BYTES} are possible"))
}

fn user_faults(user: &SimulatedUser) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let texts = [
        ("goal", Some(&user.goal)),
        ("persona", user.persona.as_ref()),
        ("stop", user.stop.as_ref()),
    ];
    for (name, text) in texts {
        if let Some(reason) = text.and_then(|text| text_fault(text)) {
            faults.push((format!("/user/{name}"), reason));
        }
    }
    if !(1..=MAX_REPLIES).contains(&user.max_turns) {
        faults.push((
            "/user/maxTurns".to_owned(),
            format!("must be from 1 to {MAX_REPLIES}, got {}", user.max_turns),
        ));
    }
    if user.max_cost_usd.is_some_and(|max| max <= 0.0) {
        faults.push((
            "/user/maxCostUsd".to_owned(),
            "must be above 0; leave it out for no limit".to_owned(),
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn read(document: Value) -> Conversation {
        serde_json::from_value(document).unwrap()
    }

    #[rstest]
    #[case::messages(json!({"messages": [{"role": "assistant", "content": "Hello"}]}))]
    #[case::turns(json!({"turns": ["Order 17."]}))]
    #[case::user(json!({"user": {"goal": "Get a refund."}}))]
    #[case::whole_user(json!({"messages": [{"role": "system", "content": "Today is Monday."}],
        "user": {"goal": "g", "persona": "p", "opens": true, "stop": "s", "maxTurns": 50, "maxCostUsd": 0.05}}))]
    fn a_usable_conversation_has_no_faults(#[case] document: Value) {
        assert_eq!(read(document).faults(), []);
    }

    #[rstest]
    #[case::nothing(json!({}), "")]
    #[case::two_users(json!({"turns": ["a"], "user": {"goal": "g"}}), "")]
    #[case::blank_message(json!({"messages": [{"role": "user", "content": " "}]}), "/messages/0/content")]
    #[case::blank_turn(json!({"turns": ["a", ""]}), "/turns/1")]
    #[case::long_turn(json!({"turns": ["a".repeat(65 * 1024)]}), "/turns/0")]
    #[case::many_turns(json!({"turns": vec!["a"; 201]}), "/turns")]
    #[case::blank_goal(json!({"user": {"goal": ""}}), "/user/goal")]
    #[case::blank_stop(json!({"user": {"goal": "g", "stop": ""}}), "/user/stop")]
    #[case::no_turns(json!({"user": {"goal": "g", "maxTurns": 0}}), "/user/maxTurns")]
    #[case::too_many_turns(json!({"user": {"goal": "g", "maxTurns": 51}}), "/user/maxTurns")]
    #[case::no_money(json!({"user": {"goal": "g", "maxCostUsd": 0.0}}), "/user/maxCostUsd")]
    fn a_fault_names_its_member(#[case] document: Value, #[case] at: &str) {
        let faults = read(document).faults();
        let places: Vec<&str> = faults.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(places, [at]);
    }

    #[test]
    fn the_most_turns_include_the_one_of_the_input() {
        assert_eq!(read(json!({"turns": ["a", "b"]})).most_turns(), 3);
        assert_eq!(read(json!({"user": {"goal": "g"}})).most_turns(), 9);
    }
}
