//! Calls every operation with each kind of invalid credential, as another tenant, and twice under
//! one `Idempotency-Key`. A new operation is included, or the test fails until its parameters are
//! given here.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use touchstone::database;
use touchstone::http::operations_of;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_host::http::limits::Rates;
use touchstone_host::http::routes::Operation;
use touchstone_host::objects::ObjectStorage;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::Major;
use touchstone_runs::ports::webhooks::DeliveryRecord;
use touchstone_runs::store::deliveries;

use crate::http::runs::calibrations::{ended, scored, tone};
use crate::http::runs::workflows::start;
use crate::http::support::host::{
    AGENT, Lab, Reply, SUITE, TestHost, create_body, echo_pack, id_of, says, suite,
};
use crate::support::host_keys;
use crate::support::postgres::TestDatabase;
use crate::webhooks::receiver::{Answer, Receiver};

/// Values for the path parameters.
#[derive(Clone, Copy)]
struct Names<'a> {
    /// An eval run that has ended.
    run: &'a str,
    /// A long-running run.
    slow: &'a str,
    /// A run that waits for an answer.
    asking: &'a str,
    /// Token of another waiting run.
    token: &'a str,
    agent: &'a str,
    pack: &'a str,
    suite: &'a str,
    webhook: &'a str,
    /// A key to rotate and to revoke.
    key: &'a str,
    calibration: &'a str,
    review: &'a str,
}

fn path(operation: Operation, names: Names<'_>) -> String {
    let run = match operation.path {
        path if path.ends_with(":pause") || path.ends_with(":resume") => names.slow,
        path if path.contains("/interrupts") => names.asking,
        _ => names.run,
    };
    let path = operation
        .path
        .replace("{runId}", run)
        .replace("{nodeId}", "gate")
        .replace("{token}", names.token)
        .replace("{agentId}", names.agent)
        .replace("{name}", names.pack)
        .replace("{suiteId}", names.suite)
        .replace("{webhookId}", names.webhook)
        .replace("{number}", "1")
        .replace("{keyId}", names.key)
        .replace("{calibrationId}", names.calibration)
        .replace("{reviewId}", names.review)
        .replace("{item}", "1")
        .replace("{version}", "1.0.0")
        .replace("{code}", "not_found")
        .replace("{scenarioId}", "none")
        .replace("{taskId}", "task-0")
        .replace("{workflowId}", "none")
        .replace("{artifactId}", "none")
        .replace("{worker}", "none");
    assert!(
        !path.contains('{'),
        "add values for the parameters of {path}"
    );
    let asked = match (operation.method, operation.path) {
        ("GET", "/v1/runs/{runId}:diff") => format!("?against={}", names.run),
        ("GET", "/v1/host/touchstone/runs/{runId}/comparison") => {
            format!("?baseline={}", names.run)
        }
        ("DELETE", "/v1/host/touchstone/gates") => "?channel=canary".to_owned(),
        ("GET", "/v1/host/touchstone/agent-cards/history")
        | ("DELETE", "/v1/host/touchstone/agent-cards/watches") => {
            "?url=https%3A%2F%2Fagents.example%2F".to_owned()
        }
        _ => String::new(),
    };
    path + &asked
}

