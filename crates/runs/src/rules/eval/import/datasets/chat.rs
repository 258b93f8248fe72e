//! Inputs that are chat messages: the last user message is the input of the task, and the messages
//! before it are sent before it.

use serde_json::{Map, Value, json};

use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::scoring::Expectation;
use crate::rules::eval::scoring_document::Conversation;

/// An input with the messages before it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatInput {
    pub input: Value,
    /// Empty without a conversation.
    pub messages: Vec<Value>,
}

impl ChatInput {
    /// Adds the messages to the task's entry of the scoring document.
    pub fn applied(&self, mut expectation: Expectation) -> Expectation {
        if self.messages.is_empty() {
            return expectation;
        }
        let mut entry = match expectation.scoring.take() {
            Some(Value::Object(entry)) => entry,
            _ => Map::new(),
        };
        entry.insert(
            "conversation".to_owned(),
            json!({"messages": self.messages}),
        );
        expectation.scoring = Some(Value::Object(entry));
        expectation
    }
}

/// Reads an input: a string or an object is used as it is, chat messages become a conversation.
pub fn read(draft: &mut Draft, place: &str, input: Value) -> ChatInput {
    let as_data = |input| ChatInput {
        input,
        messages: Vec::new(),
    };
    let Value::Array(messages) = &input else {
        return as_data(input);
    };
    if !messages.iter().any(|message| message.get("role").is_some()) {
        return as_data(input);
    }
    match conversation(draft, place, messages) {
        Ok(chat) => chat,
        Err(reason) => {
            draft.report_loss(
                place,
                format!(
                    "the roles of messages: the input is a list of messages now, unchanged, \
                     because {reason}"
                ),
            );
            as_data(input)
        }
    }
}

fn conversation(
    draft: &mut Draft,
    place: &str,
    messages: &[Value],
) -> Result<ChatInput, &'static str> {
    let mut read = Vec::with_capacity(messages.len());
    for message in messages {
        let role = match message.get("role").and_then(Value::as_str) {
            Some("developer") => "system",
            Some(role @ ("system" | "user" | "assistant")) => role,
            _ => return Err("a message has another role than system, user or assistant"),
        };
        let text = message.get("content").and_then(text_of);
        let text = text.ok_or("a message has other content than text")?;
        read.push((role, text));
    }
    let Some((role, last)) = read.pop() else {
        return Err("there is no message");
    };
    match role {
        "user" => {}
        "system" => draft.report_loss(
            place,
            "the role of a last message that is not the user's: it is sent as the user's",
        ),
        _ => return Err("the last message is the assistant's"),
    }
    let before = read.len();
    read.retain(|(_, text)| !text.trim().is_empty());
    if read.len() < before {
        draft.report_loss(place, "an empty message");
    }
    let earlier: Vec<Value> = read
        .into_iter()
        .map(|(role, text)| json!({"role": role, "content": text}))
        .collect();
    let document = json!({"messages": earlier});
    let parsed: Result<Conversation, _> = serde_json::from_value(document);
    if !earlier.is_empty() && parsed.is_ok_and(|it| !it.faults().is_empty()) {
        return Err("there are too many messages, or one is too long");
    }
    report_members(draft, place, messages);
    Ok(ChatInput {
        input: Value::String(last),
        messages: earlier,
    })
}

/// The text of a message: a string, or a list of parts that are all text.
fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let part = |part: &Value| match part.get("type").and_then(Value::as_str) {
                Some("text") => part.get("text").and_then(Value::as_str).map(str::to_owned),
                _ => None,
            };
            let texts: Option<Vec<String>> = parts.iter().map(part).collect();
            texts.map(|texts| texts.join("\n"))
        }
        _ => None,
    }
}

/// Members of messages that are not sent, such as the name of an example's author.
fn report_members(draft: &mut Draft, place: &str, messages: &[Value]) {
    for message in messages.iter().filter_map(Value::as_object) {
        let lost = message.iter().filter(|(name, value)| {
            !matches!(name.as_str(), "role" | "content" | "id") && !value.is_null()
        });
        for (name, _) in lost {
            let name = short(name);
            draft.report_loss(place, format!("{name:?} of a message is not sent"));
        }
    }
}
