//! Runs that wait for people: approvals, clarifications, gates with a quorum; answers by node and
//! by token.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::rules::workflow::gate::GatePolicy;
use touchstone_runs::rules::workflow::token::InterruptToken;
use touchstone_runs::service::runs::interrupts::{GATE_NODE, GateDecision};
use touchstone_runs::store as run_store;

use crate::http::runs::workflows::{at_work, kinds, start};
use crate::http::support::host::{Reply, TestHost, create_body, says};
use crate::store::{Engine, TestStore};

/// Starts a fixture and waits until its run waits.
async fn waiting(host: &TestHost, workflow: &str, status: &str) -> RunId {
    let run = start(host, &json!({"workflowId": workflow})).await;
    until(host, &run, status).await;
    run
}

pub async fn until(host: &TestHost, run: &RunId, status: &str) -> Value {
    let mut after = 0;
    loop {
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        if snapshot["status"] == status {
            return snapshot;
        }
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20");
        let page = host.get(&path).await.json();
        assert_eq!(
            page["isComplete"], false,
            "it ended as {}",
            snapshot["status"]
        );
        after += page["events"].as_array().unwrap().len();
    }
}

async fn answer(host: &TestHost, run: &RunId, node: &str, value: Value) -> Reply {
    let path = format!("/v1/runs/{run}/interrupts/{node}");
    host.post(&path, &json!({"resumeValue": value})).await
}

async fn token(host: &TestHost, run: &RunId) -> String {
    let path = format!("/v1/host/touchstone/runs/{run}/interrupts");
    let pending = host.get(&path).await.json();
    pending["interrupts"][0]["token"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn by_token(host: &TestHost, token: &str, value: &Value) -> Reply {
    let path = format!("/v1/interrupts/{token}");
    let call = host.request(Method::POST, &path).anonymous();
    call.json(&json!({"resumeValue": value})).send().await
}

/// Earlier versions stored the token secret in plaintext: a copy of the database must not be enough
/// to forge a token.
#[rstest]
#[tokio::test]
async fn a_token_forged_with_what_the_database_holds_is_refused(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    drop(database.open().await);
    let plain = match engine {
        Engine::Sqlite => format!("x'{}'", "6b".repeat(32)),
        Engine::Postgres => format!("'\\x{}'::bytea", "6b".repeat(32)),
    };
    database
        .execute(format!(
            "INSERT INTO host_secret (name, secret) VALUES ('interrupt-tokens', {plain})"
        ))
        .await;
    let host = TestHost::over(database.open().await, HttpSettings::default()).await;
    host.work();
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let good = token(&host, &run).await;
    let payload = good.split('.').nth(3).unwrap();
    let payload = URL_SAFE_NO_PAD.decode(payload).unwrap();
    let claims: InterruptToken = serde_json::from_slice(&payload).unwrap();
    let stored = "SELECT secret FROM host_secret WHERE name = 'interrupt-tokens'";
    let stored = database.bytes(stored).await;
    let text = std::str::from_utf8(&stored).unwrap();
    let sealed = STANDARD_NO_PAD.decode(text.rsplit('.').next().unwrap());
    let sealed = sealed.unwrap();
    let windows = stored.windows(32).chain(sealed.windows(32));
    let mut secrets: Vec<[u8; 32]> = windows.map(|it| it.try_into().unwrap()).collect();
    secrets.extend([[b'k'; 32], Sha256::digest(&stored).into()]);
    for secret in secrets {
        let forged = claims.sign(&secret).unwrap();
        let refused = by_token(&host, &forged, &json!({"action": "accept"})).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{refused:?}");
    }
    let taken = by_token(&host, &good, &json!({"action": "accept"})).await;
    assert_eq!(taken.status, StatusCode::OK, "{taken:?}");
}

#[tokio::test]
async fn the_snapshot_of_a_run_that_waits_has_a_token_for_those_who_may_answer() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let path = format!("/v1/runs/{run}");
    let interrupt = host.get(&path).await.json()["interrupt"].clone();
    assert_eq!(
        (&interrupt["kind"], &interrupt["nodeId"]),
        (&json!("approval"), &json!("gate"))
    );
    let token = interrupt["interruptToken"].as_str().unwrap();
    let callback = interrupt["callbackUrl"].as_str().unwrap();
    assert_eq!(callback, format!("/v1/interrupts/{token}"));

    let reader = host.key_with(&[Scope::RunsRead]).await;
    let seen = host.request(Method::GET, &path).key(&reader).send().await;
    let seen = seen.json()["interrupt"].clone();
    assert_eq!(seen["interruptId"], interrupt["interruptId"]);
    for secret in ["interruptToken", "callbackUrl", "token"] {
        assert!(seen.get(secret).is_none(), "{secret}");
    }
    let bundle = host.get(&format!("{path}/debug-bundle")).await;
    assert!(!bundle.text().contains(token), "a bundle contains no token");

    let answered = by_token(&host, token, &json!({"action": "accept"})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    host.ended(&run).await;
    assert!(host.get(&path).await.json().get("interrupt").is_none());
}

#[tokio::test]
async fn an_approval_suspends_the_run_and_an_answer_resumes_it() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["currentNodeId"], "gate");

    let answered = answer(&host, &run, "gate", json!({"action": "accept"})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    let log = host.ended(&run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "interrupt.requested",
            "node.suspended",
            "approval.requested",
            "approval.granted",
            "approval.received",
            "interrupt.resolved",
            "node.resumed",
            "node.completed",
            "run.completed"
        ]
    );
    let received = &log[6]["payload"];
    assert_eq!(received["action"], "accept");
    assert_eq!(received["decidedBy"], snapshot["owner"]["principal"]);
    let again = answer(&host, &run, "gate", json!({"action": "accept"})).await;
    assert_eq!(
        (again.status, again.code().as_str()),
        (StatusCode::CONFLICT, "interrupt_already_resolved")
    );
}