/// A valid body for an operation that changes state, if it takes one. Extend this when a route is
/// added.
fn body(operation: Operation, names: Names<'_>) -> Option<Value> {
    let body = match (operation.method, operation.path) {
        ("GET" | "DELETE", _) => return None,
        (_, "/v1/runs") => create_body(),
        (_, "/v1/runs:bulk-cancel") => json!({"runIds": [names.run]}),
        (
            _,
            "/v1/runs/{runId}/cancel"
            | "/v1/host/touchstone/runs/{runId}:void"
            | "/v1/host/touchstone/runs/{runId}:hold",
        ) => json!({"reason": "x"}),
        (_, "/v1/host/touchstone/runs/{runId}:tag") => json!({"add": ["nightly"]}),
        (_, "/v1/runs/{runId}:pause") => json!({"drainPolicy": "immediate"}),
        (_, "/v1/runs/{runId}:fork") => json!({"mode": "replay"}),
        (
            _,
            "/v1/runs/{runId}:resume"
            | "/v1/host/touchstone/runs/{runId}:retry"
            | "/v1/host/touchstone/runs/{runId}:release"
            | "/v1/host/touchstone/runs/{runId}:archive",
        ) => json!({}),
        (_, "/v1/runs/{runId}/annotations") => json!({"signal": {"kind": "flag"}}),
        (_, "/v1/runs/{runId}/interrupts/{nodeId}" | "/v1/interrupts/{token}") => {
            json!({"resumeValue": {"action": "accept"}})
        }
        (_, path) if !operation.described && path.starts_with("/v1/host/sample/") => json!({}),
        (_, "/v1/agents/{agentId}/deployments") => {
            json!({"version": "1.0.0", "transition": "promote", "toState": "test"})
        }
        (_, "/v1/host/touchstone/gates") => json!({"channel": "canary", "policy": {}}),
        (_, "/v1/host/touchstone/gates/check") => {
            json!({"agentId": names.agent, "version": "1.0.0", "channel": "canary"})
        }
        (_, SCORING) => json!({"card": {}, "offline": true}),
        (_, RANKING) => json!({"candidates": [{"card": {}}], "offline": true}),
        (_, "/v1/host/touchstone/agent-cards/watches") => {
            json!({"url": "https://agents.example/", "everyHours": 24})
        }
        (_, JUDGING) => judging(),
        (_, REVIEWS) => json!({"runId": names.run, "outcome": "passed"}),
        (_, "/v1/host/touchstone/reviews/{reviewId}/items/{item}/label") => json!({"choice": 1}),
        (_, "/v1/host/touchstone/reviews/{reviewId}/close") => json!({}),
        (_, "/v1/host/touchstone/oasis/preflight") => {
            json!({"profile": "oasis-profile-none", "profileVersion": "1.0.0", "tier": 1, "provider": "none"})
        }
        (_, "/v1/host/touchstone/oasis/compute") => computed(),
        (_, "/v1/host/touchstone/packs") => json!({"tarball": STANDARD.encode(echo_pack())}),
        (_, "/v1/host/touchstone/suites") => suite(&tasks()),
        (_, "/v1/webhooks") => {
            json!({"url": "http://127.0.0.1:9999/h", "events": ["run.completed"]})
        }
        (_, "/v1/host/touchstone/keys") => json!({"scopes": ["runs:read"]}),
        (
            _,
            "/v1/host/touchstone/webhooks/{webhookId}/deliveries/{number}/replay"
            | "/v1/host/touchstone/keys/{keyId}/rotate"
            | "/v1/host/touchstone/keys/{keyId}/revoke"
            | NEEDS_A_WORKER,
        ) => json!({}),
        (_, "/v1/webhooks/{webhookId}/rotate-secret") => {
            json!({"secret": format!("whsec_{}", STANDARD.encode([1; 24]))})
        }
        (method, path) => panic!("add a body for {method} {path}"),
    };
    Some(body)
}

/// All inputs of a verdict.
fn computed() -> Value {
    let vector = include_str!("../../../fixtures/oasis/compute/till.json");
    serde_json::from_str::<Value>(vector).unwrap()["input"].take()
}

/// A few human scores.
fn judging() -> Value {
    scored(&[
        ("Kindly", 5.0),
        ("No", 1.0),
        ("Kindly so", 4.0),
        ("No!", 1.0),
    ])
}

/// One task that passes, and an unjudged one that can be retried.
fn tasks() -> Vec<Value> {
    says(&["a", "unavailable"])
}

/// A host with one resource of every kind, owned by its first tenant.
struct Furnished {
    host: TestHost,
    run: RunId,
    slow: RunId,
    asking: RunId,
    token: String,
    webhook: String,
    key: String,
    calibration: String,
    review: String,
    _endpoint: Receiver,
    _archive: tempfile::TempDir,
}

