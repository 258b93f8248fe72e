//! `GET /v1/host/touchstone/runs/{runId}/attestation`, and its use without the host.

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_deployments::attestation::{
    EvalVerdict, Expected, PREDICATE_TYPE, Rejected, judge, read,
};
use touchstone_host::http::HttpSettings;
use touchstone_kit::hex::hex;
use touchstone_kit::ids::RunId;
use touchstone_kit::integrity;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_openwop::dsse::open;
use touchstone_openwop::in_toto::{Envelope, TEST_RESULT_TYPE};
use touchstone_runs::rules::eval::gate::GatePolicy;

use crate::http::support::host::{AGENT, Lab, SIGNING_KEY, SUITE, TestHost, create_body, says};

fn path(run: &RunId) -> String {
    format!("/v1/host/touchstone/runs/{run}/attestation")
}

fn key() -> PublicKey {
    SecretKey::from_random(SIGNING_KEY).public()
}

async fn attestations(host: &TestHost, run: &RunId, query: &str) -> Vec<Envelope> {
    let reply = host.get(&format!("{}{query}", path(run))).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    serde_json::from_value(reply.json()["attestations"].clone()).unwrap()
}

fn statement(envelope: &Envelope) -> Value {
    serde_json::from_slice(&open(envelope, &key()).unwrap()).unwrap()
}

/// The digest in in-toto's format.
fn in_hex(digest: &Value) -> Value {
    json!(hex(&integrity::parse(digest.as_str().unwrap()).unwrap()))
}

async fn evaluated(texts: &[&str]) -> (TestHost, RunId) {
    let host = TestHost::working(&says(texts)).await;
    let run = host.create().await;
    host.ended(&run).await;
    (host, run)
}

async fn verdict(host: &TestHost, run: &RunId) -> EvalVerdict {
    read(&attestations(host, run, "").await[0], &key()).unwrap()
}