#[tokio::test]
async fn questions_are_answered_by_their_ids() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-clarification", "waiting-input").await;
    for wrong in [
        json!({"answers": {}}),
        json!({"answers": {"q1": 7}}),
        json!("blue"),
        Value::Null,
    ] {
        let refused = answer(&host, &run, "ask", wrong).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (StatusCode::BAD_REQUEST, "validation_error")
        );
    }
    let answered = answer(&host, &run, "ask", json!({"answers": {"q1": "blue"}})).await;
    assert_eq!(answered.status, StatusCode::OK);
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.completed");
    let resolved = log
        .iter()
        .find(|event| event["type"] == "clarification.resolved");
    assert_eq!(
        resolved.unwrap()["payload"]["answers"],
        json!({"q1": "blue"})
    );
}

#[tokio::test]
async fn a_refused_answer_leaves_the_run_waiting() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let before = host.get(&format!("/v1/runs/{run}")).await.json();
    let maybe = answer(&host, &run, "gate", json!({"action": "maybe"})).await;
    assert_eq!(maybe.json()["details"]["field"], "resumeValue.action");
    let nowhere = answer(&host, &run, "no-such-node", json!({"action": "accept"})).await;
    assert_eq!(
        (nowhere.status, nowhere.code().as_str()),
        (StatusCode::NOT_FOUND, "interrupt_not_found")
    );
    let stranger = host
        .request(Method::POST, &format!("/v1/runs/{run}/interrupts/gate"))
        .key(&host.other_key)
        .json(&json!({"resumeValue": {"action": "accept"}}))
        .send()
        .await;
    assert_eq!(stranger.status, StatusCode::NOT_FOUND);
    assert_eq!(host.get(&format!("/v1/runs/{run}")).await.json(), before);

    let refused = answer(
        &host,
        &run,
        "gate",
        json!({"action": "reject", "feedback": "no"}),
    )
    .await;
    assert_eq!(refused.status, StatusCode::OK);
    host.ended(&run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["error"]["code"], "approval_rejected");
}

