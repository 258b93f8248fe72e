//! Checks events against the description of their major, `asyncapi.yaml` or `asyncapi-v2.yaml`: no
//! unknown type and no unknown member.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use jsonschema::Validator;
use serde_json::Value;
use touchstone_openwop::wire::Major;

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

static OF_V1: LazyLock<Description> =
    LazyLock::new(|| Description::of(include_str!("../../../asyncapi.yaml")));
static OF_V2: LazyLock<Description> =
    LazyLock::new(|| Description::of(include_str!("../../../asyncapi-v2.yaml")));

fn description(major: Major) -> &'static Description {
    match major {
        Major::V1 => &OF_V1,
        Major::V2 => &OF_V2,
    }
}

impl Description {
    fn of(yaml: &str) -> Self {
        let document: Value = serde_saphyr::from_str(yaml).unwrap();
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
        Self {
            schemas: Schemas::of(&document),
            document,
            events,
        }
    }

    fn event(&self, kind: &str) -> &Event {
        let event = self.events.get(kind);
        event.unwrap_or_else(|| panic!("event {kind} is not described"))
    }

    fn check_message(&self, name: &str, data: &Value) {
        let payload = &self.document["components"]["messages"][name]["payload"];
        check(name, &self.schemas.compiled(payload), data);
    }
}

pub fn document(major: Major) -> &'static Value {
    &description(major).document
}

/// The described event types.
pub fn types(major: Major) -> impl Iterator<Item = &'static str> {
    description(major).events.keys().map(String::as_str)
}

/// The schema with unknown members forbidden, although clients are asked to accept them.
fn strict(mut schema: Value) -> Value {
    schema["unevaluatedProperties"] = false.into();
    schema
}

fn check(what: &str, validator: &Validator, data: &Value) {
    let faults = faults(validator, data);
    assert!(faults.is_empty(), "{what}: {faults:?} in {data}");
}

/// Fails unless a log entry is described.
pub fn check_event(document: &Value) {
    check_event_of(Major::V1, document);
}

/// The same, in the description of a major.
pub fn check_event_of(major: Major, document: &Value) {
    let kind = document["type"].as_str().unwrap();
    let description = description(major);
    let event = description.event(kind);
    let entry = event.entry.get_or_init(|| {
        // The envelope has a payload of any form.
        let mut envelope = description.document["components"]["schemas"]["Envelope"].clone();
        envelope["properties"]["payload"] = event.payload.clone();
        description.schemas.compiled(&strict(envelope))
    });
    check(kind, entry, document);
}

/// Fails unless the payload of an event is described.
pub fn check_payload(kind: &str, data: &Value) {
    let description = description(Major::V1);
    let validator = description
        .schemas
        .compiled(&description.event(kind).payload);
    check(kind, &validator, data);
}

/// Fails unless a frame is described.
pub fn check_frame(major: Major, event: &str, data: &Value) {
    match (major, event) {
        (_, "batch") => {
            let entries = data.as_array().unwrap();
            assert!(!entries.is_empty(), "an empty batch");
            for entry in entries {
                check_frame(major, entry["type"].as_str().unwrap(), entry);
            }
        }
        (_, "run.annotated") => {
            description(major).check_message("runAnnotated", data);
            openapi::check_component_of(major, "Annotation", &data["payload"]);
        }
        (Major::V1, "state.snapshot") => {
            description(major).check_message("stateSnapshot", data);
            openapi::check_component("RunSnapshot", &data["payload"]);
        }
        (Major::V2, "state.snapshot") => {
            description(major).check_message("stateSnapshot", data);
            openapi::check_component_of(major, "RunSnapshot", data);
        }
        (Major::V2, "ai.message.chunk") => description(major).check_message("messageChunk", data),
        // In a mixed mode, the frame names the mode that admits the entry.
        (Major::V2, "updates" | "messages" | "debug") => check_event_of(major, data),
        _ => {
            assert_eq!(data["type"], event);
            check_event_of(major, data);
        }
    }
}

/// Fails unless a webhook delivery is described.
pub fn check_delivery(data: &Value) {
    description(Major::V1).check_message("webhookDelivery", data);
    check_event(&data["event"]);
}

/// Fails unless the verification request to a webhook's endpoint is described.
pub fn check_verification(data: &Value) {
    description(Major::V1).check_message("webhookVerification", data);
}
