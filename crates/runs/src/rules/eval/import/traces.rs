//! OpenTelemetry spans with the semantic conventions for generative AI, in OTLP JSON: every trace
//! becomes a task with its recorded tool results as fixtures.
//!
//! The question is the first user message of the trace, the expected answer its last answer.
//! Whether that answer was right is for a person to check.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::draft::{Draft, NewTask};
use super::rows::Rows;

/// Maximum number of spans in a document.
const MAX_SPANS: usize = 1_000_000;

/// Names of attributes in the current and in earlier versions of the conventions.
const INPUT: [&str; 3] = ["gen_ai.input.messages", "gen_ai.prompt", "input.value"];
const OUTPUT: [&str; 3] = [
    "gen_ai.output.messages",
    "gen_ai.completion",
    "output.value",
];
const RESULT: [&str; 3] = [
    "gen_ai.tool.call.result",
    "gen_ai.tool.message",
    "output.value",
];

/// Whether a document is an export of spans.
pub fn is_export(document: &Value) -> bool {
    document.get("resourceSpans").is_some_and(Value::is_array)
}

/// A span with what a task needs.
struct Span {
    /// Start in nanoseconds, with leading zeros.
    start: String,
    end: String,
    attributes: Map<String, Value>,
    events: Vec<(String, Map<String, Value>)>,
}

/// Converts the traces of an export: one document, or one per line.
///
/// # Errors
/// The document has no spans.
pub fn convert(bytes: &[u8], draft: &mut Draft) -> Result<(), String> {
    let rows = Rows::read(bytes)?;
    let mut traces: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    let mut count = 0_usize;
    for row in &rows.rows {
        if !is_export(&row.value) {
            return Err(format!("{} has no `resourceSpans`", row.place));
        }
        for span in spans(&row.value) {
            count += 1;
            if count > MAX_SPANS {
                return Err(format!("it has more than {MAX_SPANS} spans"));
            }
            let Some(trace) = span.get("traceId").and_then(Value::as_str) else {
                draft.report_loss(&row.place, "a span without `traceId`");
                continue;
            };
            traces.entry(trace.to_owned()).or_default().push(read(span));
        }
    }
    let mut ordered: Vec<(String, Vec<Span>)> = traces.into_iter().collect();
    for (_, spans) in &mut ordered {
        spans.sort_by(|a, b| a.start.cmp(&b.start));
    }
    let first = |spans: &[Span]| spans.first().map(|span| span.start.clone());
    ordered.sort_by_key(|(_, spans)| first(spans));
    for (trace, spans) in &ordered {
        let short: String = trace.chars().take(32).collect();
        add(&format!("trace {short}"), &short, spans, draft);
    }
    Ok(())
}

fn spans(document: &Value) -> impl Iterator<Item = &Value> {
    members(document, &["resourceSpans"])
        .flat_map(|resource| members(resource, &["scopeSpans", "instrumentationLibrarySpans"]))
        .flat_map(|scope| members(scope, &["spans"]))
}

fn members<'a>(value: &'a Value, names: &[&str]) -> impl Iterator<Item = &'a Value> {
    let found = names.iter().find_map(|name| value.get(*name));
    found.and_then(Value::as_array).into_iter().flatten()
}

fn read(span: &Value) -> Span {
    let time = |name: &str| match span.get(name) {
        Some(Value::String(text)) => format!("{text:0>20}"),
        Some(Value::Number(number)) => format!("{:0>20}", number.to_string()),
        _ => "0".repeat(20),
    };
    let events = members(span, &["events"]).map(|event| {
        let name = event
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        (name.to_owned(), attributes(event))
    });
    Span {
        start: time("startTimeUnixNano"),
        end: time("endTimeUnixNano"),
        attributes: attributes(span),
        events: events.collect(),
    }
}

fn attributes(of: &Value) -> Map<String, Value> {
    members(of, &["attributes"])
        .filter_map(|attribute| {
            let key = attribute.get("key")?.as_str()?.to_owned();
            Some((key, plain(attribute.get("value")?, 0)))
        })
        .collect()
}

/// An `AnyValue` as JSON.
fn plain(value: &Value, depth: usize) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|it| it.iter().next()) else {
        return Value::Null;
    };
    match (kind.as_str(), inner) {
        ("intValue", Value::String(text)) => text.parse::<i64>().map_or(inner.clone(), Value::from),
        ("arrayValue", array) if depth < 16 => members(array, &["values"])
            .map(|item| plain(item, depth + 1))
            .collect(),
        ("kvlistValue", list) if depth < 16 => {
            let pairs = members(list, &["values"]).filter_map(|pair| {
                let key = pair.get("key")?.as_str()?.to_owned();
                Some((key, plain(pair.get("value")?, depth + 1)))
            });
            Value::Object(pairs.collect())
        }
        _ => inner.clone(),
    }
}

/// A text attribute with JSON is parsed.
fn parsed(value: &Value) -> Value {
    super::table::structured(value.clone())
}