#[tokio::test]
async fn a_cancelled_run_takes_no_answer() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let token = token(&host, &run).await;
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    host.ended(&run).await;
    let late = answer(&host, &run, "gate", json!({"action": "accept"})).await;
    assert_eq!(
        (late.status, late.code().as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, "interrupt_cancelled")
    );
    // The result is the same with and without a key, for reading and for answering.
    let path = format!("/v1/interrupts/{token}");
    for late in [
        by_token(&host, &token, &json!({"action": "accept"})).await,
        host.request(Method::GET, &path).anonymous().send().await,
    ] {
        assert_eq!(
            (late.status, late.code().as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, "interrupt_cancelled")
        );
    }
}

#[tokio::test]
async fn a_token_answers_once_and_only_its_own_interrupt() {
    let host = at_work().await;
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    let token = token(&host, &run).await;
    let path = format!("/v1/interrupts/{token}");
    let asked = host.request(Method::GET, &path).anonymous().send().await;
    assert_eq!(
        (asked.status, &asked.json()["kind"]),
        (StatusCode::OK, &json!("approval"))
    );

    let mut forged = token.clone();
    let last = forged.pop().unwrap();
    forged.insert(0, if last == 'A' { 'B' } else { 'A' });
    for wrong in [forged.as_str(), "nonsense", "a.b"] {
        let refused = by_token(&host, wrong, &json!({"action": "accept"})).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (StatusCode::NOT_FOUND, "interrupt_not_found")
        );
    }
    let unsound = by_token(&host, &token, &json!({"action": "maybe"})).await;
    assert_eq!(unsound.status, StatusCode::BAD_REQUEST);
    // Of two simultaneous answers, one counts.
    let value = json!({"action": "accept"});
    let (a, b) = tokio::join!(
        by_token(&host, &token, &value),
        by_token(&host, &token, &value)
    );
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let log = host.ended(&run).await;
    assert_eq!(
        log.iter()
            .filter(|event| event["type"] == "interrupt.resolved")
            .count(),
        1
    );
    assert!(!log.iter().any(|event| event.to_string().contains(&token)));
    let gone = host.request(Method::GET, &path).anonymous().send().await;
    assert_eq!(
        (gone.status, gone.code().as_str()),
        (StatusCode::CONFLICT, "interrupt_already_resolved")
    );
}

#[tokio::test]
async fn a_restart_during_an_interrupt_changes_nothing() {
    let host = TestHost::idle().await;
    let first = host.work();
    let run = waiting(&host, "conformance-approval", "waiting-approval").await;
    first.cancel();
    // No worker is running: the answer is recorded all the same, and the next worker continues from
    // it.
    let answered = answer(&host, &run, "gate", json!({"action": "accept"})).await;
    assert_eq!(answered.status, StatusCode::OK);
    host.work();
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.completed");
    assert_eq!(
        log.iter()
            .filter(|event| event["type"] == "interrupt.requested")
            .count(),
        1
    );
}

