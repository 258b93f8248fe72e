//! The discovery document of each major.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use touchstone_host::http::HttpSettings;
use touchstone_openwop::wire::version::{Majors, Offered};

use crate::http::majors::{VERSION, serving};
use crate::http::support::host::{Reply, TestHost};
use crate::support::reference::shared;

const DISCOVERY: &str = "/.well-known/openwop";

async fn reply(host: &TestHost, version: Option<&str>) -> Reply {
    let call = host.request(Method::GET, DISCOVERY).anonymous();
    let call = match version {
        Some(version) => call.header(VERSION, version),
        None => call,
    };
    let reply = call.send().await;
    assert_eq!(reply.status, StatusCode::OK);
    reply
}

async fn document(host: &TestHost, version: Option<&str>) -> Value {
    reply(host, version).await.json()
}

fn tested(majors: Majors) -> HttpSettings {
    HttpSettings {
        conformance: true,
        ..serving(majors)
    }
}

/// The families: what is neither metadata nor absent.
fn records(document: &Value) -> Map<String, Value> {
    let members = document.as_object().unwrap().clone().into_iter();
    members
        .filter(|(_, it)| it.get("since").is_some())
        .collect()
}

#[tokio::test]
async fn both_documents_name_the_versions_of_the_host() {
    let host = TestHost::with(serving(Majors::Both)).await;
    for version in [None, Some("1.0"), Some("2.0")] {
        let document = document(&host, version).await;
        assert_eq!(document["protocolVersions"], json!(["1.0", "2.0"]));
        assert_eq!(document["preferredVersion"], "1.0");
        assert_eq!(document["protocolVersion"], "1.0");
        assert_eq!(document.get("minClientVersion"), None);
    }
    let host = TestHost::with(serving(Majors::V2)).await;
    for version in [None, Some("2.0")] {
        let document = document(&host, version).await;
        assert_eq!(document["protocolVersions"], json!(["2.0"]));
        assert_eq!(document["preferredVersion"], "2.0");
        assert_eq!(document["protocolVersion"], "2.0");
    }
}

#[tokio::test]
async fn the_oldest_client_is_named_under_major_2() {
    let host = TestHost::with(HttpSettings {
        protocol: Offered {
            majors: Majors::Both,
            min_client: Some((2, 40)),
        },
        ..HttpSettings::default()
    })
    .await;
    let in_v2 = document(&host, Some("2")).await;
    assert_eq!(in_v2["minClientVersion"], "2.40");
    assert_eq!(document(&host, None).await.get("minClientVersion"), None);
}

/// What one major offers, the other offers too, in its own form.
#[tokio::test]
async fn both_documents_are_made_of_the_same_facts() {
    for settings in [serving(Majors::Both), tested(Majors::Both)] {
        let host = TestHost::with(settings).await;
        let (v1, v2) = (
            document(&host, Some("1")).await,
            document(&host, Some("2")).await,
        );
        let equal = [
            ("/implementation", "/implementation"),
            ("/engineVersion", "/engineVersion"),
            ("/eventLogSchemaVersion", "/eventLogSchemaVersion"),
            ("/compliance", "/compliance"),
            ("/supportedEnvelopes", "/supportedEnvelopes/kinds"),
            ("/schemaVersions", "/schemaVersions/kinds"),
            ("/replay/modes", "/replay/modes"),
            ("/webhooks/secretRotation", "/webhooks/secretRotation"),
            (
                "/webhooks/signatureAlgorithms",
                "/webhooks/signatureAlgorithms",
            ),
        ];
        for (in_v1, in_v2) in equal {
            assert_eq!(v1.pointer(in_v1), v2.pointer(in_v2), "{in_v2}");
            assert!(v1.pointer(in_v1).is_some(), "{in_v1}");
        }
        assert_eq!(v1.get("fixtures"), v2.get("fixtures"));
        assert_eq!(v1.get("testing"), v2.get("testing"));
        // The members of these objects are the same, apart from what each major adds.
        let added = [
            "supported",
            "status",
            "since",
            "until",
            "witness",
            "hashChain",
            "baselineSelection",
            "recordedFixtures",
        ];
        for (in_v1, in_v2) in [
            ("/limits", "/limits"),
            ("/agents/manifestRuntime", "/agents/manifestRuntime"),
            ("/agents/liveRuntime", "/agents/liveRuntime"),
            ("/agents/evalSuite", "/agents/evalSuite"),
            ("/agents/deployment", "/agents/deployment"),
            ("/authorization", "/authorization"),
            ("/auth/auditLogIntegrity", "/auditLogIntegrity"),
            ("/providerUsage", "/providerUsage"),
            ("/budget", "/budget"),
            ("/feedback", "/feedback"),
        ] {
            let facts = |document: &Value, pointer: &str| {
                let members = document.pointer(pointer).unwrap().as_object().unwrap();
                let mut members = members.clone();
                members.retain(|name, _| !added.contains(&name.as_str()));
                members
            };
            assert_eq!(facts(&v1, in_v1), facts(&v2, in_v2), "{in_v2}");
        }
    }
}

