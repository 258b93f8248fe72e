//! Webhook subscriptions through the API, and the deliveries to their endpoints.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_openwop::wire::Major;

use crate::http::support::host::{AGENT, Reply, TestHost, create_body, says};
use crate::support::asyncapi;
use crate::webhooks::receiver::{Answer, Received, Receiver};

const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn body(url: &str) -> Value {
    json!({"url": url, "events": ["run.completed", "eval.scored"]})
}

fn standard(url: &str) -> Value {
    let mut body = body(url);
    body["signatureAlgorithms"] = json!(["v1", "standard-webhooks-1"]);
    body["secret"] = json!(STANDARD_SECRET);
    body
}

async fn register(host: &TestHost, body: &Value) -> Reply {
    host.post("/v1/webhooks", body).await
}

async fn listed(host: &TestHost) -> Vec<Value> {
    let listed = host.get("/v1/host/touchstone/webhooks").await.json();
    listed["webhooks"].as_array().unwrap().clone()
}

async fn delete(host: &TestHost, path: &str) -> Reply {
    host.request(Method::DELETE, path).send().await
}

#[tokio::test]
async fn events_of_a_run_are_delivered_with_signatures() {
    let host = TestHost::working(&says(&["a", "wrong", "c"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(204)).await;
    let foreign = Receiver::start(Answer::Status(204)).await;
    let made = register(&host, &body(&receiver.url())).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    let other = host
        .request(Method::POST, "/v1/webhooks")
        .key(&host.other_key)
        .json(&body(&foreign.url()))
        .send()
        .await;
    assert_eq!(other.status, StatusCode::CREATED);
    let run = host.create().await;
    let log = host.ended(&run).await;
    let wanted: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "eval.scored" || event["type"] == "run.completed")
        .collect();
    assert_eq!(wanted.len(), 4);
    let got = receiver.wait_for(4).await;
    let secret = made["secret"].as_str().unwrap();
    for (received, event) in got.iter().zip(&wanted) {
        let document = received.json();
        asyncapi::check_delivery(Major::V1, &document);
        assert_eq!(&&document["event"], event);
        assert_eq!(document["runId"], run.as_str());
        assert_eq!(document["workspaceId"], "acme");
        assert_eq!(document["type"], event["type"]);
        assert!(received.is_signed_by(secret));
        assert_eq!(
            received.header("x-openwop-webhook-id"),
            made["webhookId"].as_str()
        );
        assert_eq!(
            received.header("x-openwop-event-type"),
            event["type"].as_str()
        );
        assert_eq!(
            received.header("x-openwop-signature"),
            received.header("openwop-signature")
        );
        assert_eq!(received.header("x-openwop-signature-algorithm"), Some("v1"));
        assert_eq!(received.header("content-type"), Some("application/json"));
        let agent = received.header("user-agent").unwrap();
        assert!(agent.starts_with("openwop-webhook-dispatcher/"), "{agent}");
        assert_eq!(received.header("webhook-id"), None, "not asked for");
        assert!(!String::from_utf8_lossy(&received.body).contains(secret));
    }
    assert!(foreign.got().is_empty(), "another tenant's run");
}

#[tokio::test]
async fn a_registration_names_its_subscription_in_both_vocabularies_and_its_secret_once() {
    let host = TestHost::idle().await;
    let made = register(&host, &body("http://127.0.0.1:9999/h"))
        .await
        .json();
    assert_eq!(made["webhookId"], made["subscriptionId"]);
    assert_eq!(made["events"], made["eventTypes"]);
    assert_eq!(made["url"], "http://127.0.0.1:9999/h");
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 64);
    let fingerprint = {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(secret.as_bytes());
        digest[..4]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    };
    assert_eq!(made["secretFingerprint"], fingerprint);
    let mut brought = body("http://127.0.0.1:9999/h");
    brought["secret"] = json!("brought-along-0123456789");
    let brought = register(&host, &brought).await.json();
    assert_eq!(brought["secret"], "brought-along-0123456789");
    let listed = host.get("/v1/host/touchstone/webhooks").await;
    assert!(!listed.text().contains(secret));
    assert!(!listed.text().contains("brought-along"));
    let listed = listed.json();
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 2);
    assert_eq!(listed["webhooks"][0]["state"], "active");
    assert_eq!(listed["webhooks"][0]["secretFingerprint"], fingerprint);
}