#[rstest]
#[case::sqlite(Engine::Sqlite)]
#[case::postgres(Engine::Postgres)]
#[tokio::test]
async fn interrupts_survive_a_restart(#[case] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let first = TestHost::over(database.open().await, HttpSettings::default()).await;
    let worker = first.work();
    let asked = waiting(&first, "conformance-approval", "waiting-approval").await;
    let token = token(&first, &asked).await;
    let delayed = json!({"workflowId": "conformance-delay", "inputs": {"delayMs": 4_000}});
    let (timed, paused) = (start(&first, &delayed).await, start(&first, &delayed).await);
    for run in [&timed, &paused] {
        let begun = format!("/v1/runs/{run}/events/poll?lastSequence=1&timeout=30");
        assert_eq!(first.get(&begun).await.status, StatusCode::OK);
    }
    let pause = json!({"drainPolicy": "immediate"});
    first
        .post(&format!("/v1/runs/{paused}:pause"), &pause)
        .await;
    worker.cancel();
    drop(first);

    let second = TestHost::over(database.open().await, HttpSettings::default()).await;
    until(&second, &asked, "waiting-approval").await;
    until(&second, &paused, "paused").await;
    // The secret is stored in the database, so a token works on every replica.
    let answered = by_token(&second, &token, &json!({"action": "accept"})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    let resumed = second
        .post(&format!("/v1/runs/{paused}:resume"), &json!({}))
        .await;
    assert_eq!(resumed.status, StatusCode::ACCEPTED, "{resumed:?}");
    second.work();
    for run in [&asked, &timed, &paused] {
        let log = second.ended(run).await;
        assert_eq!(log[log.len() - 1]["type"], "run.completed");
        let asks = log
            .iter()
            .filter(|event| event["type"] == "interrupt.requested");
        assert_eq!(asks.count(), usize::from(run == &asked));
    }
}

#[tokio::test]
async fn an_interrupt_ends_at_the_runs_maximum_duration() {
    let host = at_work().await;
    let body =
        json!({"workflowId": "conformance-approval", "configurable": {"runTimeoutMs": 5_000}});
    let run = start(&host, &body).await;
    until(&host, &run, "waiting-approval").await;
    let token = token(&host, &run).await;
    let log = host.ended(&run).await;
    assert_eq!(kinds(&log)[log.len() - 2..], ["cap.breached", "run.failed"]);
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["error"]["code"], "run_timeout");
    let late = answer(&host, &run, "gate", json!({"action": "accept"})).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    let used_up = by_token(&host, &token, &json!({"action": "accept"})).await;
    assert_eq!(used_up.status, StatusCode::CONFLICT);
}

/// A key of a person who may answer interrupts, with or without a role.
pub async fn somebody(host: &TestHost, name: &str, role: Option<&str>) -> String {
    host.issue(|issue| {
        issue.principal = Some(name.to_owned());
        issue.scopes = vec![Scope::ApprovalsRespond];
        issue.roles = role.into_iter().map(str::to_owned).collect();
    })
    .await
}

pub async fn answer_as(host: &TestHost, key: &str, run: &RunId, value: Value) -> Reply {
    let path = format!("/v1/runs/{run}/interrupts/{GATE_NODE}");
    let call = host.request(Method::POST, &path).key(key);
    call.json(&json!({"resumeValue": value})).send().await
}

async fn open(host: &TestHost, gate: RunRecord) -> RunId {
    run_store::runs::create(&host.store, &gate, None)
        .await
        .unwrap();
    host.store.notify_work().await;
    gate.run_id
}

#[tokio::test]
async fn an_approval_gate_is_granted_when_the_quorum_is_reached() {
    let host = at_work().await;
    let gate = GatePolicy {
        required_role: Some("release-manager".to_owned()),
        quorum: 2,
        ..GatePolicy::default()
    };
    let acme = "acme".into();
    let run = open(
        &host,
        host.runs
            .approval_gate(&acme, "ops", "Promote 1.2.0", "agent@1.2.0", &gate)
            .unwrap(),
    )
    .await;
    until(&host, &run, "waiting-approval").await;
    let path = format!("/v1/host/touchstone/runs/{run}/interrupts");
    let pending = host.get(&path).await.json();
    assert!(
        pending["interrupts"][0].get("token").is_none(),
        "a token has no role"
    );

    let ann = somebody(&host, "ann", Some("release-manager")).await;
    let bob = somebody(&host, "bob", Some("release-manager")).await;
    let eve = somebody(&host, "eve", None).await;
    let accept = || json!({"action": "accept"});
    let status = async |key: &str| answer_as(&host, key, &run, accept()).await.status;
    assert_eq!(status(&eve).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&ann).await, StatusCode::OK);
    assert_eq!(
        status(&ann).await,
        StatusCode::CONFLICT,
        "one vote per principal"
    );
    assert_eq!(
        host.runs.gate_decision(&acme, &run).await.unwrap(),
        GateDecision::Pending
    );
    assert_eq!(status(&bob).await, StatusCode::OK);
    let log = host.ended(&run).await;
    let progress: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "approval.granted")
        .map(|event| &event["payload"]["quorumProgress"]["granted"])
        .collect();
    assert_eq!(progress, [1, 2]);
    assert_eq!(
        host.runs.gate_decision(&acme, &run).await.unwrap(),
        GateDecision::Granted
    );
}

