//! Checks events against `asyncapi.yaml`: no unknown type and no unknown member.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::openapi;
use super::schemas::{Schemas, faults};

struct Description {
    document: Value,
    schemas: Schemas,
    /// By type.
    events: HashMap<String, Event>,
}

struct Event {
    payload: Value,
    /// Validator of the whole entry, compiled on first use because there are many.
    entry: OnceLock<Arc<Validator>>,
}

static ASYNCAPI: LazyLock<Description> = LazyLock::new(|| {
    let document: Value = serde_saphyr::from_str(include_str!("../../../asyncapi.yaml")).unwrap();
    let types = document["components"]["schemas"]["RunEvent"]["allOf"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|part| part["oneOf"].as_array())
        .unwrap();
    let events = types
        .iter()
        .map(|one| {
            let kind = one["properties"]["type"]["const"].as_str().unwrap();
            let event = Event {
                payload: strict(one["properties"]["payload"].clone()),
                entry: OnceLock::new(),
            };
            (kind.to_owned(), event)
        })
        .collect();
    Description {
        schemas: Schemas::of(&document),
        document,
        events,
    }
});

/// The described event types.
pub fn types() -> impl Iterator<Item = &'static str> {
    ASYNCAPI.events.keys().map(String::as_str)
}

/// The schema with unknown members forbidden, although clients are asked to accept them.
fn strict(mut schema: Value) -> Value {
    schema["unevaluatedProperties"] = false.into();
    schema
}

fn event(kind: &str) -> &'static Event {
    let event = ASYNCAPI.events.get(kind);
    event.unwrap_or_else(|| panic!("asyncapi.yaml does not describe event {kind}"))
}

fn check(what: &str, validator: &Validator, data: &Value) {
    let faults = faults(validator, data);
    assert!(faults.is_empty(), "{what}: {faults:?} in {data}");
}

/// Fails unless a log entry is described.
pub fn check_event(document: &Value) {
    let kind = document["type"].as_str().unwrap();
    let event = event(kind);
    let entry = event.entry.get_or_init(|| {
        ASYNCAPI.schemas.compiled(&strict(json!({
            "allOf": [{"$ref": "#/components/schemas/Envelope"}],
            "properties": {"payload": event.payload},
        })))
    });
    check(kind, entry, document);
}

/// Fails unless the payload of an event is described.
pub fn check_payload(kind: &str, data: &Value) {
    let validator = ASYNCAPI.schemas.compiled(&event(kind).payload);
    check(kind, &validator, data);
}

/// Fails unless a frame is described.
pub fn check_frame(event: &str, data: &Value) {
    match event {
        "batch" => {
            let entries = data.as_array().unwrap();
            assert!(!entries.is_empty(), "an empty batch");
            for entry in entries {
                check_frame(entry["type"].as_str().unwrap(), entry);
            }
        }
        "run.annotated" => {
            check_message("runAnnotated", data);
            openapi::check_component("Annotation", &data["payload"]);
        }
        "state.snapshot" => {
            check_message("stateSnapshot", data);
            openapi::check_component("RunSnapshot", &data["payload"]);
        }
        _ => {
            assert_eq!(data["type"], event);
            check_event(data);
        }
    }
}

/// Fails unless a webhook delivery is described.
pub fn check_delivery(data: &Value) {
    check_message("webhookDelivery", data);
    check_event(&data["event"]);
}

/// Fails unless the verification request to a webhook's endpoint is described.
pub fn check_verification(data: &Value) {
    check_message("webhookVerification", data);
}

fn check_message(name: &str, data: &Value) {
    let payload = &ASYNCAPI.document["components"]["messages"][name]["payload"];
    check(name, &ASYNCAPI.schemas.compiled(payload), data);
}