#[tokio::test]
async fn an_attestation_names_the_agent_the_suite_and_the_result() {
    let (host, run) = evaluated(&["a", "wrong"]).await;
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
        .json();
    let attested = attestations(&host, &run, "").await;
    assert_eq!(attested.len(), 2);
    for envelope in &attested {
        assert_eq!(envelope.signatures[0].keyid, key().fingerprint());
    }

    let said = statement(&attested[0]);
    assert_eq!(said["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(said["predicateType"], PREDICATE_TYPE);
    let (agent, suite) = (
        in_hex(&report["agent"]["packIntegrity"]),
        in_hex(&report["suite"]["digest"]),
    );
    let subject = json!([
        {"name": format!("{AGENT}@1.0.0"), "digest": {"sha256": agent}},
        {"name": format!("{SUITE}@1.0.0"), "digest": {"sha256": suite}},
    ]);
    assert_eq!(said["subject"], subject);
    let predicate = &said["predicate"];
    let mut report = report.as_object().unwrap().clone();
    // The verdict of an attestation is the lenient one.
    report["verdict"] = report.remove("lenientVerdict").unwrap();
    for (member, value) in &report {
        assert_eq!(&predicate[member], value, "{member}");
    }
    assert_eq!(
        predicate["model"],
        json!({"class": "general", "provider": "bench", "name": "echo-1"})
    );
    assert_eq!(predicate["host"]["id"], "https://evals.example");
    for (member, path) in [
        ("summaryDigest", format!("/v1/runs/{run}/eval-summary")),
        (
            "statisticsDigest",
            format!("/v1/host/touchstone/runs/{run}/statistics"),
        ),
    ] {
        let served = host.get(&path).await.json();
        let canonical = serde_json_canonicalizer::to_vec(&served).unwrap();
        let digest = in_hex(&json!(integrity::of(&canonical)));
        assert_eq!(predicate[member]["sha256"], digest, "{member}");
    }

    let said = statement(&attested[1]);
    assert_eq!(said["predicateType"], TEST_RESULT_TYPE);
    assert_eq!(said["subject"], json!([subject[0]]));
    assert_eq!(said["predicate"]["result"], "FAILED");
    assert_eq!(said["predicate"]["configuration"], json!([subject[1]]));
    let failed = said["predicate"]["failedTests"].as_array().unwrap();
    let passed = said["predicate"]["passedTests"].as_array().unwrap();
    assert_eq!((failed.len(), passed.len()), (1, 1));
}

#[tokio::test]
async fn an_attestation_states_the_gate_in_force_and_its_policy() {
    let (host, run) = evaluated(&["a", "b"]).await;
    let set = json!({"channel": "stable", "policy": {"eval": {"requireSignedSuite": false, "minTasks": 3}}});
    host.post("/v1/host/touchstone/gates", &set).await;
    let gate = async |query: &str| {
        statement(&attestations(&host, &run, query).await[0])["predicate"]["gate"].clone()
    };
    let on = gate("?channel=stable").await;
    assert_eq!(on["channel"], "stable");
    assert_eq!(on["policy"]["minTasks"], 3);
    assert_eq!(on["allowed"], false);
    let conditions = |gate: &Value| -> Vec<String> {
        let unmet = gate["unmet"].as_array().unwrap();
        unmet
            .iter()
            .map(|it| it["condition"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(conditions(&on).contains(&"min-tasks".to_owned()), "{on}");
    let anywhere = gate("").await;
    assert_eq!(anywhere.get("channel"), None);
    assert!(
        conditions(&anywhere).contains(&"signed-suite".to_owned()),
        "{anywhere}"
    );

    let set = json!({"policy": {"eval": null}});
    host.post("/v1/host/touchstone/gates", &set).await;
    assert_eq!(gate("").await["allowed"], true);
}

#[tokio::test]
async fn an_inconclusive_run_has_no_test_result() {
    let (host, run) = evaluated(&["a", "unavailable"]).await;
    let attested = attestations(&host, &run, "").await;
    assert_eq!(attested.len(), 1);
    let predicate = &statement(&attested[0])["predicate"];
    assert_eq!(predicate["verdict"], "inconclusive");
    assert_eq!(predicate["gate"]["allowed"], false);
}

/// A trial of an experiment of two, to its end.
async fn trial(host: &TestHost, index: u32) -> RunId {
    let mut body = create_body();
    body["configurable"] = json!({"trial": {"experimentId": "exp-1", "index": index, "of": 2}});
    let created = host.post("/v1/runs", &body).await;
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    host.ended(&run).await;
    run
}

#[rstest]
#[case::of_the_run(1, 2)]
#[case::of_its_trials(3, 4)]
#[tokio::test]
async fn a_run_with_too_many_tasks_is_not_attested(#[case] most: usize, #[case] found: usize) {
    let lab = Lab {
        attested_tasks: most,
        ..Lab::default()
    };
    let host = TestHost::with_lab(HttpSettings::default(), lab).await;
    host.equip(&says(&["a", "b"])).await;
    host.work();
    let first = trial(&host, 1).await;
    if most >= 2 {
        // Without the other trial there is room.
        attestations(&host, &first, "").await;
    }
    trial(&host, 2).await;
    let reply = host.get(&path(&first)).await;
    assert_eq!(reply.status, StatusCode::CONFLICT, "{reply:?}");
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("{found} tasks")), "{message}");
    assert!(message.contains(&format!("at most {most};")), "{message}");
}

#[tokio::test]
async fn a_trial_is_attested_with_its_siblings_and_missing_trials() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let first = trial(&host, 1).await;
    let alone = attestations(&host, &first, "").await;
    assert_eq!(
        alone.len(),
        1,
        "a part of an experiment is not a test result"
    );
    let predicate = &statement(&alone[0])["predicate"];
    assert_eq!(predicate["missingTrials"], 1);
    assert_eq!(predicate.get("furtherTrials"), None);

    let second = trial(&host, 2).await;
    let both = attestations(&host, &first, "").await;
    assert_eq!(both.len(), 2);
    let predicate = &statement(&both[0])["predicate"];
    assert_eq!(predicate["runId"], json!(first));
    let further = predicate["furtherTrials"].as_array().unwrap();
    assert_eq!((further.len(), &further[0]["runId"]), (1, &json!(second)));
    assert_eq!(predicate.get("missingTrials"), None);
    // An offline verifier checks all of it against a policy.
    let verdict = verdict(&host, &first).await;
    assert_eq!(
        (verdict.further_trials.len(), verdict.missing_trials),
        (1, 0)
    );
    let told = |verdict: &EvalVerdict| {
        let policy = GatePolicy {
            required_pass_score: Some(0.1),
            ..GatePolicy::default()
        };
        let unmet = judge(verdict, &policy, &Expected::default(), Timestamp::now());
        let told = |it: &touchstone_runs::rules::eval::gate::Unmet| {
            it.message.contains("trials are available")
        };
        unmet.iter().any(told)
    };
    assert!(!told(&verdict));
    let mut wanting = verdict.clone();
    wanting.missing_trials = 1;
    wanting.further_trials.clear();
    assert!(told(&wanting));
}

#[tokio::test]
async fn annotations_are_not_attested() {
    let (host, run) = evaluated(&["a"]).await;
    let said = json!({"signal": {"kind": "label", "label": "odd"}, "note": "canary words"});
    let path = format!("/v1/runs/{run}/annotations");
    assert_eq!(host.post(&path, &said).await.status, StatusCode::CREATED);
    for envelope in attestations(&host, &run, "").await {
        let text = statement(&envelope).to_string();
        assert!(
            !text.contains("canary") && !text.contains("annotat"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn only_ended_runs_of_the_tenant_are_attested() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let pending = host.get(&path(&run)).await;
    assert_eq!(pending.status, StatusCode::CONFLICT, "{pending:?}");
    let foreign = host
        .request(Method::GET, &path(&run))
        .key(&host.other_key)
        .send()
        .await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{foreign:?}");
    host.work();
    host.ended(&run).await;
    let elsewhere = host.get(&format!("{}?channel=nowhere", path(&run))).await;
    assert_eq!(elsewhere.status, StatusCode::BAD_REQUEST, "{elsewhere:?}");
}

#[tokio::test]
async fn the_host_shows_the_key_to_verify_with() {
    let host = TestHost::idle().await;
    let shown = host.get("/v1/host/touchstone/attestation-key").await.json();
    assert_eq!(shown["keyId"], key().fingerprint());
    let public = shown["publicKey"].as_str().unwrap();
    assert_eq!(PublicKey::from_text(public), Ok(key()));
}

#[tokio::test]
async fn an_attestation_can_be_verified_against_another_policy() {
    let (host, run) = evaluated(&["a", "b"]).await;
    let verdict = verdict(&host, &run).await;
    let open = GatePolicy {
        require_signed_suite: false,
        max_age_seconds: Some(3600),
        ..GatePolicy::FLOOR
    };
    let conditions =
        |policy: &GatePolicy, expected: &Expected, now: Timestamp| -> Vec<&'static str> {
            let unmet = judge(&verdict, policy, expected, now);
            unmet.iter().map(|it| it.condition.as_str()).collect()
        };
    let (now, own) = (Timestamp::now(), Expected::default());
    assert_eq!(conditions(&open, &own, now), [] as [&str; 0]);
    let signed = GatePolicy {
        require_signed_suite: true,
        ..open.clone()
    };
    assert_eq!(conditions(&signed, &own, now), ["signed-suite"]);
    let later = now + SignedDuration::from_hours(2);
    assert_eq!(conditions(&open, &own, later), ["age"]);
    let of = |agent: &str, version: &str| Expected {
        agent: Some((agent.to_owned(), version.to_owned())),
        ..Expected::default()
    };
    assert_eq!(conditions(&open, &of(AGENT, "1.0.0"), now), [] as [&str; 0]);
    assert_eq!(conditions(&open, &of(AGENT, "1.0.1"), now), ["version"]);
    assert_eq!(conditions(&open, &of("a.b", "1.0.0"), now), ["agent"]);
    let other = Expected {
        pack_integrity: Some(integrity::of(b"another archive")),
        ..Expected::default()
    };
    assert_eq!(conditions(&open, &other, now), ["content"]);
}

#[rstest]
#[case::subject("/subject/0/digest/sha256", json!("00"), |it: &Rejected| it == &Rejected::Subject)]
#[case::suite("/predicate/suite/digest", json!("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
    |it: &Rejected| it == &Rejected::Subject)]
#[case::kind("/_type", json!("https://in-toto.io/Statement/v2"), |it: &Rejected| matches!(it, Rejected::OtherKind(_)))]
#[case::predicate("/predicateType", json!(TEST_RESULT_TYPE), |it: &Rejected| matches!(it, Rejected::OtherKind(_)))]
#[case::verdict("/predicate/verdict", json!("splendid"), |it: &Rejected| matches!(it, Rejected::Unreadable(_)))]
#[tokio::test]
async fn a_signed_statement_without_a_valid_verdict_is_rejected(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: fn(&Rejected) -> bool,
) {
    let (host, run) = evaluated(&["a"]).await;
    let mut said = statement(&attestations(&host, &run, "").await[0]);
    *said.pointer_mut(pointer).unwrap() = value;
    let secret = SecretKey::from_random(SIGNING_KEY);
    let forged = touchstone_openwop::dsse::seal(said.to_string().as_bytes(), &secret);
    let rejected = read(&forged, &key()).unwrap_err();
    assert!(expected(&rejected), "{rejected:?}");
}
