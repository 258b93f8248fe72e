//! Every answer is as `openapi.yaml` says, every frame as `asyncapi.yaml` says.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::host::Reply;

struct Answer {
    /// By media type; empty for an answer without a body.
    bodies: HashMap<String, Validator>,
}

struct Description {
    document: Value,
    /// By method, documented path and status.
    answers: HashMap<(String, String, String), Answer>,
}

static OPENAPI: LazyLock<Description> = LazyLock::new(|| {
    let document: Value = serde_saphyr::from_str(include_str!("../../../openapi.yaml")).unwrap();
    let mut answers = HashMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(responses) = operation.get("responses") else {
                continue;
            };
            for (status, response) in responses.as_object().unwrap() {
                let response = resolve(&document, response);
                let bodies = response
                    .get("content")
                    .and_then(Value::as_object)
                    .unwrap_or(&Map::new())
                    .iter()
                    .map(|(kind, media)| (kind.clone(), compile(&document, &media["schema"])))
                    .collect();
                answers.insert(
                    (method.to_uppercase(), path.clone(), status.clone()),
                    Answer { bodies },
                );
            }
        }
    }
    Description { document, answers }
});

static ENVELOPE: LazyLock<Validator> =
    LazyLock::new(|| compile(openapi(), &json!({"$ref": "#/components/schemas/Error"})));

static FRAMES: LazyLock<HashMap<&'static str, Validator>> = LazyLock::new(|| {
    let document: Value = serde_saphyr::from_str(include_str!("../../../asyncapi.yaml")).unwrap();
    [
        "runEvent",
        "batch",
        "runAnnotated",
        "stateSnapshot",
        "webhookDelivery",
        "webhookVerification",
    ]
    .into_iter()
    .map(|name| {
        let payload = &document["components"]["messages"][name]["payload"];
        (name, compile(&document, payload))
    })
    .collect()
});

fn resolve<'a>(document: &'a Value, node: &'a Value) -> &'a Value {
    match node.get("$ref").and_then(Value::as_str) {
        Some(reference) => document
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => node,
    }
}

/// A schema with the document's components beside it, so that its references lead somewhere.
fn compile(document: &Value, schema: &Value) -> Validator {
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "components": {"schemas": document["components"]["schemas"]},
        "allOf": [schema],
    });
    jsonschema::validator_for(&whole).unwrap()
}

/// The document itself.
pub fn openapi() -> &'static Value {
    &OPENAPI.document
}

/// The operations it describes.
pub fn described() -> Vec<(String, String)> {
    let mut described: Vec<_> = OPENAPI
        .answers
        .keys()
        .map(|(method, path, _)| (method.clone(), path.clone()))
        .collect();
    described.sort_unstable();
    described.dedup();
    described
}

/// The documented path that a concrete one belongs to; the one with the fewest parameters counts.
fn documented(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap().replace("%3A", ":");
    let fits = |template: &str| {
        let (a, b): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        a.len() == b.len()
            && a.iter()
                .zip(&b)
                .all(|(part, given)| match part.split_once('}') {
                    Some((_, suffix)) if part.starts_with('{') => {
                        given.ends_with(suffix) && (!suffix.is_empty() || !given.contains(':'))
                    }
                    _ => part == given,
                })
    };
    let mut found: Vec<&String> = OPENAPI
        .answers
        .keys()
        .map(|(_, template, _)| template)
        .filter(|template| fits(template))
        .collect();
    found.sort_by_key(|template| template.matches('{').count());
    found.first().map(|template| (*template).clone())
}

/// Fails unless the answer is described.
pub fn check(method: &Method, path: &str, reply: &Reply) {
    for header in ["x-request-id", "x-content-type-options", "cache-control"] {
        assert!(
            reply.headers.contains_key(header),
            "{method} {path}: no {header}"
        );
    }
    let status = reply.status.as_u16();
    if status >= 400 {
        let errors: Vec<String> = ENVELOPE
            .iter_errors(&reply.json())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{method} {path} {status}: {errors:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let Some(template) = documented(path) else {
        assert!(status >= 400, "{method} {path} is served and not described");
        return;
    };
    let key = |status: &str| (method.to_string(), template.clone(), status.to_owned());
    let answers = &OPENAPI.answers;
    let answer = answers
        .get(&key(&status.to_string()))
        .or_else(|| answers.get(&key("default")).filter(|_| status >= 400));
    let Some(answer) = answer else {
        assert_eq!(
            status, 405,
            "{method} {template} answers {status}, which is not described"
        );
        return;
    };
    if answer.bodies.is_empty() {
        assert!(
            reply.body.is_empty(),
            "{method} {template} {status} has a body"
        );
        return;
    }
    let kind = reply.header("content-type").unwrap();
    let essence = kind.split(';').next().unwrap();
    let validator = answer
        .bodies
        .get(essence)
        .unwrap_or_else(|| panic!("{method} {template} {status} answers {kind}"));
    if essence == "application/json" {
        let body = reply.json();
        let errors: Vec<String> = validator
            .iter_errors(&body)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{method} {template} {status}: {errors:?}"
        );
    }
}

/// Fails unless a webhook delivery is described.
pub fn check_delivery(data: &Value) {
    check_message("webhookDelivery", data);
}

/// Fails unless the question to a webhook's endpoint is described.
pub fn check_verification(data: &Value) {
    check_message("webhookVerification", data);
}

fn check_message(name: &str, data: &Value) {
    let errors: Vec<String> = FRAMES[name]
        .iter_errors(data)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
}

/// Fails unless a frame is described.
pub fn check_frame(event: &str, data: &Value) {
    let name = match event {
        "batch" => "batch",
        "run.annotated" => "runAnnotated",
        "state.snapshot" => "stateSnapshot",
        _ => "runEvent",
    };
    let errors: Vec<String> = FRAMES[name]
        .iter_errors(data)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{event}: {errors:?}");
    if name == "runEvent" {
        assert_eq!(data["type"], event);
    }
}
