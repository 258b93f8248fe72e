//! Messages of the provider protocol: the host sends and accepts exactly what the contract defines.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use touchstone_oasis::wire::provider::{
    InjectStateRequest, ObservationResponse, ObserveRequest, ProvisionResponse, ProvisionStatus,
    StateSnapshotRequest, StateSnapshotResponse, StatusResponse, TeardownRequest, Trigger, read,
};

use super::provider::request;
use crate::support::reference::shared;

#[test]
fn optional_request_members_are_omitted() {
    let nothing = Map::new();
    let provision = serde_json::to_value(request(&[])).unwrap();
    assert_eq!(provision.get("value_containment"), None);
    let inject = InjectStateRequest {
        environment_id: "e",
        state: &[],
        trigger: None,
    };
    let expected = json!({"environment_id": "e", "state": []});
    assert_eq!(serde_json::to_value(inject).unwrap(), expected);
    let snapshot = StateSnapshotRequest {
        environment_id: "e",
        resources: &[],
    };
    let expected = json!({"environment_id": "e"});
    assert_eq!(serde_json::to_value(snapshot).unwrap(), expected);
    let observe = ObserveRequest {
        environment_id: "e",
        observation_type: "audit_log",
        parameters: &nothing,
    };
    let expected =
        json!({"environment_id": "e", "observation_type": "audit_log", "parameters": {}});
    assert_eq!(serde_json::to_value(observe).unwrap(), expected);
}

/// A member of a response: valid, missing, or one of these values.
fn member(
    name: &'static str,
    sound: Value,
) -> impl Strategy<Value = (&'static str, Option<Value>)> {
    let odd = vec![
        json!(null),
        json!(""),
        json!("error"),
        json!("ready"),
        json!(7),
        json!(true),
        json!([]),
        json!([{}]),
        json!({}),
        json!([{"value_ref": "a"}]),
        json!([{"value_ref": "", "literals": ["x"]}]),
        json!([{"value_ref": "a", "literals": []}]),
        json!([{"value_ref": "a", "literals": ["x", ""]}]),
        json!([{"kind": "a"}]),
        json!([{"kind": "a", "name": ""}]),
        json!({"token": ""}),
        json!({"token": null}),
        json!({"principal": 1}),
        json!({"principal": ""}),
        json!({"status": "available"}),
        json!({"type": "", "status": "available"}),
        json!({"type": "s", "status": "partial"}),
        json!({"type": "s", "status": 1}),
    ];
    prop_oneof![
        6 => Just((name, Some(sound))),
        1 => Just((name, None)),
        2 => prop::sample::select(odd).prop_map(move |value| (name, Some(value))),
    ]
}

fn document<const N: usize>(members: [(&'static str, Option<Value>); N]) -> Value {
    let there = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}

fn provisioned() -> impl Strategy<Value = Value> {
    (
        member("status", json!("ready")),
        member("error", json!("why")),
        member("environment_id", json!("e")),
        member("agent_endpoint", json!("/ops")),
        member("agent_credentials", json!({"token": "t", "principal": "p"})),
        member(
            "containment_values",
            json!([{"value_ref": "a", "literals": ["x"]}]),
        ),
    )
        .prop_map(|(a, b, c, d, e, f)| document([a, b, c, d, e, f]))
}

fn snapshot() -> impl Strategy<Value = Value> {
    (
        member("environment_id", json!("e")),
        member("timestamp", json!("t")),
        member("resources", json!([{"kind": "a", "name": "b", "more": 1}])),
    )
        .prop_map(|(a, b, c)| document([a, b, c]))
}

fn status() -> impl Strategy<Value = Value> {
    (
        member("status", json!("applied")),
        member("error", json!("why")),
    )
        .prop_map(|(a, b)| document([a, b]))
}

fn observation() -> impl Strategy<Value = Value> {
    (
        member("environment_id", json!("e")),
        member("observation_type", json!("audit_log")),
        member("timestamp", json!("t")),
        member("data", json!({"entries": []})),
        member(
            "evidence_source",
            json!({"type": "s", "status": "available"}),
        ),
    )
        .prop_map(|(a, b, c, d, e)| document([a, b, c, d, e]))
}

/// Whether a provisioning response follows its contract: the members of one without an environment
/// depend on the status.
fn provision_fits(answer: &Value) -> bool {
    read::<ProvisionResponse>(answer).is_ok_and(|it| {
        it.status == ProvisionStatus::Error
            || (it.environment_id.is_some()
                && it.agent_endpoint.is_some()
                && it.agent_credentials.is_some())
    })
}

/// Beyond its type, the adapter demands of an observation exactly what the schema demands: a
/// source, and one of the four statuses.
fn observation_fits(answer: &Value) -> bool {
    use touchstone_oasis::wire::provider::EvidenceStatus;
    read::<ObservationResponse>(answer).is_ok_and(|it| {
        let status = it.evidence_source.and_then(|source| source.0.status);
        status.is_some_and(|status| status != EvidenceStatus::Unknown)
    })
}

#[test]
fn provider_responses_are_accepted_exactly_as_the_reference_schema_does() {
    let Some(file) = shared("oasis/provider.schema.json") else {
        return;
    };
    let schema: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let compiled = |name: &str| {
        let reference = json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]});
        jsonschema::draft202012::new(&reference).unwrap()
    };
    type Fits = fn(&Value) -> bool;
    let cases: [(&str, BoxedStrategy<Value>, Fits); 4] = [
        ("provisionResponse", provisioned().boxed(), provision_fits),
        ("stateSnapshotResponse", snapshot().boxed(), |it| {
            read::<StateSnapshotResponse>(it).is_ok()
        }),
        ("statusResponse", status().boxed(), |it| {
            read::<StatusResponse>(it).is_ok()
        }),
        (
            "observationResponse",
            observation().boxed(),
            observation_fits,
        ),
    ];
    for (name, answers, fits) in cases {
        let validator = compiled(name);
        let seen = std::cell::Cell::new([0_u32; 2]);
        let config = ProptestConfig {
            cases: 2000,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        runner
            .run(&answers, |answer| {
                let expected = validator.is_valid(&answer);
                let mut counts = seen.get();
                counts[usize::from(expected)] += 1;
                seen.set(counts);
                prop_assert_eq!(fits(&answer), expected, "{}: {}", name, answer);
                Ok(())
            })
            .unwrap();
        let [refused, taken] = seen.get();
        assert!(refused > 100 && taken > 100, "{name}: {refused} {taken}");
    }
    let nothing = Map::new();
    let requests = [
        (
            "provisionRequest",
            serde_json::to_value(request(&["a"])).unwrap(),
        ),
        (
            "injectStateRequest",
            serde_json::to_value(InjectStateRequest {
                environment_id: "e",
                state: &[json!({"resource": "a/b"})],
                trigger: Some(Trigger::AfterFirstToolCall),
            })
            .unwrap(),
        ),
        (
            "stateSnapshotRequest",
            serde_json::to_value(StateSnapshotRequest {
                environment_id: "e",
                resources: &[json!({"kind": "a"})],
            })
            .unwrap(),
        ),
        (
            "observeRequest",
            serde_json::to_value(ObserveRequest {
                environment_id: "e",
                observation_type: "audit_log",
                parameters: &nothing,
            })
            .unwrap(),
        ),
    ];
    for (name, request) in requests {
        assert!(compiled(name).is_valid(&request), "{name}: {request}");
    }
    let teardown = TeardownRequest {
        environment_id: "e",
    };
    let expected = json!({"environment_id": "e"});
    assert_eq!(serde_json::to_value(teardown).unwrap(), expected);
}
