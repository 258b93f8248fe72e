//! Reading a scoring document: strict JSON, no unknown members, every assertion usable.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::attachments::{AttachmentReference, MAX_FILES};
use super::checks::{Check, Operator, TYPES};
use super::limits::{
    MAX_ASSERTIONS, MAX_COMMAND_NAME, MAX_METRIC_CHARS, MAX_METRICS, MAX_NESTING,
    MAX_REFERENCE_BYTES, MAX_REFERENCES, compile, is_label,
};
use super::read_judged::{check_judged, missing_context};
use super::tags::check_tags;
use super::{Assertion, Conversation, ScoringDocument, VERSION, path};
use touchstone_kit::ids::TaskId;
use touchstone_kit::{integrity, json};
use touchstone_openwop::schema::compile_untrusted;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};

/// Faults of one document that are reported.
const MAX_FAULTS: usize = 100;
/// Names at least this similar are suggested.
const NEAR: f64 = 0.75;

/// A document with the text that its digest is computed over.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadScoring {
    pub document: ScoringDocument,
    /// The document with sorted keys and no whitespace.
    pub canonical: String,
}

impl ReadScoring {
    /// `sha256-<base64>` of the canonical text.
    pub fn digest(&self) -> String {
        integrity::of(self.canonical.as_bytes())
    }
}

/// Parses a scoring document and checks it by itself.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(bytes: &[u8]) -> Result<ReadScoring, Vec<SuiteFault>> {
    let value = json::parse(bytes).map_err(|error| vec![SuiteFault::new("", error.to_string())])?;
    let mut faults = Faults::default();
    check_shape(&value, &mut faults);
    faults.end()?;
    let document: ScoringDocument = serde::Deserialize::deserialize(&value)
        .map_err(|error: serde_json::Error| vec![SuiteFault::new("", in_words(&error))])?;
    let mut faults = Faults::default();
    check_rules(&document, &mut faults);
    faults.end()?;
    Ok(ReadScoring {
        document,
        canonical: json::canonical_text(&value),
    })
}

/// Parses a scoring document of this suite.
///
/// # Errors
/// As [`read`], and tasks that the suite lacks.
pub fn read_for(bytes: &[u8], suite: &AgentEvalSuite) -> Result<ReadScoring, Vec<SuiteFault>> {
    let read = read(bytes)?;
    let faults = suite_faults(&read.document, suite);
    if faults.is_empty() {
        Ok(read)
    } else {
        Err(faults)
    }
}

/// Where the document does not fit the suite.
pub fn suite_faults(document: &ScoringDocument, suite: &AgentEvalSuite) -> Vec<SuiteFault> {
    let mut faults = Faults::default();
    if document.suite_id != suite.suite_id {
        faults.add(
            "/suiteId",
            format!("must be the id of the suite, `{}`", suite.suite_id),
        );
    }
    let known: BTreeSet<&TaskId> = suite.tasks.iter().map(|task| &task.task_id).collect();
    for id in document.tasks.keys().filter(|id| !known.contains(id)) {
        let near = nearest(id.as_str(), known.iter().map(|id| id.as_str()));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        faults.add(
            format!("/tasks/{}", escaped(id.as_str())),
            format!("the suite has no task with this id{hint}"),
        );
    }
    for task in &suite.tasks {
        if let Some(entry) = document.tasks.get(&task.task_id) {
            let at = format!("/tasks/{}", escaped(task.task_id.as_str()));
            missing_context(&entry.assertions, &at, &task.input, &mut faults);
        }
    }
    faults.all
}

#[derive(Default)]
pub(super) struct Faults {
    all: Vec<SuiteFault>,
}

impl Faults {
    pub fn add(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        if self.all.len() < MAX_FAULTS {
            self.all.push(SuiteFault::new(pointer, reason));
        }
    }

    fn end(self) -> Result<(), Vec<SuiteFault>> {
        if self.all.is_empty() {
            Ok(())
        } else {
            Err(self.all)
        }
    }
}