fn attribute(span: &Span, names: &[&str]) -> Option<Value> {
    let found = names.iter().find_map(|name| span.attributes.get(*name));
    found.map(parsed)
}

fn add(place: &str, trace: &str, spans: &[Span], draft: &mut Draft) {
    let is_tool = |span: &&Span| {
        span.attributes.get("gen_ai.operation.name") == Some(&json!("execute_tool"))
            || span.attributes.contains_key("gen_ai.tool.name")
    };
    let is_agent = |span: &&Span| !is_tool(span);
    let input = spans.iter().filter(is_agent).find_map(question);
    let mut by_end: Vec<&Span> = spans.iter().filter(is_agent).collect();
    by_end.sort_by(|a, b| b.end.cmp(&a.end));
    let answer = by_end.into_iter().find_map(answer);
    let (input, answer) = match (input, answer) {
        (Some(input), Some(answer)) => (input, answer),
        (None, _) => {
            draft.skip(
                place,
                "a trace without a user message; record content with \
                 OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            );
            return;
        }
        (_, None) => {
            draft.skip(place, "a trace without an answer");
            return;
        }
    };
    let mut tool_responses = Vec::new();
    for span in spans.iter().filter(is_tool) {
        let name = span
            .attributes
            .get("gen_ai.tool.name")
            .and_then(Value::as_str);
        let result = attribute(span, &RESULT);
        match (name, result) {
            (Some(name), Some(result)) if !name.is_empty() => {
                tool_responses.push(json!({"tool": name, "response": result}));
            }
            _ => draft.report_loss(place, "a tool call without its name or recorded result"),
        }
    }
    draft.report_loss(
        place,
        "system instructions, usage and times of a trace: only question, answer and tool results \
         are imported; check that the recorded answers are right",
    );
    let expectation = draft.golden(answer);
    draft.add_task(NewTask {
        place,
        name: Some(&json!(trace)),
        input,
        expectation,
        fixtures: (!tool_responses.is_empty()).then(|| json!({"toolResponses": tool_responses})),
        keeps_id: false,
    });
}

/// The last user message of a span's input.
fn question(span: &Span) -> Option<Value> {
    if let Some(input) = attribute(span, &INPUT) {
        return match &input {
            Value::Array(messages) => message_of(messages.iter().rev(), "user").or(Some(input)),
            _ => Some(input),
        };
    }
    let events = span.events.iter();
    let of_event = events
        .filter(|(name, _)| name == "gen_ai.user.message")
        .find_map(|(_, attributes)| attributes.get("content").map(parsed));
    of_event.or_else(|| numbered(span, "gen_ai.prompt", Some("user")))
}

/// The last message of a span's output.
fn answer(span: &Span) -> Option<Value> {
    if let Some(output) = attribute(span, &OUTPUT) {
        return match &output {
            Value::Array(messages) => message_of(messages.iter().rev(), "assistant"),
            Value::String(text) if text.is_empty() => None,
            _ => Some(output),
        };
    }
    let of_event = span
        .events
        .iter()
        .rev()
        .filter(|(name, _)| name == "gen_ai.choice" || name == "gen_ai.assistant.message")
        .find_map(|(_, attributes)| {
            let message = attributes.get("message").map(parsed);
            let content = message.as_ref().and_then(content_of);
            content.or_else(|| attributes.get("content").map(parsed))
        });
    of_event.or_else(|| numbered(span, "gen_ai.completion", None))
}

/// The text of the first message of this role.
fn message_of<'a>(messages: impl Iterator<Item = &'a Value>, role: &str) -> Option<Value> {
    messages
        .filter(|message| message.get("role").and_then(Value::as_str) == Some(role))
        .find_map(content_of)
}

/// The text of a message: its content, or its text parts.
fn content_of(message: &Value) -> Option<Value> {
    match message.get("content") {
        Some(Value::String(text)) if !text.is_empty() => return Some(json!(text)),
        Some(content @ Value::Object(_)) => return Some(content.clone()),
        _ => {}
    }
    let parts = message.get("parts").or_else(|| message.get("content"))?;
    let texts: Vec<&str> = parts
        .as_array()?
        .iter()
        .filter(|part| part.get("type").and_then(Value::as_str) == Some("text"))
        .filter_map(|part| part.get("content").or_else(|| part.get("text"))?.as_str())
        .collect();
    (!texts.is_empty()).then(|| json!(texts.join("\n")))
}

/// The last of the attributes `PREFIX.0.content`, `PREFIX.1.content`, and so on, of this role.
fn numbered(span: &Span, prefix: &str, role: Option<&str>) -> Option<Value> {
    let text = |name: &str| span.attributes.get(name).and_then(Value::as_str);
    let all = (0..1000).map_while(|n| {
        let content = text(&format!("{prefix}.{n}.content"));
        let of = text(&format!("{prefix}.{n}.role"));
        (content.is_some() || of.is_some()).then_some((of, content))
    });
    all.filter(|(of, _)| role.is_none() || *of == role)
        .filter_map(|(_, content)| content.filter(|text| !text.is_empty()))
        .last()
        .map(|text| parsed(&json!(text)))
}