#[tokio::test]
async fn each_document_has_a_tag_of_its_own() {
    let host = TestHost::with(serving(Majors::Both)).await;
    let (v1, v2) = (reply(&host, Some("1")).await, reply(&host, Some("2")).await);
    assert!(v1.header("capabilities-etag").is_some());
    assert_eq!(v2.header("capabilities-etag"), None);
    assert_ne!(v1.header("etag"), v2.header("etag"));
    let tag = v2.header("etag").unwrap();
    let call = host.request(Method::GET, DISCOVERY).header(VERSION, "2");
    let again = call.header("if-none-match", tag).send().await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let call = host.request(Method::GET, DISCOVERY).header(VERSION, "1");
    let other = call.header("if-none-match", tag).send().await;
    assert_eq!(other.status, StatusCode::OK);
}

#[tokio::test]
async fn a_live_key_does_not_see_what_only_test_keys_can_use() {
    let host = TestHost::with(tested(Majors::Both)).await;
    let test_key = host.issue(|issue| issue.test = true).await;
    for version in ["1", "2"] {
        let read = |key: &str| {
            let call = host
                .request(Method::GET, DISCOVERY)
                .header(VERSION, version);
            let call = call.key(key);
            async move { call.send().await }
        };
        assert_eq!(read(&host.key).await.json().get("testing"), None);
        assert!(read(&test_key).await.json().get("testing").is_some());
    }
}

/// A host must not advertise families whose date has passed: a release moves it.
#[tokio::test]
async fn experimental_families_stay_as_they_are_for_a_quarter() {
    let host = TestHost::with(serving(Majors::Both)).await;
    let least = Timestamp::now().to_zoned(TimeZone::UTC).date() + 90.days();
    let records = records(&document(&host, Some("2")).await);
    let until = records.values().filter_map(|it| it["until"].as_str());
    let until: BTreeSet<Date> = until.map(|it| it.parse().unwrap()).collect();
    assert!(!until.is_empty());
    assert!(until.iter().all(|it| *it >= least), "{until:?}");
}

/// Names, witnesses and required facets of families are OpenWOP's.
#[tokio::test]
async fn families_follow_the_declaration() {
    let Some(file) = shared("openwop/v2/capabilities.json") else {
        return;
    };
    let declared: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let names = |it: &Value| -> BTreeSet<String> {
        let names = it.as_array().unwrap().iter();
        names.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let of_record = ["status", "since", "until", "witness"].map(str::to_owned);
    for settings in [serving(Majors::Both), tested(Majors::V2)] {
        let host = TestHost::with(settings).await;
        let document = document(&host, Some("2")).await;
        let records = records(&document);
        let metadata = names(&declared["metadataKeys"]);
        for name in document.as_object().unwrap().keys() {
            assert!(
                records.contains_key(name) || metadata.contains(name),
                "{name}"
            );
        }
        for (family, record) in &records {
            let declared = &declared["families"][family];
            assert_eq!(record["witness"], declared["witness"], "{family}");
            let is_stable = record["status"] == "stable";
            assert!(!is_stable || declared["maxStatus"] == "stable", "{family}");
            assert_eq!(record.get("until").is_none(), is_stable, "{family}");
            let given: BTreeSet<String> = record.as_object().unwrap().keys().cloned().collect();
            let mut known = names(&declared["facets"]);
            known.extend(of_record.clone());
            assert!(given.is_subset(&known), "{family}: {given:?}");
            assert!(
                names(&declared["requiredFacets"]).is_subset(&given),
                "{family}"
            );
        }
        let text = serde_json::to_string(&records).unwrap();
        assert!(!text.contains("\"supported\""));
        for family in ["interrupt", "replay", "webhooks", "idempotency", "eventLog"] {
            assert!(records.contains_key(family), "{family}");
        }
    }
}