#[rstest]
#[case::overridden(json!({"action": "accept", "override": {"reason": "outage"}}), GateDecision::Granted)]
#[case::refused(json!({"action": "reject"}), GateDecision::Refused)]
#[tokio::test]
async fn one_principal_may_override_or_reject_an_approval_gate(
    #[case] value: Value,
    #[case] decision: GateDecision,
) {
    let host = at_work().await;
    let gate: GatePolicy = serde_json::from_value(json!({
        "requiredScope": "approvals:respond", "quorum": 3,
        "override": {"requiredRole": "release-manager", "audited": true},
    }))
    .unwrap();
    let acme = "acme".into();
    let run = open(
        &host,
        host.runs
            .approval_gate(&acme, "ops", "Promote", "agent@1.2.0", &gate)
            .unwrap(),
    )
    .await;
    until(&host, &run, "waiting-approval").await;
    if value.get("override").is_some() {
        let eve = somebody(&host, "eve", None).await;
        let refused = answer_as(&host, &eve, &run, value.clone()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert_eq!(host.store.audit_head(&acme).await.unwrap().sequence, 0);
    }
    let ann = somebody(&host, "ann", Some("release-manager")).await;
    assert_eq!(
        answer_as(&host, &ann, &run, value.clone()).await.status,
        StatusCode::OK
    );
    host.ended(&run).await;
    assert_eq!(
        host.runs.gate_decision(&acme, &run).await.unwrap(),
        decision
    );
    assert_eq!(host.store.audit_head(&acme).await.unwrap().sequence, 1);
}

#[rstest]
#[case::overridden(json!({"action": "accept", "override": {"reason": "use sk-canary0123456789"}}))]
#[case::refused(json!({"action": "reject", "feedback": "use sk-canary0123456789"}))]
#[tokio::test]
async fn decision_comments_are_kept_without_credentials(#[case] value: Value) {
    const MASKED: &str = "use [REDACTED:api-key]";
    let host = at_work().await;
    let gate: GatePolicy = serde_json::from_value(json!({
        "requiredScope": "approvals:respond",
        "override": {"requiredRole": "release-manager", "audited": true},
    }))
    .unwrap();
    let acme = "acme".into();
    let gate = host
        .runs
        .approval_gate(&acme, "ops", "Promote", "agent@1.2.0", &gate);
    let run = open(&host, gate.unwrap()).await;
    until(&host, &run, "waiting-approval").await;
    let ann = somebody(&host, "ann", Some("release-manager")).await;
    let answered = answer_as(&host, &ann, &run, value).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    let log = Value::from(host.ended(&run).await).to_string();
    assert!(!log.contains("canary"), "{log}");
    let said = log.matches(MASKED).count();
    assert!(said >= 2, "in the decision, and in the answer: {log}");
    let entries = host.store.audit_entries(&acme, 0, 100).await.unwrap();
    let audited: String = entries.into_iter().map(|entry| entry.body).collect();
    assert!(!audited.contains("canary"), "{audited}");
    // The debug bundle contains no text that people entered.
    let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).await;
    let bundle = String::from_utf8_lossy(&bundle.body).into_owned();
    assert!(!bundle.contains(MASKED), "{bundle}");
}

/// A host on a database that may have served another host.
async fn evaluating(database: &TestStore) -> TestHost {
    TestHost::over(database.open().await, HttpSettings::default()).await
}

/// An eval that waits because its first task used up the budget.
async fn used_up(host: &TestHost) -> RunId {
    let mut body = create_body();
    body["configurable"] = json!({"evalConcurrency": 1,
        "budget": {"maxTokens": 1, "onExhaustion": "interrupt"}});
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    until(host, &run, "waiting-approval").await;
    run
}