/// A member's name in a JSON Pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The most similar of the known names, if it is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let rated = known.map(|it| (strsim::jaro_winkler(&wanted, &it.to_lowercase()), it));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= NEAR)
        .map(|(_, name)| name)
}

/// A deserialization error in the terms of JSON.
fn in_words(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace("unknown field", "unknown member")
        .replace("missing field", "missing member")
        .replace("floating point number", "number")
        .replace("floating point", "number")
}

const DOCUMENT: [&str; 4] = ["scoringVersion", "suiteId", "defaults", "tasks"];
const ENTRY: [&str; 2] = ["assertions", "threshold"];
const TASK_ENTRY: [&str; 5] = ["assertions", "threshold", CONVERSATION, ATTACHMENTS, TAGS];
const CONVERSATION: &str = "conversation";
const ATTACHMENTS: &str = "attachments";
const TAGS: &str = "tags";
/// Members that leave a task its expectation in the suite if there are no assertions.
const BESIDE_SCORING: [&str; 3] = [CONVERSATION, ATTACHMENTS, TAGS];
const COMMON: [&str; 6] = ["type", "not", "weight", "metric", "on", "turn"];

fn check_shape(value: &Value, faults: &mut Faults) {
    let Some(members) = object(value, "", faults) else {
        return;
    };
    known_members(members, "", &DOCUMENT, faults);
    match members.get("scoringVersion") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(_) => faults.add("/scoringVersion", "must be 1"),
        None => faults.add("", "has no `scoringVersion`; add `\"scoringVersion\": 1`"),
    }
    if !members.get("suiteId").is_some_and(Value::is_string) {
        faults.add(
            "",
            "needs `suiteId`, the id of the suite whose tasks it scores",
        );
    }
    if let Some(defaults) = members.get("defaults") {
        check_entry(defaults, "/defaults", &ENTRY, faults);
    }
    if let Some(tasks) = members.get("tasks")
        && let Some(tasks) = object(tasks, "/tasks", faults)
    {
        for (id, entry) in tasks {
            check_entry(
                entry,
                &format!("/tasks/{}", escaped(id)),
                &TASK_ENTRY,
                faults,
            );
        }
    }
}

fn object<'a>(value: &'a Value, at: &str, faults: &mut Faults) -> Option<&'a Map<String, Value>> {
    if !value.is_object() {
        faults.add(at, "must be an object");
    }
    value.as_object()
}

fn known_members(members: &Map<String, Value>, at: &str, known: &[&str], faults: &mut Faults) {
    for name in members
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
    {
        let near = nearest(name, known.iter().copied());
        let hint = near.map_or_else(
            || format!("use only {}", listed(known)),
            |near| format!("did you mean `{near}`?"),
        );
        faults.add(
            format!("{at}/{}", escaped(name)),
            format!("is not a known member; {hint}"),
        );
    }
}

fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn check_entry(value: &Value, at: &str, known: &[&str], faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    known_members(members, at, known, faults);
    if let Some(conversation) = members.get(CONVERSATION) {
        check_conversation(conversation, &format!("{at}/{CONVERSATION}"), faults);
    }
    if let Some(attachments) = members.get(ATTACHMENTS) {
        check_attachments(attachments, &format!("{at}/{ATTACHMENTS}"), faults);
    }
    if let Some(tags) = members.get(TAGS) {
        check_tags(tags, &format!("{at}/{TAGS}"), faults);
    }
    let has_more = BESIDE_SCORING
        .iter()
        .any(|name| members.contains_key(*name));
    if !members.contains_key("assertions") && has_more {
        if members.contains_key("threshold") {
            faults.add(format!("{at}/threshold"), "needs `assertions`");
        }
        return;
    }
    if !members.get("threshold").is_none_or(Value::is_number) {
        faults.add(format!("{at}/threshold"), "must be a number from 0 to 1");
    }
    check_list(members.get("assertions"), at, 0, faults);
}

