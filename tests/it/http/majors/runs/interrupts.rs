//! Approvals and clarifications under major 2, by node and by token.

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::Sha256;
use touchstone_host::access::Scope;
use touchstone_host::ports::host_secrets::INTERRUPT_TOKENS;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::version::Majors;

use crate::http::majors::runs::calling::{opaque, payloads};
use crate::http::majors::{both, serving, under_v2};
use crate::http::support::host::{Reply, TestHost};
use crate::store::{Engine, TestStore};

async fn on(engine: Engine) -> Option<(TestHost, TestStore)> {
    let database = engine.database().await?;
    let host = TestHost::over(database.open().await, serving(Majors::Both)).await;
    host.work();
    Some((host, database))
}

async fn snapshot(host: &TestHost, run: &RunId) -> Value {
    let reply = under_v2(host, "GET", &format!("/runs/acme~2F{run}"));
    reply.send().await.json()
}

/// A run that waits for an answer.
async fn waiting(host: &TestHost, workflow: &str) -> RunId {
    let created = under_v2(host, "POST", "/runs").json(&json!({"workflowId": workflow}));
    let run = opaque(&created.send().await);
    let mut after = -1;
    loop {
        let shown = snapshot(host, &run).await;
        if shown["status"].as_str().unwrap().starts_with("waiting-") {
            return run;
        }
        let path = format!("/runs/acme~2F{run}/events/poll?timeout=20&afterSequence={after}");
        let page = under_v2(host, "GET", &path).send().await.json();
        assert_eq!(page["isTerminal"], false, "{page}");
        after = page["lastSequence"].as_i64().unwrap();
    }
}

async fn answer(host: &TestHost, major: Major, run: &RunId, node: &str, value: &Value) -> Reply {
    let body = json!({"resumeValue": value});
    match major {
        Major::V1 => {
            let path = format!("/v1/runs/{run}/interrupts/{node}");
            host.post(&path, &body).await
        }
        Major::V2 => {
            let path = format!("/runs/acme~2F{run}/interrupts/{node}");
            under_v2(host, "POST", &path).json(&body).send().await
        }
    }
}

async fn log(host: &TestHost, run: &RunId) -> Vec<Value> {
    let path = format!("/runs/acme~2F{run}/events/poll?timeout=1");
    let page = under_v2(host, "GET", &path).send().await.json();
    page["events"].as_array().unwrap().clone()
}

fn code(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.code())
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

async fn token(host: &TestHost, run: &RunId) -> String {
    let path = format!("/v1/host/touchstone/runs/{run}/interrupts");
    let pending = host.get(&path).await.json();
    let token = pending["interrupts"][0]["token"].as_str().unwrap();
    token.to_owned()
}

async fn by_token(host: &TestHost, method: &str, token: &str, action: &str) -> Reply {
    let call = under_v2(host, method, &format!("/interrupts/{token}")).anonymous();
    match method {
        "GET" => call.send().await,
        _ => {
            let body = json!({"resumeValue": {"action": action}});
            call.json(&body).send().await
        }
    }
}

#[rstest]
#[case::accept("accept", "granted", "completed")]
#[case::reject("reject", "rejected", "failed")]
#[tokio::test]
async fn a_decision_of_either_major_is_recorded_with_who_made_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(Major::V1, Major::V2)] major: Major,
    #[case] action: &str,
    #[case] decision: &str,
    #[case] status: &str,
) {
    let Some((host, _database)) = on(engine).await else {
        return;
    };
    let run = waiting(&host, "conformance-approval").await;
    let shown = snapshot(&host, &run).await;
    assert_eq!(shown["status"], "waiting-approval");
    assert_eq!(shown["currentNodeId"], "gate");
    let asked: Vec<&String> = shown["interrupt"].as_object().unwrap().keys().collect();
    assert!(
        asked
            .iter()
            .all(|it| ["kind", "key", "data", "resumeSchema", "timeoutMs"].contains(&it.as_str()))
    );

    let decided = answer(&host, major, &run, "gate", &json!({"action": action})).await;
    assert_eq!(decided.status.as_u16(), 200, "{}", decided.text());
    if major == Major::V2 {
        let body = decided.json();
        assert_eq!(
            (&body["runId"], &body["nodeId"]),
            (&json!(format!("acme/{run}")), &json!("gate"))
        );
        assert_eq!(body.as_object().unwrap().len(), 3);
    }
    host.ended_of(&run).await;
    let log = log(&host, &run).await;
    let suspended = payloads(&log, "node.suspended");
    let requested = payloads(&log, "interrupt.requested");
    let resolved = payloads(&log, "interrupt.resolved");
    assert_eq!(
        (suspended.len(), requested.len(), resolved.len()),
        (1, 1, 1)
    );
    let resolved = resolved[0];
    assert_eq!(resolved["interruptId"], suspended[0]["interruptId"]);
    assert!(
        resolved["interruptId"]
            .as_str()
            .unwrap()
            .starts_with("acme/int_")
    );
    assert_eq!(resolved["nodeId"], "gate");
    assert_eq!(
        (&resolved["action"], &resolved["decision"]),
        (&json!(action), &json!(decision))
    );
    let mut by: Vec<&String> = resolved["resolvedBy"].as_object().unwrap().keys().collect();
    by.sort_unstable();
    assert_eq!(by, ["issuer", "kind", "lane", "subjectId", "tenant"]);
    assert_eq!(resolved["resolvedBy"], shown["owner"]["subject"]);
    let shown = snapshot(&host, &run).await;
    assert_eq!(shown["status"], status);
    if action == "reject" {
        assert_eq!(shown["error"]["code"], "approval_rejected");
        let last = log.last().unwrap();
        assert_eq!(last["type"], "run.failed");
        assert_eq!(last["payload"]["error"]["code"], "approval_rejected");
        assert_eq!(last["payload"]["failedNodeId"], "gate");
        let failed = payloads(&log, "node.failed");
        assert_eq!(failed[0]["error"]["code"], "approval_rejected");
    }
    // Later answers are refused under each major.
    for major in [Major::V1, Major::V2] {
        let late = answer(&host, major, &run, "gate", &json!({"action": "accept"})).await;
        assert_eq!(code(&late), refused(409, "interrupt_already_resolved"));
    }
}

