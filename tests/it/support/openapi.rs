//! Checks responses against the description of their major, `openapi.yaml` or `openapi-v2.yaml`: the
//! status is listed for the operation, with that status's headers and body.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};
use touchstone::http::openapi::read as read_contract;
use touchstone::http::operations_of;
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::error::spelled;
use touchstone_openwop::wire::operation::{is_operation, routed};

use super::asyncapi;
use super::schemas::{Schemas, faults};

struct Answer {
    /// Schemas by media type; empty for a response without a body.
    bodies: Map<String, Value>,
    /// Schemas by name, and whether the header is required.
    headers: Vec<(String, bool, Value)>,
}

struct Operation {
    id: String,
    answers: HashMap<u16, Answer>,
}

struct Description {
    document: Value,
    schemas: Schemas,
    /// By method and documented path.
    operations: HashMap<(String, String), Operation>,
}

static OF_V1: LazyLock<Description> = LazyLock::new(|| Description::of(Major::V1));
static OF_V2: LazyLock<Description> = LazyLock::new(|| Description::of(Major::V2));

fn description(major: Major) -> &'static Description {
    match major {
        Major::V1 => &OF_V1,
        Major::V2 => &OF_V2,
    }
}

impl Description {
    fn of(major: Major) -> Self {
        let document = read_contract(major);
        let mut operations = HashMap::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Some(responses) = operation.get("responses") else {
                    continue;
                };
                let answers = responses.as_object().unwrap().iter();
                let answers = answers.map(|(status, response)| {
                    let status = status.parse().expect("answers are listed by status");
                    (status, answer(&document, resolve(&document, response)))
                });
                let described = Operation {
                    id: operation["operationId"].as_str().unwrap().to_owned(),
                    answers: answers.collect(),
                };
                operations.insert((method.to_uppercase(), path.clone()), described);
            }
        }
        Self {
            schemas: Schemas::of(&document),
            operations,
            document,
        }
    }

    /// Fails unless a value conforms to a schema of the description.
    fn check(&self, what: &str, schema: &Value, value: &Value) {
        let faults = faults(&self.schemas.compiled(schema), value);
        assert!(faults.is_empty(), "{what}: {faults:?}");
    }
}

fn answer(document: &Value, response: &Value) -> Answer {
    let members = |name: &str| response.get(name).and_then(Value::as_object);
    let bodies = members("content").into_iter().flatten();
    let headers = members("headers").into_iter().flatten();
    Answer {
        bodies: bodies
            .map(|(kind, media)| (kind.clone(), media["schema"].clone()))
            .collect(),
        headers: headers
            .map(|(name, header)| {
                let header = resolve(document, header);
                let required = header.get("required").is_some_and(|r| r == true);
                (name.clone(), required, header["schema"].clone())
            })
            .collect(),
    }
}

fn resolve<'a>(document: &'a Value, node: &'a Value) -> &'a Value {
    match node.get("$ref").and_then(Value::as_str) {
        Some(reference) => document
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{reference} does not resolve")),
        None => node,
    }
}

pub fn document(major: Major) -> &'static Value {
    &description(major).document
}

/// The described operations: methods, paths and ids.
pub fn described(major: Major) -> Vec<(String, String, String)> {
    let operations = description(major).operations.iter();
    let mut described: Vec<_> = operations
        .map(|((method, path), operation)| (method.clone(), path.clone(), operation.id.clone()))
        .collect();
    described.sort_unstable();
    described
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template
            .iter()
            .zip(&path)
            .all(|(part, given)| match part.split_once('}') {
                Some((_, suffix)) if part.starts_with('{') => {
                    given.ends_with(suffix) && (!suffix.is_empty() || !given.contains(':'))
                }
                _ => part == given,
            })
}

/// The documented path that matches a concrete one; the one with the fewest parameters wins.
fn documented(major: Major, path: &str) -> Option<&'static str> {
    let operations = &description(major).operations;
    let templates = operations.keys().map(|(_, template)| template);
    templates
        .filter(|template| fits(template, path))
        .min_by_key(|template| template.matches('{').count())
        .map(String::as_str)
}

/// The description of a response; `None` if there is none.
fn described_answer(
    method: &Method,
    (major, path): (Major, &str),
    status: StatusCode,
) -> Option<(&'static Operation, &'static Answer)> {
    let path = path.split('?').next().unwrap().replace("%3A", ":");
    let Some(template) = documented(major, &path) else {
        let mut routes = operations_of(Major::V1)
            .into_iter()
            .filter(|o| !o.described);
        let mut is_undescribed = || major == Major::V1 && routes.any(|it| fits(it.path, &path));
        assert!(
            status.as_u16() >= 400 || is_undescribed(),
            "{method} {path} is served but not described"
        );
        return None;
    };
    let Some(operation) = description(major)
        .operations
        .get(&(method.to_string(), template.to_owned()))
    else {
        let refusals = match major {
            Major::V1 => [404, 405],
            // It has no code for a wrong method; the version is judged first.
            Major::V2 => [404, 406],
        };
        assert!(
            refusals.contains(&status.as_u16()),
            "{method} {template} is not described and answers {status}"
        );
        return None;
    };
    let answer = operation.answers.get(&status.as_u16()).unwrap_or_else(|| {
        let id = &operation.id;
        panic!("{id} ({method} {template}) answers {status}, which it does not list")
    });
    Some((operation, answer))
}

