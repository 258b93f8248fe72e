//! The parts of a task with its content, worded once for terminal and page.

use std::borrow::Cow;

use serde_json::Value;

use crate::render::words::{assertions_held, in_words, outcome};
use crate::rules::eval::report::TaskOutcome;
use crate::rules::eval::safety::kinds;
use crate::rules::eval::task_details::TaskDetails;
use crate::rules::eval::task_details::difference::{TextPart, text_parts};
use crate::rules::eval::task_details::transcript::Step;
use touchstone_agents::rules::judging::prompt::quoted;
use touchstone_host::render::words::{duration, plain, usd};
use touchstone_openwop::events::{ToolStatus, UserStopped};

/// Score, reason, latency, cost and tokens.
pub fn facts(details: &TaskDetails) -> Vec<String> {
    let mut facts = vec![format!("score {:.2}", details.score)];
    match &details.reason {
        Some(reason) => facts.push(plain(&in_words(reason))),
        None => facts.push(plain_outcome(details)),
    }
    if details.outcome == TaskOutcome::Unjudged {
        // Its score of 0 says nothing.
        facts.remove(0);
    }
    if let Some(ms) = details.latency_ms {
        facts.push(duration(ms));
    }
    let about = if details.cost_estimated { "~" } else { "" };
    facts.push(match details.cost_usd {
        Some(cost) => format!("{about}{}", usd(cost)),
        None => "cost unknown".to_owned(),
    });
    // A call that was cut off may have used tokens.
    if details.tokens > 0 || details.outcome != TaskOutcome::Unjudged {
        facts.push(format!("{about}{} tokens", details.tokens));
    }
    match details.retries {
        0 => {}
        1 => facts.push("1 retry".to_owned()),
        n => facts.push(format!("{n} retries")),
    }
    if let Some(run) = &details.reused_from {
        facts.push(format!("executed in {run}"));
    }
    facts
}

/// The outcome of a task without a recorded reason.
fn plain_outcome(details: &TaskDetails) -> String {
    if !details.assertions.is_empty() {
        let held = details.assertions.iter().filter(|it| it.holds).count();
        let left_out = details.assertions.iter().filter(|it| it.is_left_out);
        return assertions_held(held, details.assertions.len(), left_out.count());
    }
    let met = details.criteria.iter().filter(|it| it.met == Some(true));
    match (details.outcome, details.criteria.len()) {
        (_, all @ 1..) => format!("{} of {all} criteria met", met.count()),
        (TaskOutcome::Failed, 0) => "answer differs".to_owned(),
        (other, 0) => outcome(other).to_owned(),
    }
}

/// An answer that came as JSON text reads best as JSON.
pub fn structured(answer: &Value) -> Value {
    let parsed = answer
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    match parsed {
        Some(parsed @ (Value::Object(_) | Value::Array(_))) => parsed,
        _ => answer.clone(),
    }
}

/// The only difference, if it is between two texts that have words in common.
pub fn word_difference(details: &TaskDetails) -> Option<Vec<TextPart>> {
    let [only] = details.differences.as_slice() else {
        return None;
    };
    match (only.path(), only.expected(), only.actual()) {
        ("", Some(Value::String(expected)), Some(Value::String(actual))) => {
            text_parts(expected, actual)
        }
        _ => None,
    }
}

pub fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The safety findings, each with its place in the transcript.
pub fn findings(details: &TaskDetails) -> Vec<String> {
    let start = details.transcript.first().map(|entry| entry.at);
    let place = |at: usize| {
        let entry = details.transcript.get(at)?;
        let after = entry.at.duration_since(start?).as_millis();
        Some(format!(" (at {after} ms: {})", step(&entry.step).title))
    };
    details
        .safety_findings
        .iter()
        .map(|finding| {
            let place = finding.entry.and_then(place).unwrap_or_default();
            plain(&format!("{}{place}", kinds::in_words(&finding.kind)))
        })
        .collect()
}

/// The input, with the messages before it.
pub fn input(details: &TaskDetails) -> Cow<'_, Value> {
    if details.earlier_messages.is_empty() {
        return Cow::Borrowed(&details.input);
    }
    let earlier = details.earlier_messages.iter();
    let earlier = earlier.map(|it| format!("{}: {}", it.role.as_str(), it.content));
    let input = format!("user: {}", quoted(&details.input));
    let all: Vec<String> = earlier.chain([input]).collect();
    Cow::Owned(Value::String(all.join("\n")))
}