impl Furnished {
    async fn new() -> Self {
        let archive = tempfile::tempdir().unwrap();
        let lab = Lab {
            archive: Some(ObjectStorage::folder(archive.path().to_owned()).unwrap()),
            ..Lab::default()
        };
        let host = TestHost::with_lab(HttpSettings::default(), lab).await;
        host.equip(&tasks()).await;
        host.work();
        let run = host.create().await;
        host.ended(&run).await;
        // With both schemes, because their secrets can be rotated.
        let slow = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 600_000}});
        let slow = start(&host, &slow).await;
        let begun = format!("/v1/runs/{slow}/events/poll?lastSequence=1&timeout=30");
        host.get(&begun).await;
        let asking = asking(&host).await;
        let other = self::asking(&host).await;
        let asked = host
            .get(&format!("/v1/host/touchstone/runs/{other}/interrupts"))
            .await
            .json();
        let token = asked["interrupts"][0]["token"].as_str().unwrap().to_owned();
        let endpoint = Receiver::start(Answer::Echo).await;
        let subscription = json!({
            "url": endpoint.url(), "events": ["run.completed"],
            "signatureAlgorithms": ["v1", "standard-webhooks-1"],
            "secret": format!("whsec_{}", STANDARD.encode([0; 24])),
        });
        let made = host.post("/v1/webhooks", &subscription).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        let made = made.json();
        let webhook = made["webhookId"].as_str().unwrap().to_owned();
        delivered(&host, &run, &webhook).await;
        let key = id_of(&host.key_with(&[Scope::RunsRead]).await).to_string();
        let imported = host.post("/v1/host/touchstone/suites", &tone()).await;
        assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
        let calibration = ended(&host, &host.post(JUDGING, &judging()).await).await;
        let calibration = calibration["calibrationId"].as_str().unwrap().to_owned();
        let review = host.post(REVIEWS, &json!({"runId": run})).await;
        assert_eq!(review.status, StatusCode::CREATED, "{review:?}");
        let review = review.json()["reviewId"].as_str().unwrap().to_owned();
        Self {
            host,
            run,
            slow,
            asking,
            token,
            webhook,
            key,
            calibration,
            review,
            _endpoint: endpoint,
            _archive: archive,
        }
    }

    fn names(&self) -> Names<'_> {
        Names {
            run: self.run.as_str(),
            slow: self.slow.as_str(),
            asking: self.asking.as_str(),
            token: &self.token,
            agent: AGENT,
            pack: "community.bench.echo",
            suite: SUITE,
            webhook: &self.webhook,
            key: &self.key,
            calibration: &self.calibration,
            review: &self.review,
        }
    }
}

/// Records a delivery of the first event of a run to a webhook.
async fn delivered(host: &TestHost, run: &RunId, webhook: &str) {
    let path = format!("/v1/runs/{run}/events/poll?lastSequence=0&timeout=1");
    let events = host.get(&path).await.json();
    let kind = events["events"][0]["type"].as_str().unwrap();
    let times = (Timestamp::now(), 3);
    let mut made = DeliveryRecord::of(run, (1, kind), 1, &Ok(200), times);
    let added = deliveries::add_one(&host.store, &"acme".into(), &webhook.into(), &mut made).await;
    assert!(added.unwrap());
}

/// A run that waits for an approval.
async fn asking(host: &TestHost) -> RunId {
    let run = start(host, &json!({"workflowId": "conformance-approval"})).await;
    let mut after = 0;
    while host.get(&format!("/v1/runs/{run}")).await.json()["status"] != "waiting-approval" {
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20");
        after += host.get(&path).await.json()["events"]
            .as_array()
            .unwrap()
            .len();
    }
    run
}

/// An unused id of the same length.
fn unused(id: &str) -> String {
    let (kind, id) = id.split_once('_').unwrap();
    format!("{kind}_{}", "0".repeat(id.len()))
}

async fn send(
    host: &TestHost,
    operation: Operation,
    names: Names<'_>,
    credential: Option<&str>,
) -> Reply {
    let call = host.request(operation.method.parse().unwrap(), &path(operation, names));
    let call = match credential {
        Some(key) => call.key(key),
        None => call.anonymous(),
    };
    match body(operation, names) {
        Some(body) => call.json(&body).send().await,
        None => call.send().await,
    }
}