#[rstest]
#[tokio::test]
async fn of_simultaneous_decisions_one_counts(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some((host, _database)) = on(engine).await else {
        return;
    };
    let run = waiting(&host, "conformance-approval").await;
    let value = json!({"action": "accept"});
    let replies = tokio::join!(
        answer(&host, Major::V2, &run, "gate", &value),
        answer(&host, Major::V1, &run, "gate", &value),
        answer(&host, Major::V2, &run, "gate", &value),
        answer(&host, Major::V2, &run, "gate", &value),
    );
    let replies = [replies.0, replies.1, replies.2, replies.3];
    let won = replies.iter().filter(|it| it.status.as_u16() == 200);
    assert_eq!(won.count(), 1);
    for late in replies.iter().filter(|it| it.status.as_u16() != 200) {
        assert_eq!(code(late), refused(409, "interrupt_already_resolved"));
    }
    host.ended_of(&run).await;
    let log = log(&host, &run).await;
    assert_eq!(payloads(&log, "interrupt.resolved").len(), 1);
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused_and_the_run_keeps_waiting() {
    let host = both().await;
    host.work();
    let run = waiting(&host, "conformance-approval").await;
    for value in [
        json!({"action": "no-such-action"}),
        json!({"action": "timeout"}),
        json!({}),
    ] {
        let reply = answer(&host, Major::V2, &run, "gate", &value).await;
        assert_eq!(code(&reply), refused(400, "validation_error"), "{value}");
    }
    let path = format!("/runs/acme~2F{run}/interrupts/gate");
    for body in [
        json!({}),
        json!({"resumeValue": {"action": "accept"}, "bogus": 1}),
    ] {
        let reply = under_v2(&host, "POST", &path).json(&body).send().await;
        assert_eq!(code(&reply), refused(400, "validation_error"), "{body}");
    }
    let accept = json!({"action": "accept"});
    let unknown = answer(&host, Major::V2, &run, "no-such-node", &accept).await;
    assert_eq!(code(&unknown), refused(404, "not_found"));
    let unable = host.key_with(&[Scope::RunsRead]).await;
    let reply = under_v2(&host, "POST", &path).key(&unable);
    let reply = reply.json(&json!({"resumeValue": accept})).send().await;
    assert_eq!(code(&reply), refused(403, "forbidden"));
    let reply = under_v2(&host, "POST", &path).key(&host.other_key);
    let reply = reply.json(&json!({"resumeValue": accept})).send().await;
    assert_eq!(code(&reply), refused(403, "id_tenant_mismatch"));
    assert_eq!(snapshot(&host, &run).await["status"], "waiting-approval");
    // After a cancellation, the interrupt is gone.
    let cancel = format!("/runs/acme~2F{run}/cancel");
    let cancelled = under_v2(&host, "POST", &cancel)
        .json(&json!({}))
        .send()
        .await;
    assert_eq!(cancelled.status.as_u16(), 200);
    host.ended_of(&run).await;
    let late = answer(&host, Major::V2, &run, "gate", &accept).await;
    assert_eq!(code(&late), refused(409, "interrupt_already_resolved"));
}

#[tokio::test]
async fn a_clarification_is_answered_under_major_2() {
    let host = both().await;
    host.work();
    let run = waiting(&host, "conformance-clarification").await;
    let shown = snapshot(&host, &run).await;
    assert_eq!(shown["status"], "waiting-input");
    let node = shown["currentNodeId"].as_str().unwrap();
    let log_before = log(&host, &run).await;
    let asked = payloads(&log_before, "interrupt.requested")[0];
    assert_eq!(asked["kind"], "clarification");
    let questions = asked["data"]["questions"].as_array().unwrap().iter();
    let answers: serde_json::Map<String, Value> = questions
        .map(|it| (it["id"].as_str().unwrap().to_owned(), json!("blue")))
        .collect();
    let value = json!({"answers": answers});
    let reply = answer(&host, Major::V2, &run, node, &value).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    host.ended_of(&run).await;
    let log = log(&host, &run).await;
    let resolved = payloads(&log, "interrupt.resolved")[0];
    assert_eq!(resolved["resumeValue"], value);
    assert_eq!(snapshot(&host, &run).await["status"], "completed");
}

#[rstest]
#[tokio::test]
async fn a_token_names_its_form_and_answers_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some((host, _database)) = on(engine).await else {
        return;
    };
    let run = waiting(&host, "conformance-approval").await;
    let token = token(&host, &run).await;
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!((parts.len(), parts[0], parts[1]), (5, "ow2", "hs256"));

    let shown = by_token(&host, "GET", &token, "").await;
    assert_eq!(shown.status.as_u16(), 200, "{}", shown.text());
    let shown = shown.json();
    let members: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert!(
        members
            .iter()
            .all(|it| ["kind", "key", "data", "resumeSchema", "timeoutMs"].contains(&it.as_str()))
    );
    assert_eq!(shown["kind"], "approval");

    let [payload, mac] = [parts[3], parts[4]];
    for forged in [
        "ow2.hs256.nokid.e30.AAAA".to_owned(),
        "ow2.x".to_owned(),
        format!("ow2.none.{}.{payload}.{mac}", parts[2]),
        format!("ow2.hs256.00000000.{payload}.{mac}"),
        format!("ow2.hs256.{}.{payload}.{}", parts[2], "A".repeat(43)),
        format!("{token}x"),
        "nonsense".to_owned(),
    ] {
        for method in ["GET", "POST"] {
            let reply = by_token(&host, method, &forged, "accept").await;
            assert_eq!(
                code(&reply),
                refused(401, "interrupt_token_invalid"),
                "{forged}"
            );
        }
        let call = host.request(Method::GET, &format!("/v1/interrupts/{forged}"));
        let reply = call.anonymous().send().await;
        assert_eq!(
            code(&reply),
            refused(404, "interrupt_not_found"),
            "{forged}"
        );
    }
    let wrong = by_token(&host, "POST", &token, "maybe").await;
    assert_eq!(code(&wrong), refused(400, "validation_error"));
    let taken = by_token(&host, "POST", &token, "accept").await;
    assert_eq!(taken.status.as_u16(), 200, "{}", taken.text());
    let taken = taken.json();
    assert_eq!(taken["runId"], format!("acme/{run}"));
    host.ended_of(&run).await;
    for method in ["GET", "POST"] {
        let late = by_token(&host, method, &token, "accept").await;
        assert_eq!(code(&late), refused(409, "interrupt_already_resolved"));
    }
    let log = log(&host, &run).await;
    let resolved = payloads(&log, "interrupt.resolved")[0];
    assert_eq!(resolved["decision"], "granted");
}