fn check_conversation(value: &Value, at: &str, faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    let before = faults.all.len();
    known_members(members, at, &["messages", "turns", "user"], faults);
    if let Some(Value::Object(user)) = members.get("user") {
        let known = ["goal", "persona", "stop", "maxTurns", "maxCostUsd"];
        known_members(user, &format!("{at}/user"), &known, faults);
    }
    if faults.all.len() > before {
        return;
    }
    match serde_json::from_value::<Conversation>(value.clone()) {
        Err(error) => faults.add(at, in_words(&error)),
        Ok(conversation) => {
            for (member, reason) in conversation.faults() {
                faults.add(format!("{at}{member}"), reason);
            }
        }
    }
}

fn check_attachments(value: &Value, at: &str, faults: &mut Faults) {
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        faults.add(
            at,
            "must be an array of files with `path`, `sha256` and `mediaType`",
        );
        return;
    };
    if items.len() > MAX_FILES {
        let count = items.len();
        faults.add(
            at,
            format!("has {count} files; at most {MAX_FILES} are possible"),
        );
        return;
    }
    for (n, item) in items.iter().enumerate() {
        let at = format!("{at}/{n}");
        let Some(members) = object(item, &at, faults) else {
            continue;
        };
        let before = faults.all.len();
        known_members(members, &at, &["path", "sha256", "mediaType"], faults);
        if faults.all.len() > before {
            continue;
        }
        match serde_json::from_value::<AttachmentReference>(item.clone()) {
            Err(error) => faults.add(at, in_words(&error)),
            Ok(reference) => {
                for (member, reason) in reference.faults() {
                    faults.add(format!("{at}/{member}"), reason);
                }
            }
        }
    }
}

fn check_list(value: Option<&Value>, at: &str, depth: usize, faults: &mut Faults) {
    let at = format!("{at}/assertions");
    let Some(items) = value.and_then(Value::as_array) else {
        faults.add(at, "must be an array of assertions");
        return;
    };
    if items.len() > MAX_ASSERTIONS {
        faults.add(at, format!("has more than {MAX_ASSERTIONS} assertions"));
        return;
    }
    if depth > MAX_NESTING {
        faults.add(at, format!("is nested deeper than {MAX_NESTING} levels"));
        return;
    }
    for (n, item) in items.iter().enumerate() {
        check_assertion(item, &format!("{at}/{n}"), depth, faults);
    }
}