fn payloads<'a>(log: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = log.iter().filter(|event| event["type"] == kind);
    of_kind.map(|event| &event["payload"]).collect()
}

#[rstest]
#[tokio::test]
async fn a_run_out_of_budget_waits_and_continues_with_more(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = evaluating(&database).await;
    host.equip(&says(&["a", "b", "c"])).await;
    let stopped = host.work();
    let run = used_up(&host).await;
    stopped.cancel();
    drop(host);

    let host = evaluating(&database).await;
    host.work();
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "waiting-approval");
    let asked = &snapshot["interrupt"];
    assert_eq!(
        (&asked["nodeId"], &asked["kind"]),
        (&json!("budget"), &json!("approval"))
    );
    assert_eq!(asked["data"]["artifactData"]["dimension"], "tokens");
    assert!(
        asked.get("interruptToken").is_none(),
        "raising the budget needs a key"
    );

    let reader = host
        .issue(|issue| issue.scopes = vec![Scope::RunsRead])
        .await;
    let path = format!("/v1/runs/{run}/interrupts/budget");
    let more = json!({"action": "accept", "budgetDelta": {"maxTokens": 1_000_000}});
    let call = host.request(Method::POST, &path).key(&reader);
    let refused = call.json(&json!({"resumeValue": more})).send().await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    for unclear in [
        json!({"action": "accept"}),
        json!({"action": "accept", "budgetDelta": {"maxToolCalls": 9}}),
    ] {
        let refused = answer(&host, &run, "budget", unclear).await;
        assert_eq!(refused.code(), "validation_error", "{refused:?}");
    }
    let elsewhere = answer(&host, &run, "task-1", more.clone()).await;
    assert_eq!(elsewhere.code(), "interrupt_not_found", "{elsewhere:?}");

    let accepted = answer(&host, &run, "budget", more).await;
    assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    let log = host.ended(&run).await;
    assert_eq!(log.last().unwrap()["type"], "run.completed");
    let bounds: Vec<&Value> = payloads(&log, "budget.reserved")
        .into_iter()
        .map(|payload| &payload["effectiveBudget"]["maxTokens"])
        .collect();
    assert_eq!(bounds, [&json!(1), &json!(1_000_001)]);
    assert_eq!(payloads(&log, "budget.exhausted").len(), 1);
    assert_eq!(payloads(&log, "eval.scored").len(), 3);
    let audit = host.get("/v1/host/touchstone/audit").await.json();
    let entries = audit["entries"].as_array().unwrap();
    let entry = &entries.last().unwrap()["entry"];
    assert_eq!(
        (&entry["action"], &entry["resource"]),
        (&json!("approval:accept"), &json!(format!("{run}/budget")))
    );
}

#[tokio::test]
async fn a_run_that_is_refused_more_budget_fails() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let run = used_up(&host).await;
    let rejected = answer(&host, &run, "budget", json!({"action": "reject"})).await;
    assert_eq!(rejected.status, StatusCode::OK, "{rejected:?}");
    let log = host.ended(&run).await;
    let failed = payloads(&log, "run.failed");
    assert_eq!(failed[0]["error"]["code"], "budget_exhausted");
    assert_eq!(payloads(&log, "cap.breached")[0]["kind"], "budget-tokens");
}

#[tokio::test]
async fn an_insufficient_budget_extension_interrupts_the_run_again() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let run = used_up(&host).await;
    let little = json!({"action": "accept", "budgetDelta": {"maxTokens": 1}});
    let accepted = answer(&host, &run, "budget", little).await;
    assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    let snapshot = until(&host, &run, "waiting-approval").await;
    assert_eq!(snapshot["interrupt"]["interruptId"], "int-budget-2");
    let cancelled = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert!(cancelled.status.is_success(), "{cancelled:?}");
    let log = host.ended(&run).await;
    assert_eq!(log.last().unwrap()["type"], "run.cancelled");
}