/// A step of the transcript.
pub struct StepText {
    /// One line.
    pub title: String,
    pub content: Option<Value>,
}

pub fn step(step: &Step) -> StepText {
    let (title, content) = titled(step);
    StepText {
        title: plain(&title),
        content,
    }
}

fn titled(step: &Step) -> (String, Option<Value>) {
    match step {
        Step::Started { model, provider } => {
            let model = model.as_deref().unwrap_or("an unknown model");
            let provider = provider.as_deref().unwrap_or("an unknown provider");
            (format!("started on {model} of {provider}"), None)
        }
        Step::Said { text } => ("said".to_owned(), Some(Value::String(text.clone()))),
        Step::ToolCalled {
            tool, arguments, ..
        } => (format!("called {tool}"), arguments.clone()),
        Step::ToolReturned {
            tool,
            status,
            result,
            error,
            ..
        } => {
            let end = match (status, error) {
                (ToolStatus::Ok, _) => "answered".to_owned(),
                (ToolStatus::Error, Some(error)) => format!("failed: {error}"),
                (ToolStatus::Error, None) => "failed".to_owned(),
                (ToolStatus::Forbidden, _) => {
                    "was not called: it is not on the agent's allowlist".to_owned()
                }
            };
            (format!("{tool} {end}"), result.clone())
        }
        Step::FixtureMissing { tool } => (format!("the suite has no response for {tool}"), None),
        Step::HandedOff { to, reason } => (
            format!("handed off to {to}"),
            reason.clone().map(Value::String),
        ),
        Step::Retried { reason, wait_ms } => {
            let reason = in_words(reason);
            (
                format!("retried after {}: {reason}", duration(*wait_ms)),
                None,
            )
        }
        Step::ModelCalled {
            model,
            input_tokens,
            output_tokens,
            cost_usd,
            by_judge,
            by_user,
            by_embeddings,
            from_cache,
        } => {
            let who = match (by_judge, by_user, by_embeddings) {
                (true, _, _) => "judge",
                (_, true, _) => "simulated user",
                (_, _, true) => "embedding model",
                (false, false, false) => "model",
            };
            let cost = match from_cache {
                true => "from the cache".to_owned(),
                false => cost_usd.map_or_else(|| "cost unknown".to_owned(), usd),
            };
            (
                format!("{who} {model}: {input_tokens} tokens in, {output_tokens} out, {cost}"),
                None,
            )
        }
        Step::ReplyRejected { by, reply } => rejected(by, reply),
        // Also recorded if the agent ended without an answer.
        Step::Answered {
            answer: Value::Null,
        } => ("ended without an answer, or with null".to_owned(), None),
        Step::Answered { answer } => ("answered".to_owned(), Some(answer.clone())),
        Step::TurnAnswered { turn, answer } => {
            (format!("turn {turn}: answered"), Some(answer.clone()))
        }
        Step::UserSaid { turn, text } => (
            format!("turn {turn}: the user said"),
            Some(Value::String(text.clone())),
        ),
        Step::Attached { files } => {
            let files: Vec<String> = files
                .iter()
                .map(|it| {
                    let digest = it.sha256.get(..12).unwrap_or(&it.sha256);
                    let media_type = it.media_type.as_str();
                    format!("{media_type} of {} bytes, sha256 {digest}…", it.size_bytes)
                })
                .collect();
            (format!("sent with the input: {}", files.join("; ")), None)
        }
        Step::UserStopped { reason, note } => {
            let title = match reason.as_str() {
                UserStopped::MAX_TURNS => "the simulated user has no turns left",
                _ => "the simulated user ended the conversation",
            };
            let note = (!note.is_empty()).then(|| Value::String(note.clone()));
            (title.to_owned(), note)
        }
    }
}

/// A reply that does not have the requested form.
fn rejected(by: &str, reply: &str) -> (String, Option<Value>) {
    let who = match by {
        "user" => "simulated user",
        "embeddings" => "embedding model",
        _ => "judge",
    };
    match reply {
        "" => (format!("the reply of the {who} has no text"), None),
        reply => (
            format!("the reply of the {who} does not have the requested form"),
            Some(Value::from(reply)),
        ),
    }
}