fn check_assertion(value: &Value, at: &str, depth: usize, faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    let Some(name) = members.get("type").and_then(Value::as_str) else {
        faults.add(at, "needs `type`, such as \"contains\"");
        return;
    };
    if !TYPES.contains(&name) {
        let near = nearest(name, TYPES.into_iter());
        let hint = near.map_or_else(
            || "docs/assertions.md lists all types".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let unknown: String = name.chars().take(40).collect();
        faults.add(
            format!("{at}/type"),
            format!("`{unknown}` is not a type of assertion; {hint}"),
        );
        return;
    }
    let before = faults.all.len();
    if matches!(name, "all" | "any" | "none") {
        check_list(members.get("assertions"), at, depth + 1, faults);
    }
    if matches!(name, "expected" | "refusal") {
        known_members(members, at, &COMMON, faults);
    }
    if faults.all.len() == before
        && let Err(error) = serde_json::from_value::<Assertion>(value.clone())
    {
        faults.add(at, format!("`{name}`: {}", in_words(&error)));
    }
}

fn check_rules(document: &ScoringDocument, faults: &mut Faults) {
    let entries = document.tasks.iter();
    let entries = entries.map(|(id, entry)| (format!("/tasks/{}", escaped(id.as_str())), entry));
    let defaults = document.defaults.iter();
    let defaults = defaults.map(|entry| ("/defaults".to_owned(), entry));
    for (at, entry) in defaults.chain(entries) {
        check_score(entry.threshold, &at, "threshold", faults);
        check_assertions(&entry.assertions, &at, faults);
        if at != "/defaults" {
            let conversation = entry.conversation.as_ref();
            let most = conversation.map_or(1, Conversation::most_turns);
            check_turns(&entry.assertions, &at, most, faults);
        }
    }
    for (id, entry) in &document.tasks {
        let at = format!("/tasks/{}", escaped(id.as_str()));
        let has_more =
            entry.conversation.is_some() || !entry.attachments.is_empty() || !entry.tags.is_empty();
        if entry.assertions.is_empty() && has_more {
            continue;
        }
        if entry.assertions.is_empty() {
            faults.add(
                format!("{at}/assertions"),
                "is empty; add an assertion, or remove the entry to score the task by the suite",
            );
            continue;
        }
        let scoring = document.of_task(id);
        let assertions = scoring.map(|it| it.assertions).unwrap_or_default();
        if assertions.iter().map(|it| it.weight).sum::<f64>() <= 0.0 {
            faults.add(
                format!("{at}/assertions"),
                "has weights that add up to 0, so there is no score; give one a `weight` above 0",
            );
        } else {
            check_without_baseline(assertions.into_iter(), &at, faults);
        }
    }
    if document.metrics().len() > MAX_METRICS {
        faults.add("", format!("names more than {MAX_METRICS} metrics"));
    }
}

fn check_assertions(assertions: &[Assertion], at: &str, faults: &mut Faults) {
    for (n, assertion) in assertions.iter().enumerate() {
        let at = format!("{at}/assertions/{n}");
        if !(assertion.weight.is_finite() && assertion.weight >= 0.0) {
            faults.add(format!("{at}/weight"), "must be at least 0");
        }
        if let Some(name) = &assertion.metric
            && !is_label(name, MAX_METRIC_CHARS)
        {
            faults.add(
                format!("{at}/metric"),
                format!(
                    "must be 1 to {MAX_METRIC_CHARS} letters, digits, spaces or any of `_-./:`, \
                     because reports show it"
                ),
            );
        }
        check_scope(assertion, &at, faults);
        check_parameters(&assertion.check, &at, faults);
        check_assertions(assertion.check.nested(), &at, faults);
    }
}

/// What an assertion looks at, by itself.
fn check_scope(assertion: &Assertion, at: &str, faults: &mut Faults) {
    if assertion.scope().is_none() {
        return;
    }
    if assertion.on.is_some() && assertion.turn.is_some() {
        faults.add(at, "has both `on` and `turn`; keep one of them");
    }
    if assertion.turn == Some(0) {
        faults.add(
            format!("{at}/turn"),
            "must not be 0; 1 is the first turn and -1 the last one",
        );
    }
    let of_task = matches!(
        assertion.check,
        Check::Expected | Check::Latency(_) | Check::Cost(_) | Check::Tokens(_)
    );
    if of_task {
        let name = assertion.check.name();
        faults.add(
            at,
            format!("`{name}` is about the whole task; remove `on` and `turn`"),
        );
    }
    let mut outside = None;
    assertion.visit(&mut |it| {
        if it.check.is_external() {
            outside = Some(it.check.name());
        }
    });
    if let Some(name) = outside {
        faults.add(
            at,
            format!("`{name}` is decided about the last answer; remove `on` and `turn`"),
        );
    }
}

/// Turns that cannot take place.
fn check_turns(assertions: &[Assertion], at: &str, most: usize, faults: &mut Faults) {
    for (n, assertion) in assertions.iter().enumerate() {
        let at = format!("{at}/assertions/{n}");
        let beyond = assertion.turn.filter(|turn| {
            usize::try_from(turn.unsigned_abs()).is_ok_and(|distance| distance > most)
        });
        if let Some(turn) = beyond {
            let reason = match most {
                1 => format!("is {turn}, but the task has no further turns; add a `conversation`"),
                _ => format!("is {turn}, but the conversation has at most {most} turns"),
            };
            faults.add(format!("{at}/turn"), reason);
        }
        check_turns(assertion.check.nested(), &at, most, faults);
    }
}

pub(super) fn check_score(score: Option<f64>, at: &str, member: &str, faults: &mut Faults) {
    if score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
        faults.add(format!("{at}/{member}"), "must be from 0 to 1");
    }
}