#[rstest]
#[case::metadata("https://169.254.169.254/x")]
#[case::private("https://10.0.0.8/x")]
#[case::loopback_v6("https://[::1]/x")]
#[case::mapped("https://[::ffff:127.0.0.1]/x")]
#[case::nat64("https://[64:ff9b::a00:8]/x")]
#[case::unique_local("https://[fd00::1]/x")]
#[case::carrier("https://100.64.0.1/x")]
#[case::this_network("https://0.0.0.0/x")]
#[case::localhost("https://localhost/x")]
#[case::localhost_dot("https://localhost./x")]
#[case::below_localhost("https://a.localhost/x")]
#[case::metadata_name("https://metadata.google.internal/x")]
#[case::metadata_short("https://metadata/x")]
#[case::number("https://2130706433/x")]
#[case::octal("https://0177.0.0.1/x")]
#[case::plain("http://example.com/x")]
#[case::plain_public("http://9.9.9.9/x")]
#[case::another_port("http://127.0.0.1:9/x")]
#[case::credentials("https://user:canary@9.9.9.9/x")]
#[case::ftp("ftp://9.9.9.9/x")]
#[tokio::test]
async fn webhook_urls_with_internal_hosts_are_rejected(#[case] url: &str) {
    let host = TestHost::idle().await;
    let refused = register(&host, &body(url)).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "webhook_url_rejected".to_owned())
    );
    assert!(!refused.text().contains("canary"));
    assert!(listed(&host).await.is_empty());
}