#[tokio::test]
async fn a_token_expires() {
    let host = both().await;
    host.work();
    let run = waiting(&host, "conformance-approval").await;
    let token = token(&host, &run).await;
    host.clock.pass(SignedDuration::from_mins(31));
    for method in ["GET", "POST"] {
        let late = by_token(&host, method, &token, "accept").await;
        assert_eq!(code(&late), refused(410, "interrupt_expired"));
    }
}

/// Tokens that were sent before this form are still in mailboxes.
#[tokio::test]
async fn a_token_of_an_earlier_version_is_taken_under_both_majors() {
    let host = both().await;
    host.work();
    for major in [Major::V1, Major::V2] {
        let run = waiting(&host, "conformance-approval").await;
        let token = token(&host, &run).await;
        let payload = token.split('.').nth(3).unwrap();
        let secret = host.store.host_secret(INTERRUPT_TOKENS, [0; 32]).await;
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.unwrap()).unwrap();
        mac.update(&URL_SAFE_NO_PAD.decode(payload).unwrap());
        let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        let of_before = format!("{payload}.{mac}");
        let (path, version) = match major {
            Major::V1 => (format!("/v1/interrupts/{of_before}"), "1.0"),
            Major::V2 => (format!("/interrupts/{of_before}"), "2.0"),
        };
        let call = host.request(Method::POST, &path).anonymous();
        let call = call.header("openwop-version", version);
        let taken = call.json(&json!({"resumeValue": {"action": "accept"}}));
        let taken = taken.send().await;
        assert_eq!(taken.status.as_u16(), 200, "{}", taken.text());
        host.ended_of(&run).await;
    }
}