#[tokio::test]
async fn invalid_credentials_get_the_same_401_from_every_operation() {
    let furnished = Furnished::new().await;
    let host = &furnished.host;
    let expired = host
        .issue(|issue| {
            issue.scopes = Scope::ALL.to_vec();
            issue.expires_at = Timestamp::from_second(1).ok();
        })
        .await;
    let revoked = host.key_with(Scope::ALL).await;
    host.keys.revoke(&id_of(&revoked)).await.unwrap();
    let rotated = host.key_with(Scope::ALL).await;
    host.keys
        .rotate(&id_of(&rotated), Timestamp::now(), None)
        .await
        .unwrap();
    let twice_rotated = host.key_with(Scope::ALL).await;
    for _ in 0..2 {
        let later = Timestamp::now() + SignedDuration::from_hours(1);
        let id = id_of(&twice_rotated);
        host.keys.rotate(&id, later, None).await.unwrap();
    }
    let wrong_secret = format!("tsk_{}_{}", id_of(&host.key), "A".repeat(43));
    let disguised = host.key.replacen("tsk_", "hk_test_", 1);
    let credentials = [
        (None, "unauthenticated"),
        (Some("canary-key"), "unauthenticated"),
        (Some(wrong_secret.as_str()), "unauthenticated"),
        (Some(disguised.as_str()), "unauthenticated"),
        (Some(twice_rotated.as_str()), "unauthenticated"),
        (Some(expired.as_str()), "key_expired"),
        (Some(rotated.as_str()), "key_expired"),
        (Some(revoked.as_str()), "key_revoked"),
    ];
    let absent = Names {
        run: "run_absent",
        slow: "run_absent",
        asking: "run_absent",
        token: "none",
        agent: "no.such.agent",
        pack: "no.such.pack",
        suite: "no.such.evals.suite",
        webhook: "wh_absent",
        key: "key_absent",
        calibration: "calibration_absent",
        review: "review_absent",
    };
    for (key, code) in credentials {
        let mut envelopes: Vec<Value> = Vec::new();
        for operation in operations_of(Major::V1).into_iter().filter(|o| o.keyed) {
            for names in [furnished.names(), absent] {
                let reply = send(host, operation, names, key).await;
                assert_eq!(
                    (reply.status, reply.code()),
                    (StatusCode::UNAUTHORIZED, code.to_owned()),
                    "{operation:?} {key:?}"
                );
                assert_eq!(
                    reply.header("www-authenticate"),
                    Some("Bearer realm=\"touchstone\"")
                );
                assert!(key.is_none_or(|key| !reply.text().contains(key)));
                envelopes.push(reply.json());
            }
        }
        envelopes.dedup();
        assert_eq!(
            envelopes.len(),
            1,
            "the response depends on the request: {code}"
        );
    }
    let subscriptions = host.get("/v1/host/touchstone/webhooks").await.json();
    assert_eq!(
        subscriptions["webhooks"].as_array().unwrap().len(),
        1,
        "nothing changed"
    );
}

/// The observable part of a response: without values that differ between any two responses and
/// without the client's own input.
fn seen(reply: &Reply, names: Names<'_>) -> (StatusCode, usize, String, Vec<(String, usize)>) {
    let headers = reply
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.len()))
        .collect();
    let text = reply.text().replace(names.pack, "the pack");
    (reply.status, reply.body.len(), text, headers)
}

#[tokio::test]
async fn resources_of_another_tenant_get_the_same_bytes_as_missing_ones() {
    let furnished = Furnished::new().await;
    let host = &furnished.host;
    let (run, webhook) = (unused(furnished.run.as_str()), unused(&furnished.webhook));
    let key = "0".repeat(furnished.key.len());
    let calibration = unused(&furnished.calibration);
    let review = unused(&furnished.review);
    let none = Names {
        run: &run,
        slow: &run,
        asking: &run,
        token: "none",
        agent: "community.bench.nope.default",
        pack: "community.bench.nope",
        suite: "community.bench.evals.nope",
        webhook: &webhook,
        key: &key,
        calibration: &calibration,
        review: &review,
    };
    let mut walked = 0;
    for operation in operations_of(Major::V1)
        .into_iter()
        .filter(|o| o.keyed && o.path.contains('{'))
    {
        let key = Some(host.other_key.as_str());
        let of_another = send(host, operation, furnished.names(), key).await;
        let of_nobody = send(host, operation, none, key).await;
        let of_another = seen(&of_another, furnished.names());
        let of_nobody = seen(&of_nobody, none);
        assert_eq!(of_another, of_nobody, "{operation:?}");
        assert_eq!(
            of_another.0,
            StatusCode::NOT_FOUND,
            "{operation:?} {of_another:?}"
        );
        walked += 1;
    }
    assert!(walked > 10);
    let subscriptions = host.get("/v1/host/touchstone/webhooks").await.json();
    assert_eq!(subscriptions["webhooks"].as_array().unwrap().len(), 1);
}