/// Checks what the types of the parameters do not express.
fn check_parameters(check: &Check, at: &str, faults: &mut Faults) {
    let text = |value: &str, member: &str, faults: &mut Faults| {
        if value.is_empty() {
            faults.add(
                format!("{at}/{member}"),
                "is empty, so every answer satisfies it",
            );
        }
    };
    match check {
        Check::Equals(it) => one_of(
            it.value.is_some(),
            it.any_of.as_ref().map(Vec::len),
            at,
            faults,
        ),
        Check::Contains(it) | Check::StartsWith(it) | Check::EndsWith(it) => {
            text(&it.value, "value", faults);
        }
        Check::Icontains(it) => text(&it.value, "value", faults),
        Check::ContainsAny(it) | Check::ContainsAll(it) => {
            if it.values.is_empty() || it.values.iter().any(String::is_empty) {
                faults.add(
                    format!("{at}/values"),
                    "needs one or more non-empty strings",
                );
            }
        }
        Check::Regex(it) => {
            if let Err(reason) = it.compile() {
                faults.add(format!("{at}/pattern"), reason);
            }
        }
        Check::IsJson(it) => {
            if let Some(Err(fault)) = it.schema.as_ref().map(compile_untrusted) {
                faults.add(format!("{at}/schema{}", fault.pointer), fault.reason);
            }
        }
        Check::JsonPath(it) => {
            if let Err(reason) = path::parse(&it.path) {
                faults.add(format!("{at}/path"), reason);
            }
            check_operator(it.operator, it.value.as_ref(), at, faults);
        }
        Check::JsonPointer(it) => {
            if !(it.pointer.is_empty()
                || crate::rules::eval::matching::is_member_pointer(&it.pointer))
            {
                faults.add(
                    format!("{at}/pointer"),
                    "must be a JSON Pointer (RFC 6901) such as `/total`, or empty for the whole answer",
                );
            }
            check_operator(it.operator, it.value.as_ref(), at, faults);
        }
        Check::Number(it) => check_number(it, at, faults),
        Check::ClosedQuestion(_)
        | Check::Rubric(_)
        | Check::Factuality(_)
        | Check::AnswerRelevance(_)
        | Check::Faithfulness(_)
        | Check::ContextPrecision(_)
        | Check::ContextRecall(_)
        | Check::ContextRelevance(_)
        | Check::PreferredToBaseline(_) => check_judged(check, at, faults),
        Check::Levenshtein(_) | Check::RougeN(_) | Check::Bleu(_) | Check::Similar(_) => {
            check_similarity(check, at, faults);
        }
        Check::Command(it) => {
            text(&it.name, "name", faults);
            if it.name.len() > MAX_COMMAND_NAME {
                faults.add(
                    format!("{at}/name"),
                    format!("is longer than {MAX_COMMAND_NAME} bytes"),
                );
            }
        }
        Check::Cost(it) => {
            if it.max_usd < 0.0 {
                faults.add(format!("{at}/maxUsd"), "must be at least 0");
            }
        }
        Check::ToolCalled(it) => {
            text(&it.name, "name", faults);
            if it.max.is_some_and(|max| max < it.min.unwrap_or(1)) {
                faults.add(
                    format!("{at}/max"),
                    "is below `min` (1 unless given); use `tool-not-called` to forbid calls",
                );
            }
        }
        Check::ToolNotCalled(it) => text(&it.name, "name", faults),
        Check::ToolsCalledInOrder(it) => {
            if it.names.is_empty() {
                faults.add(format!("{at}/names"), "needs one or more tool names");
            }
        }
        Check::All(it) | Check::Any(it) => {
            check_score(it.threshold, at, "threshold", faults);
            check_combined(&it.assertions, at, faults);
        }
        Check::None(it) => check_combined(&it.assertions, at, faults),
        Check::Expected | Check::Refusal | Check::Latency(_) | Check::Tokens(_) => {}
    }
}