#[tokio::test]
async fn malformed_subscriptions_are_validation_errors() {
    let host = TestHost::idle().await;
    for bad in [
        json!({"events": ["run.completed"]}),
        json!({"url": "not a url", "events": ["run.completed"]}),
        json!({"url": "https://example.com/", "events": []}),
        json!({"url": "https://example.com/", "events": ["run.completed"], "more": 1}),
    ] {
        let refused = register(&host, &bad).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::BAD_REQUEST, "validation_error".to_owned()),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_subscription_belongs_to_its_tenant() {
    let host = TestHost::idle().await;
    let mut foreign = body("http://127.0.0.1:9999/h");
    foreign["tenantId"] = json!("globex");
    assert_eq!(
        register(&host, &foreign).await.status,
        StatusCode::FORBIDDEN
    );
    foreign["tenantId"] = json!("acme");
    let made = register(&host, &foreign).await.json();
    let path = format!("/v1/webhooks/{}", made["webhookId"].as_str().unwrap());
    let other = host
        .request(Method::DELETE, &path)
        .key(&host.other_key)
        .send()
        .await;
    let absent = delete(&host, "/v1/webhooks/wh_absent").await;
    assert_eq!(
        (absent.status, absent.code()),
        (StatusCode::NOT_FOUND, "subscription_not_found".to_owned())
    );
    assert_eq!((other.status, other.json()), (absent.status, absent.json()));
    let elsewhere = delete(&host, &format!("{path}?tenantId=globex")).await;
    assert_eq!(elsewhere.status, StatusCode::FORBIDDEN);
    let gone = delete(&host, &format!("{path}?tenantId=acme")).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(delete(&host, &path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn registration_and_removal_are_carried_out_once_under_one_key() {
    let host = TestHost::idle().await;
    let send = async || {
        host.request(Method::POST, "/v1/webhooks")
            .header("idempotency-key", "k1")
            .json(&body("http://127.0.0.1:9999/h"))
            .send()
            .await
    };
    let (first, second) = (send().await, send().await);
    assert_eq!(first.json(), second.json());
    assert_eq!(second.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(listed(&host).await.len(), 1);
    let id = first.json()["webhookId"].as_str().unwrap().to_owned();
    for replayed in [None, Some("true")] {
        let gone = host
            .request(Method::DELETE, &format!("/v1/webhooks/{id}"))
            .header("idempotency-key", "k2")
            .send()
            .await;
        assert_eq!(gone.status, StatusCode::NO_CONTENT);
        assert_eq!(gone.header("openwop-idempotent-replay"), replayed);
    }
}

#[tokio::test]
async fn deployment_transitions_are_delivered_although_their_runs_end_at_creation() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(204)).await;
    let wants = json!({"url": receiver.url(), "events": ["deployment.promoted"]});
    assert_eq!(register(&host, &wants).await.status, StatusCode::CREATED);
    let moved = host
        .post(
            &format!("/v1/agents/{AGENT}/deployments"),
            &json!({"version": "1.0.0", "transition": "promote"}),
        )
        .await;
    assert_eq!(moved.status, StatusCode::OK, "{moved:?}");
    let told = receiver.wait_for(1).await[0].json();
    asyncapi::check_delivery(Major::V1, &told);
    assert_eq!(told["event"]["payload"]["toState"], "test");
}

#[tokio::test]
async fn a_callback_receives_only_the_end_of_its_run() {
    let host = TestHost::working(&says(&["a"])).await;
    host.dispatch();
    let (receiver, everything) = (
        Receiver::start(Answer::Status(204)).await,
        Receiver::start(Answer::Status(204)).await,
    );
    let mut wants = create_body();
    wants["callbackUrl"] = json!(receiver.url());
    let made = host.post("/v1/runs", &wants).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    assert!(listed(&host).await.is_empty(), "it is not a subscription");
    register(&host, &body(&everything.url())).await;
    let run = host.create().await;
    host.ended(&run).await;
    let told = &receiver.wait_for(1).await[0];
    everything.wait_for(2).await;
    asyncapi::check_delivery(Major::V1, &told.json());
    assert_eq!(told.json()["runId"], made["runId"]);
    assert_eq!(told.json()["event"]["type"], "run.completed");
    assert!(told.is_signed_by(made["callbackSecret"].as_str().unwrap()));
    assert_eq!(receiver.got().len(), 1, "other runs are not delivered");
    let plain = host.post("/v1/runs", &create_body()).await.json();
    assert_eq!(plain.get("callbackSecret"), None);
}

#[tokio::test]
async fn a_callback_with_an_internal_host_is_rejected_and_no_run_is_created() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    for url in ["https://169.254.169.254/latest", "http://example.com/h"] {
        let mut wants = create_body();
        wants["callbackUrl"] = json!(url);
        let refused = host.post("/v1/runs", &wants).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::BAD_REQUEST, "webhook_url_rejected".to_owned())
        );
        assert_eq!(refused.json()["details"]["field"], "callbackUrl");
    }
    assert!(host.recorded().await.is_empty());
}

#[tokio::test]
async fn nothing_is_delivered_after_removal_or_for_other_tags() {
    let host = TestHost::working(&says(&["a"])).await;
    host.dispatch();
    let (removed, tagged, all) = (
        Receiver::start(Answer::Status(200)).await,
        Receiver::start(Answer::Status(200)).await,
        Receiver::start(Answer::Status(200)).await,
    );
    let made = register(&host, &body(&removed.url())).await.json();
    let mut wants = body(&tagged.url());
    wants["tags"] = json!(["nightly", "weekly"]);
    assert_eq!(register(&host, &wants).await.status, StatusCode::CREATED);
    register(&host, &body(&all.url())).await;
    let path = format!("/v1/webhooks/{}", made["webhookId"].as_str().unwrap());
    assert_eq!(delete(&host, &path).await.status, StatusCode::NO_CONTENT);
    let mut runs = Vec::new();
    for tags in [json!([]), json!(["daily"]), json!(["x", "weekly"])] {
        let mut run = create_body();
        run["tags"] = tags;
        runs.push(host.post("/v1/runs", &run).await.json()["runId"].clone());
    }
    let got = tagged.wait_for(2).await;
    assert!(
        got.iter()
            .all(|received| received.json()["runId"] == runs[2])
    );
    assert_eq!(all.wait_for(6).await.len(), 6);
    assert_eq!(tagged.got().len(), 2);
    assert!(removed.got().is_empty());
}