/// A key with all scopes of `key create --scope all` reaches no other tenant's resources and no
/// host metrics.
#[tokio::test]
async fn a_key_of_every_scope_within_its_tenant_reaches_no_other_tenant() {
    let furnished = Furnished::new().await;
    let (host, names) = (&furnished.host, furnished.names());
    let key = host
        .issue(|issue| {
            issue.tenant = "globex".into();
            issue.scopes = Scope::within_tenant().collect();
            issue.test = true;
        })
        .await;
    let before = of_the_first_tenant(host, names).await;
    let ids = [
        names.run,
        names.slow,
        names.asking,
        names.webhook,
        names.calibration,
        names.review,
    ];
    let keyed = |o: &Operation| o.keyed || o.path == "/metrics";
    for operation in operations_of(Major::V1).into_iter().filter(keyed) {
        let reply = send(host, operation, names, Some(&key)).await;
        match operation.path {
            "/metrics" => assert_eq!(reply.status, StatusCode::FORBIDDEN),
            // The response repeats each id of the request.
            "/v1/runs:bulk-cancel" => {
                let error = &reply.json()["results"][0]["error"]["code"];
                assert_eq!(error, "not_found");
            }
            _ => {
                let text = reply.text();
                let seen = ids.iter().find(|id| text.contains(**id));
                assert_eq!(seen, None, "{operation:?}: {text}");
            }
        }
    }
    assert_eq!(of_the_first_tenant(host, names).await, before);
}

async fn of_the_first_tenant(host: &TestHost, names: Names<'_>) -> Vec<Value> {
    let mut found = Vec::new();
    for list in [
        "webhooks",
        "packs",
        "suites",
        "gates",
        "audit",
        "judge/calibrations",
        "reviews",
        "agent-cards/watches",
    ] {
        let path = format!("/v1/host/touchstone/{list}");
        found.push(host.get(&path).await.json());
    }
    for run in [names.run, names.slow, names.asking] {
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        found.push(snapshot["status"].clone());
    }
    found
}

#[tokio::test]
async fn response_times_do_not_reveal_runs_of_another_tenant() {
    let furnished = Furnished::new().await;
    let (host, run) = (&furnished.host, &furnished.run);
    let nothing = unused(run.as_str());
    let mut rounds = Vec::new();
    // Other tests may disturb one round; a difference that reveals runs is in all of them.
    for _ in 0..10 {
        let (foreign, none) = median_times(host, run.as_str(), &nothing).await;
        if foreign < none * 2 && none < foreign * 2 {
            return;
        }
        rounds.push((foreign, none));
    }
    panic!("of another tenant, and of no run: {rounds:?}");
}