fn check_similarity(check: &Check, at: &str, faults: &mut Faults) {
    let (has_value, any_of, min) = match check {
        Check::Levenshtein(it) => (it.value.is_some(), it.any_of.as_ref(), it.min),
        Check::RougeN(it) => {
            if !(1..=4).contains(&it.n) {
                faults.add(format!("{at}/n"), "must be from 1 to 4");
            }
            (it.value.is_some(), it.any_of.as_ref(), it.min)
        }
        Check::Bleu(it) => (it.value.is_some(), it.any_of.as_ref(), it.min),
        Check::Similar(it) => {
            let bytes: usize = it.references().map(str::len).sum();
            if it.references().count() > MAX_REFERENCES || bytes > MAX_REFERENCE_BYTES {
                faults.add(
                    at,
                    format!(
                        "compares with more than {MAX_REFERENCES} texts or {MAX_REFERENCE_BYTES} \
                         bytes"
                    ),
                );
            }
            if it.references().any(|text| text.trim().is_empty()) {
                faults.add(at, "compares with an empty text");
            }
            (it.value.is_some(), it.any_of.as_ref(), it.min)
        }
        _ => return,
    };
    one_of(has_value, any_of.map(Vec::len), at, faults);
    check_score(min, at, "min", faults);
}

fn check_combined(assertions: &[Assertion], at: &str, faults: &mut Faults) {
    let weights: f64 = assertions.iter().map(|it| it.weight).sum();
    if weights <= 0.0 {
        faults.add(
            format!("{at}/assertions"),
            "needs an assertion with a `weight` above 0",
        );
    } else {
        check_without_baseline(assertions.iter(), at, faults);
    }
}

/// Something must count in a run without a baseline, which leaves some assertions out.
fn check_without_baseline<'a>(
    mut assertions: impl Iterator<Item = &'a Assertion>,
    at: &str,
    faults: &mut Faults,
) {
    if !assertions.any(|it| it.weight > 0.0 && !it.check.needs_baseline()) {
        faults.add(
            format!("{at}/assertions"),
            "has only assertions that a run without a baseline leaves out; add another one with \
             a `weight` above 0",
        );
    }
}

/// `value` or `anyOf`, not both.
fn one_of(has_value: bool, any_of: Option<usize>, at: &str, faults: &mut Faults) {
    match (has_value, any_of) {
        (true, None) => {}
        (false, Some(1..)) => {}
        (true, Some(_)) => faults.add(
            at,
            "has both `value` and `anyOf`; move the value into `anyOf`",
        ),
        (false, Some(0)) => faults.add(format!("{at}/anyOf"), "is empty; list the accepted values"),
        (false, None) => faults.add(at, "needs `value`, or `anyOf` with several accepted values"),
    }
}

fn check_operator(operator: Operator, value: Option<&Value>, at: &str, faults: &mut Faults) {
    let place = format!("{at}/value");
    match (operator, value) {
        (Operator::Exists, Some(_)) => {
            faults.add(
                place,
                "is not used by `exists`; name another `operator`, or remove it",
            );
        }
        (Operator::Exists, None) => {}
        (_, None) => faults.add(
            at,
            format!("operator `{}` needs `value`", operator.as_str()),
        ),
        (Operator::Matches, Some(Value::String(pattern))) => {
            if let Err(reason) = compile(pattern, false) {
                faults.add(place, reason);
            }
        }
        (Operator::Matches, Some(_)) => faults.add(place, "must be a regular expression"),
        (_, Some(value)) if operator.is_order() && !value.is_number() => {
            faults.add(
                place,
                format!("must be a number for `{}`", operator.as_str()),
            );
        }
        _ => {}
    }
}

fn check_number(it: &super::checks::Number, at: &str, faults: &mut Faults) {
    if it.equals.is_none() && it.min.is_none() && it.max.is_none() {
        faults.add(at, "needs `equals`, `min` or `max`");
    }
    let tolerances = [
        ("tolerance", it.tolerance),
        ("relativeTolerance", it.relative_tolerance),
    ];
    for (name, tolerance) in tolerances {
        let Some(tolerance) = tolerance else { continue };
        if tolerance < 0.0 {
            faults.add(format!("{at}/{name}"), "must be at least 0");
        }
        if it.equals.is_none() {
            faults.add(format!("{at}/{name}"), "needs `equals`");
        }
    }
    if let (Some(min), Some(max)) = (it.min, it.max)
        && min > max
    {
        faults.add(format!("{at}/max"), "is below `min`");
    }
}