#[tokio::test]
async fn standard_webhooks_require_a_verified_endpoint() {
    let host = TestHost::idle().await;
    let elsewhere = Receiver::start(Answer::Echo).await;
    for refusal in [
        Answer::Status(200),
        Answer::Status(500),
        Answer::Redirect(elsewhere.address),
    ] {
        let receiver = Receiver::start(refusal).await;
        let refused = register(&host, &standard(&receiver.url())).await;
        assert_eq!(
            (refused.status, refused.code()),
            (
                StatusCode::BAD_REQUEST,
                "webhook_endpoint_unverified".to_owned()
            ),
            "{refusal:?}"
        );
        assert_eq!(receiver.got().len(), 1, "it is called once");
    }
    assert!(elsewhere.got().is_empty());
    assert!(listed(&host).await.is_empty());

    let receiver = Receiver::start(Answer::Echo).await;
    let made = register(&host, &standard(&receiver.url())).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert!(!made.text().contains("whsec_"));
    assert_eq!(
        made.json()["signatureAlgorithms"],
        json!(["v1", "standard-webhooks-1"])
    );
    let asked = &receiver.got()[0];
    asyncapi::check_verification(&asked.json());
    assert_eq!(asked.standard_entries(STANDARD_SECRET), [true]);
    assert_eq!(asked.header("openwop-event-type"), None);

    // Endpoints without a subscription to an event are not called.
    let silent = Receiver::start(Answer::Status(500)).await;
    let made = register(&host, &body(&silent.url())).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert!(silent.got().is_empty());
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_previous_one() {
    let host = TestHost::working(&says(&["a"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Echo).await;
    let plain = register(&host, &body("http://127.0.0.1:9999/h"))
        .await
        .json();
    let made = register(&host, &standard(&receiver.url())).await.json();
    let path = |made: &Value| {
        format!(
            "/v1/webhooks/{}/rotate-secret?tenantId=acme",
            made["webhookId"].as_str().unwrap()
        )
    };
    host.create().await;
    let new = format!("whsec_{}", STANDARD.encode([9; 32]));
    let rotation = json!({"secret": new});
    let deliveries = |from: usize| {
        let receiver = &receiver;
        async move {
            let got = receiver.wait_for(from + 2).await;
            got.into_iter()
                .skip(from)
                .take(2)
                .collect::<Vec<Received>>()
        }
    };
    let before = deliveries(1).await;
    assert!(before.iter().all(|received| {
        received.standard_entries(STANDARD_SECRET) == [true]
            && received.is_signed_by(STANDARD_SECRET)
            && received.header("webhook-timestamp") == received.header("openwop-timestamp")
    }));
    assert_ne!(
        before[0].header("webhook-id"),
        before[1].header("webhook-id")
    );

    let rotated = host.post(&path(&made), &rotation).await;
    assert_eq!(rotated.status, StatusCode::OK, "{rotated:?}");
    assert!(!rotated.text().contains("whsec_"));
    let audit = host.get("/v1/host/touchstone/audit").await.text();
    assert!(audit.contains("webhooks:rotate"), "{audit}");
    assert_eq!(
        listed(&host).await[1]["previousSecretExpiresAt"],
        rotated.json()["previousSecretExpiresAt"]
    );
    host.create().await;
    for received in deliveries(3).await {
        assert_eq!(received.standard_entries(&new), [true, false]);
        assert_eq!(received.standard_entries(STANDARD_SECRET), [false, true]);
        assert!(
            received.is_signed_by(STANDARD_SECRET),
            "the one signature stays"
        );
    }
    for (path, body, status) in [
        (path(&plain), &rotation, StatusCode::BAD_REQUEST),
        (
            path(&made),
            &json!({"secret": "short"}),
            StatusCode::BAD_REQUEST,
        ),
        (path(&made), &json!({}), StatusCode::BAD_REQUEST),
        (
            path(&made).replace("acme", "globex"),
            &rotation,
            StatusCode::FORBIDDEN,
        ),
        (
            "/v1/webhooks/wh_absent/rotate-secret".to_owned(),
            &rotation,
            StatusCode::NOT_FOUND,
        ),
    ] {
        assert_eq!(host.post(&path, body).await.status, status, "{path} {body}");
    }
}

/// The last deliveries, once there are this many.
async fn delivered(host: &TestHost, webhook: &str, many: usize) -> Vec<Value> {
    let path = format!("/v1/host/touchstone/webhooks/{webhook}/deliveries");
    loop {
        let listed = host.get(&path).await;
        assert_eq!(listed.status, StatusCode::OK, "{listed:?}");
        let listed = listed.json()["deliveries"].as_array().unwrap().clone();
        if listed.len() >= many {
            return listed;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_delivery_is_listed_and_sent_again_with_its_id() {
    let host = TestHost::working(&says(&["secret words", "b"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Echo).await;
    let made = register(&host, &standard(&receiver.url())).await.json();
    let webhook = made["webhookId"].as_str().unwrap();
    let run = host.create().await;
    host.ended(&run).await;
    let listed = delivered(&host, webhook, 3).await;
    let last = &listed[0];
    assert_eq!(last["eventType"], "run.completed", "{listed:#?}");
    assert_eq!(
        (
            &last["state"],
            &last["status"],
            &last["attempts"],
            &last["replay"]
        ),
        (&json!("delivered"), &json!(200), &json!(1), &json!(false))
    );
    assert!(!json!(listed).to_string().contains("secret words"));

    let deliveries = format!("/v1/host/touchstone/webhooks/{webhook}/deliveries");
    let first = listed.iter().find(|it| it["eventType"] == "eval.scored");
    let first = first.unwrap()["sequence"].as_u64().unwrap();
    let number = listed.iter().find(|it| it["sequence"] == first).unwrap()["number"].clone();
    let replay = format!("{deliveries}/{number}/replay");
    let before = receiver.got();
    let again = host.post(&replay, &json!({})).await;
    assert_eq!(again.status, StatusCode::OK, "{again:?}");
    let again = again.json();
    assert_eq!(
        (&again["attempts"], &again["replay"]),
        (&json!(2), &json!(true))
    );
    let got = receiver.wait_for(before.len() + 1).await;
    let sent = got.last().unwrap();
    // The verification of the endpoint has no event.
    let of_event = |it: &&Received| it.json()["event"]["sequence"] == first;
    let original = before.iter().find(of_event).unwrap();
    assert_eq!(sent.header("webhook-id"), original.header("webhook-id"));
    assert_eq!(sent.body, original.body);
    assert!(sent.standard_entries(STANDARD_SECRET).iter().all(|it| *it));

    receiver.answer(Answer::Status(500));
    let failed = host.post(&replay, &json!({})).await.json();
    assert_eq!(
        (&failed["state"], &failed["status"]),
        (&json!("failed"), &json!(500))
    );
    assert_eq!(
        listed_state(&host).await,
        "active",
        "a replay trips no breaker"
    );
    let page = host.get(&format!("{deliveries}?limit=2")).await.json();
    let next = page["nextCursor"].as_str().unwrap();
    let rest = host
        .get(&format!("{deliveries}?limit=200&cursor={next}"))
        .await;
    assert_eq!(rest.json()["deliveries"].as_array().unwrap().len(), 3);
}

async fn listed_state(host: &TestHost) -> String {
    listed(host).await[0]["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_replay_is_refused_if_the_event_is_gone_or_another_tenants() {
    let host = TestHost::working(&says(&["a"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(204)).await;
    let made = register(&host, &body(&receiver.url())).await.json();
    let webhook = made["webhookId"].as_str().unwrap();
    let run = host.create().await;
    host.ended(&run).await;
    let number = delivered(&host, webhook, 2).await[0]["number"].clone();
    let replay = format!("/v1/host/touchstone/webhooks/{webhook}/deliveries/{number}/replay");
    let foreign = host.request(Method::POST, &replay).key(&host.other_key);
    assert_eq!(foreign.send().await.status, StatusCode::NOT_FOUND);
    let unknown = replay.replace(&format!("/{number}/"), "/999/");
    let unknown = host.post(&unknown, &json!({})).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{unknown:?}");

    let deleted = delete(&host, &format!("/v1/host/touchstone/runs/{run}")).await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    let refused = host.post(&replay, &json!({})).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{refused:?}");
    assert!(refused.text().contains("deleted with its run"));
    assert_eq!(receiver.got().len(), 2);
}
