//! Checks responses against `openapi.yaml`: the status is listed for the operation, with that
//! status's headers and body.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};
use touchstone::http::openapi::read as read_contract;
use touchstone::http::operations;
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::error::spelled;

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

static OPENAPI: LazyLock<Description> = LazyLock::new(|| {
    let document = read_contract();
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
    Description {
        schemas: Schemas::of(&document),
        operations,
        document,
    }
});

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

pub fn document() -> &'static Value {
    &OPENAPI.document
}

/// The described operations.
pub fn described() -> Vec<(String, String)> {
    let mut described: Vec<_> = OPENAPI.operations.keys().cloned().collect();
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
fn documented(path: &str) -> Option<&'static str> {
    let templates = OPENAPI.operations.keys().map(|(_, template)| template);
    templates
        .filter(|template| fits(template, path))
        .min_by_key(|template| template.matches('{').count())
        .map(String::as_str)
}

/// The description of a response; `None` if there is none.
fn described_answer(
    method: &Method,
    path: &str,
    status: StatusCode,
) -> Option<(&'static Operation, &'static Answer)> {
    let path = path.split('?').next().unwrap().replace("%3A", ":");
    let Some(template) = documented(&path) else {
        let mut routes = operations().into_iter().filter(|o| !o.described);
        assert!(
            status.as_u16() >= 400 || routes.any(|route| fits(route.path, &path)),
            "{method} {path} is served but not described"
        );
        return None;
    };
    let Some(operation) = OPENAPI
        .operations
        .get(&(method.to_string(), template.to_owned()))
    else {
        assert_eq!(status, 405, "{method} {template} is not described");
        return None;
    };
    let answer = operation.answers.get(&status.as_u16()).unwrap_or_else(|| {
        let id = &operation.id;
        panic!("{id} ({method} {template}) answers {status}, which it does not list")
    });
    Some((operation, answer))
}

/// Fails unless the status and headers of a response are described.
pub fn check_head(method: &Method, path: &str, status: StatusCode, headers: &HeaderMap) {
    if let Some(path) = path_of_v1(path, headers) {
        head(method, &path, status, headers);
    }
}

/// The path under which the description of major 1 has an answer; `None` for an answer of another
/// major.
fn path_of_v1(path: &str, headers: &HeaderMap) -> Option<String> {
    let version = headers
        .get("openwop-version")
        .map(|it| it.to_str().unwrap());
    let is_versioned = path.starts_with("/v1/") || path.starts_with("/.well-known/");
    match version {
        None => Some(path.to_owned()),
        Some("1.0") if is_versioned => Some(path.to_owned()),
        Some("1.0") => Some(format!("/v1{path}")),
        Some(_) => None,
    }
}

/// Fails unless an error of major 2 is the closed envelope.
fn check_envelope_of_v2(status: StatusCode, body: &Value) {
    let members = body.as_object().unwrap();
    let known = ["error", "message", "details"];
    assert!(
        members.keys().all(|it| known.contains(&it.as_str())),
        "{body}"
    );
    assert!(
        body["message"].as_str().is_some_and(|it| !it.is_empty()),
        "{body}"
    );
    let mut codes = ErrorCode::ALL.iter().map(|it| spelled(Major::V2, *it));
    let found = (body["error"].as_str().unwrap(), status.as_u16());
    assert!(codes.any(|it| it == found), "{found:?}");
}

fn head(
    method: &Method,
    path: &str,
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
    let (operation, answer) = described_answer(method, path, status)?;
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
        let faults = faults(&OPENAPI.schemas.compiled(schema), &value);
        assert!(faults.is_empty(), "{what} {name}: {faults:?}");
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

/// Fails unless a complete response is described.
pub fn check(
    method: &Method,
    path: &str,
    (status, headers, body): (StatusCode, &HeaderMap, &[u8]),
) {
    let json = || -> Value { serde_json::from_slice(body).unwrap() };
    let Some(path) = path_of_v1(path, headers) else {
        if status.as_u16() >= 400 && method != Method::HEAD {
            check_envelope_of_v2(status, &json());
        }
        return;
    };
    let path = path.as_str();
    let described = head(method, path, status, headers);
    if status.as_u16() >= 400 {
        let envelope = match path.starts_with("/api/v1/") {
            true => "AaafError",
            false => "Error",
        };
        check_component(envelope, &json());
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
    let schema = &answer.bodies["application/json"];
    let faults = faults(&OPENAPI.schemas.compiled(schema), &body);
    assert!(faults.is_empty(), "{what}: {faults:?}");
    if status.is_success() && ["streamEvents", "pollEvents"].contains(&operation.id.as_str()) {
        body["events"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(asyncapi::check_event);
    }
}

/// Fails unless a value conforms to the named schema.
pub fn check_component(name: &str, value: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    let faults = faults(&OPENAPI.schemas.compiled(&schema), value);
    assert!(faults.is_empty(), "{name}: {faults:?}");
}