/// Median times of the answers about a run of another tenant and about a run that does not exist.
async fn median_times(host: &TestHost, run: &str, nothing: &str) -> (Duration, Duration) {
    let (mut foreign, mut none) = (Vec::new(), Vec::new());
    // Alternates, so that a slow machine affects both equally.
    for _ in 0..200 {
        for (id, times) in [(run, &mut foreign), (nothing, &mut none)] {
            let call = host
                .request(Method::GET, &format!("/v1/runs/{id}"))
                .key(&host.other_key);
            let began = Instant::now();
            let answered = call.open().await;
            times.push(began.elapsed());
            assert_eq!(answered.status(), StatusCode::NOT_FOUND);
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    (median(&mut foreign), median(&mut none))
}

const SCORING: &str = "/v1/host/touchstone/agent-cards/score";
const RANKING: &str = "/v1/host/touchstone/agent-cards/rank";
const JUDGING: &str = "/v1/host/touchstone/judge/calibrations";
const REVIEWS: &str = "/v1/host/touchstone/reviews";

/// Operations on another process, which the host of these tests does not have.
const NEEDS_A_WORKER: &str = "/v1/host/touchstone/cluster/workers/{worker}/drain";

/// POST operations that change nothing.
const ASKS_ONLY: &[&str] = &[
    "/v1/host/touchstone/gates/check",
    "/v1/host/touchstone/oasis/preflight",
    "/v1/host/touchstone/oasis/compute",
    SCORING,
    RANKING,
];

#[tokio::test]
async fn every_mutation_is_carried_out_once_under_a_key() {
    let furnished = Furnished::new().await;
    let (host, names) = (&furnished.host, furnished.names());
    let mut changing: Vec<Operation> = operations_of(Major::V1)
        .into_iter()
        .filter(|o| o.method != "GET" && o.described)
        .filter(|o| !ASKS_ONLY.contains(&o.path) && o.path != NEEDS_A_WORKER)
        .collect();
    // Deletions come last, and a pack after the suites for its agent.
    changing.sort_by_key(|o| (o.method == "DELETE", o.path.contains("{name}")));
    assert!(changing.iter().any(|o| o.method == "DELETE"));
    for operation in changing {
        let ask = async |body: Option<&Value>| {
            let call = host
                .request(operation.method.parse().unwrap(), &path(operation, names))
                .header("idempotency-key", "walk");
            match body {
                Some(body) => call.json(body).send().await,
                None => call.send().await,
            }
        };
        let body = body(operation, names);
        let first = ask(body.as_ref()).await;
        assert!(first.status.is_success(), "{operation:?}: {first:?}");
        assert_eq!(first.header("openwop-idempotent-replay"), None);
        let again = ask(body.as_ref()).await;
        let read = |reply: &Reply| {
            let mut read = (!reply.body.is_empty()).then(|| reply.json());
            // Only the first response has the text of a key.
            if let Some(members) = read.as_mut().and_then(Value::as_object_mut) {
                members.remove("key");
            }
            read
        };
        assert_eq!(
            (again.status, read(&again)),
            (first.status, read(&first)),
            "{operation:?}"
        );
        assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
        if body.is_some() {
            let other = ask(Some(&json!({"another": "body"}))).await;
            assert!(
                other.status.is_client_error()
                    && other.header("openwop-idempotent-replay").is_none(),
                "{operation:?}: {other:?}"
            );
        }
    }
}

#[tokio::test]
async fn invalid_tokens_are_refused_before_any_read_and_guesses_are_counted() {
    let host = TestHost::with(HttpSettings {
        rates: Rates {
            refusals_per_minute: 3,
            ..Rates::default()
        },
        ..HttpSettings::default()
    })
    .await;
    let address = host.listen().await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The announced body is never sent.
        let head = "POST /v1/interrupts/a.b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        statuses.push(String::from_utf8_lossy(&status[9..]).into_owned());
    }
    assert_eq!(statuses, ["404", "404", "404", "429", "429"]);
}

#[tokio::test]
async fn idempotent_replays_are_bound_to_the_principal() {
    let furnished = Furnished::new().await;
    let (host, names) = (&furnished.host, furnished.names());
    let other = host
        .issue(|issue| issue.scopes = vec![Scope::ApprovalsRespond])
        .await;
    let done_in_a_name = [
        "/v1/agents/{agentId}/deployments",
        "/v1/runs/{runId}/interrupts/{nodeId}",
    ];
    for operation in operations_of(Major::V1)
        .into_iter()
        .filter(|o| o.method == "POST" && done_in_a_name.contains(&o.path))
    {
        let ask = async |key: &str| {
            host.request(Method::POST, &path(operation, names))
                .key(key)
                .header("idempotency-key", "same")
                .json(&body(operation, names).unwrap())
                .send()
                .await
        };
        let first = ask(&host.key).await;
        assert!(first.status.is_success(), "{first:?}");
        let refused = ask(&other).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::CONFLICT, "idempotency_key_mismatch".to_owned()),
            "{operation:?}"
        );
    }
}