/// The major of an answer, and its path in the description of that major.
fn place(path: &str, headers: &HeaderMap) -> (Major, String) {
    let version = headers
        .get("openwop-version")
        .map(|it| it.to_str().unwrap());
    let bare = path.split('?').next().unwrap();
    let of_v1 = bare.strip_prefix("/v1");
    if of_v1.is_some_and(|it| is_operation(Major::V1, it)) {
        assert!(version.is_some(), "{path}: no `OpenWOP-Version`");
    }
    if is_operation(Major::V2, bare) {
        assert!(version.is_some(), "{path}: no `OpenWOP-Version`");
    }
    let is_of_host = path.starts_with("/v1/host/touchstone/") || path.starts_with("/api/v1/");
    assert!(
        !is_of_host || version.is_none(),
        "{path}: a route of the host has no major"
    );
    match version {
        None => (Major::V1, routed(bare).unwrap_or_else(|| path.to_owned())),
        Some("1.0") if of_v1.is_some() || path.starts_with("/.well-known/") => {
            (Major::V1, path.to_owned())
        }
        Some("1.0") => (Major::V1, format!("/v1{path}")),
        Some(version) => {
            assert_eq!(version, "2.0");
            (Major::V2, path.to_owned())
        }
    }
}

/// Fails unless the status and headers of a response are described.
pub fn check_head(method: &Method, path: &str, status: StatusCode, headers: &HeaderMap) {
    let (major, path) = place(path, headers);
    head(method, (major, &path), status, headers);
}

fn head(
    method: &Method,
    (major, path): (Major, &str),
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<(&'static Operation, &'static Answer)> {
    for header in ["x-request-id", "x-content-type-options", "cache-control"] {
        assert!(headers.contains_key(header), "{method} {path}: no {header}");
    }
    let kind = headers
        .get("content-type")
        .map(|kind| kind.to_str().unwrap());
    if status.as_u16() >= 400 {
        assert_eq!(kind, Some("application/json"), "{method} {path} {status}");
    }
    let (operation, answer) = described_answer(method, (major, path), status)?;
    let what = format!("{} {status}", operation.id);
    for (name, required, schema) in &answer.headers {
        let Some(value) = headers.get(name) else {
            assert!(!required, "{what} has no {name}");
            continue;
        };
        let text = value.to_str().unwrap();
        let value = match text.parse::<u64>() {
            Ok(number) if schema["type"] == "integer" => json!(number),
            _ => json!(text),
        };
        description(major).check(&format!("{what} {name}"), schema, &value);
    }
    let essence = kind.map(|kind| kind.split(';').next().unwrap());
    assert!(
        essence.map_or(answer.bodies.is_empty(), |kind| answer
            .bodies
            .contains_key(kind)),
        "{what} is {kind:?}"
    );
    Some((operation, answer))
}

/// The schema of an error that an operation may not describe.
fn envelope(major: Major, path: &str) -> &'static str {
    match major {
        Major::V1 if path.starts_with("/api/v1/") => "AaafError",
        Major::V1 | Major::V2 => "Error",
    }
}

/// Fails unless a code of major 2 has its status.
fn check_code_of_v2(status: StatusCode, body: &Value) {
    let mut codes = ErrorCode::ALL.iter().map(|it| spelled(Major::V2, *it));
    let found = (body["error"].as_str().unwrap(), status.as_u16());
    assert!(codes.any(|it| it == found), "{found:?}");
}

/// Fails unless a complete response is described.
pub fn check(
    method: &Method,
    path: &str,
    (status, headers, body): (StatusCode, &HeaderMap, &[u8]),
) {
    let json = || -> Value { serde_json::from_slice(body).unwrap() };
    let (major, path) = place(path, headers);
    let path = path.as_str();
    let described = head(method, (major, path), status, headers);
    if status.as_u16() >= 400 && method != Method::HEAD {
        let body = json();
        check_component_of(major, envelope(major, path), &body);
        if major == Major::V2 {
            check_code_of_v2(status, &body);
        }
    }
    let Some((operation, answer)) = described else {
        return;
    };
    let what = format!("{} {status}", operation.id);
    if answer.bodies.is_empty() {
        assert!(body.is_empty(), "{what} has a body");
        return;
    }
    // Another test compares compressed responses with uncompressed ones.
    if headers["content-type"] != "application/json" || headers.contains_key("content-encoding") {
        return;
    }
    let body = json();
    description(major).check(&what, &answer.bodies["application/json"], &body);
    if status.is_success() {
        for event in events(&operation.id, &body) {
            asyncapi::check_event_of(major, event);
        }
    }
}

/// The entries of logs in an answer. The description of the operation leaves them open.
fn events<'a>(operation: &str, body: &'a Value) -> Vec<&'a Value> {
    let members = |name: &str| body[name].as_array().into_iter().flatten();
    match operation {
        "streamEvents" | "pollEvents" | "pollRunEvents" => members("events").collect(),
        "diffRun" => members("eventDiffs")
            .flat_map(|it| [it.get("aEvent"), it.get("bEvent")])
            .flatten()
            .collect(),
        _ => Vec::new(),
    }
}

/// Fails unless a value conforms to the named schema.
pub fn check_component(name: &str, value: &Value) {
    check_component_of(Major::V1, name, value);
}

/// The same, in the description of a major.
pub fn check_component_of(major: Major, name: &str, value: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    description(major).check(name, &schema, value);
}