/// A document with every string replaced.
fn with_texts(document: Value, text: &str) -> Value {
    match document {
        Value::String(_) => text.into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| with_texts(item, text))
            .collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, with_texts(value, text)))
            .collect(),
        other => other,
    }
}

async fn hostile_text_in_requests_causes_no_server_error_on(host: TestHost) {
    let hostile = "a\0b";
    let encoded = "a%00b";
    let names = Names {
        run: encoded,
        slow: encoded,
        asking: encoded,
        token: encoded,
        agent: encoded,
        pack: encoded,
        suite: encoded,
        webhook: encoded,
        key: encoded,
        calibration: encoded,
        review: encoded,
    };
    for operation in operations_of(Major::V1)
        .into_iter()
        .filter(|o| o.path.starts_with("/v1/"))
    {
        let plain = path(operation, names);
        let (bare, _) = plain.split_once('?').unwrap_or((&plain, ""));
        for path in [
            plain.clone(),
            format!(
                "{bare}?agentId={encoded}&channel={encoded}&tenantId={encoded}&{encoded}={encoded}"
            ),
        ] {
            let call = host
                .request(operation.method.parse().unwrap(), &path)
                .header("idempotency-key", "hostile");
            let call = match body(operation, names) {
                Some(body) => call.json(&with_texts(body, hostile)),
                None => call,
            };
            let status = call.open().await.status();
            assert!(!status.is_server_error(), "{operation:?} {path} {status}");
        }
    }
    // Values that reach the store on any path: names of channels, suites, agents, runs and scopes.
    for (path, body) in [
        (
            "/v1/runs",
            json!({"mode": "eval", "evalSuiteRef": hostile, "agentId": AGENT}),
        ),
        (
            "/v1/runs",
            json!({"mode": "eval", "evalSuiteRef": SUITE, "agentId": hostile}),
        ),
        (
            "/v1/runs",
            json!({"mode": "eval", "evalSuiteRef": SUITE, "agentId": AGENT,
            "configurable": {"baselineRunId": hostile}}),
        ),
        (
            "/v1/runs",
            json!({"workflowId": "conformance-noop", "scopeId": hostile}),
        ),
        (
            "/v1/runs",
            json!({"workflowId": "conformance-noop", "tags": [hostile], "metadata": {"k": hostile}}),
        ),
        (
            "/v1/host/touchstone/gates",
            json!({"agentId": hostile, "policy": {}}),
        ),
        (
            "/v1/host/touchstone/gates/check",
            json!({"agentId": hostile, "version": "1.0.0"}),
        ),
        (
            "/v1/host/touchstone/gates/check",
            json!({"agentId": AGENT, "version": "1.0.0", "evalRunId": hostile}),
        ),
        (
            "/v1/agents/a/deployments",
            json!({"version": "1.0.0", "transition": "promote",
            "toState": "test", "reason": hostile}),
        ),
        (
            "/v1/webhooks",
            json!({"url": "http://127.0.0.1:9999/h", "events": ["run.completed"], "tags": [hostile]}),
        ),
    ] {
        let status = host.post(path, &body).await.status;
        assert!(!status.is_server_error(), "{path} {body} {status}");
    }
    let run = start(&host, &json!({"workflowId": "conformance-noop"})).await;
    let cancelled = host
        .post(
            &format!("/v1/runs/{run}/cancel"),
            &json!({"reason": hostile}),
        )
        .await;
    assert!(!cancelled.status.is_server_error(), "{cancelled:?}");
}

#[tokio::test]
async fn hostile_text_in_requests_causes_no_server_error() {
    let host = TestHost::idle().await;
    host.equip(&tasks()).await;
    hostile_text_in_requests_causes_no_server_error_on(host).await;
}

#[tokio::test]
async fn hostile_text_in_requests_causes_no_server_error_on_postgres() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = database::open(&database.url(), host_keys::usual())
        .await
        .unwrap();
    let host = TestHost::over(store, HttpSettings::default()).await;
    host.equip(&tasks()).await;
    hostile_text_in_requests_causes_no_server_error_on(host).await;
}
