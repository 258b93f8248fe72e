//! Hosts are killed while deployments change: every change is applied completely or not at all, and
//! no acknowledged change is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Engine, TENANT, seed};
use crate::process::api::Api;
use crate::process::{AGENT, Host, Site};

const KILLS: usize = 8;
const CLIENTS: usize = 3;
const CONFIG: &str = "touchstone.toml";

fn path() -> String {
    format!("/v1/agents/{AGENT}/deployments")
}

async fn site(engine: Engine) -> Option<Site> {
    match engine {
        Engine::Sqlite => Some(Site::embedded()),
        Engine::Postgres => Site::on_postgres().await,
    }
}

/// A key with the scopes for all of it.
fn key(site: &Site) -> String {
    let scopes = [
        "manifest:read",
        "runs:read",
        "packs:install",
        "gates:write",
        "deploy:promote",
        "audit:read",
        "approvals:respond",
    ];
    site.key_of(TENANT, &scopes)
}

/// Sends a request that a running host must answer with this status.
async fn post(api: &Api, path: &str, body: Value, expected: StatusCode) -> Value {
    let (status, text) = api.text(Method::POST, path, Some(&body)).await;
    assert_eq!(status, expected, "{body}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The audit entries of one applied action.
async fn done(api: &Api, action: &str) -> Vec<Value> {
    let verified = api.get("/v1/audit/verify").await;
    assert_eq!(verified["chainValid"], true, "{verified}");
    let listed = api.get("/v1/host/touchstone/audit?limit=1000").await;
    let entries = listed["entries"].as_array().unwrap();
    assert!(entries.len() < 1000, "all entries are verified");
    let entries = entries.iter().map(|kept| &kept["entry"]);
    entries
        .filter(|entry| entry["action"] == action && entry["outcome"] == "done")
        .cloned()
        .collect()
}

/// Takes the version into service, with an approval that one host requests before it is killed and
/// another host receives.
async fn into_service(site: &Site, mut host: Host, key: &str) -> Host {
    let policy = json!({"eval": null, "approval": {"requiredScope": "approvals:respond"}});
    post(
        &host.api(key),
        "/v1/host/touchstone/gates",
        json!({"policy": policy}),
        StatusCode::OK,
    )
    .await;
    let promote = json!({"version": "1.0.0", "transition": "promote"});
    for _ in 0..2 {
        post(&host.api(key), &path(), promote.clone(), StatusCode::OK).await;
    }
    let mut into = promote;
    into["channel"] = json!("stable");
    let refused = post(&host.api(key), &path(), into.clone(), StatusCode::FORBIDDEN).await;
    let gate = refused["details"]["approvalGateId"]
        .as_str()
        .unwrap()
        .to_owned();
    host.kill();
    host = site.serve(CONFIG);
    let api = host.api(key);
    let mut last = 0;
    while !api.get(&format!("/v1/runs/{gate}")).await["status"].eq("waiting-approval") {
        let (events, complete) = api.poll(&gate, last, 5).await.unwrap();
        last += events.len() as u64;
        assert!(!complete, "no approval was requested: {events:?}");
    }
    host.kill();
    host = site.serve(CONFIG);
    let api = host.api(key);
    let answer = json!({"resumeValue": {"action": "accept"}});
    post(
        &api,
        &format!("/v1/runs/{gate}/interrupts/gate"),
        answer,
        StatusCode::OK,
    )
    .await;
    api.log(&gate).await;
    let active = post(&api, &path(), into, StatusCode::OK).await;
    assert_eq!(active["approvalGateId"], gate.as_str());
    // From here on promotions need no approval, so the share can change at any moment.
    let policy = json!({"policy": {"eval": null}});
    post(&api, "/v1/host/touchstone/gates", policy, StatusCode::OK).await;
    host
}

/// Result of each request: acknowledged, or its host was killed.
type Fates = Arc<Mutex<Vec<(String, bool)>>>;

/// Changes the share repeatedly, each time with a distinct label.
async fn change(client: usize, hosts: Arc<Mutex<Vec<Api>>>, fates: Fates, end: CancellationToken) {
    let mut n = client;
    while !end.is_cancelled() {
        n += CLIENTS;
        let api = {
            let hosts = hosts.lock().unwrap();
            hosts[n % hosts.len()].clone()
        };
        let label = format!("change-{n}");
        let body = json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": n % 101, "reason": label});
        let answered = match api.send(Method::POST, &path(), Some(&body)).await {
            Ok(reply) => {
                let (status, text) = (reply.status(), reply.text().await);
                assert!(
                    text.is_err() || status == StatusCode::OK,
                    "{status}: {text:?}"
                );
                text.is_ok()
            }
            Err(_) => {
                // The host is gone; another one starts soon.
                tokio::time::sleep(Duration::from_millis(20)).await;
                false
            }
        };
        fates.lock().unwrap().push((label, answered));
    }
}

#[rstest]
#[case::embedded(Engine::Sqlite, 1)]
#[case::one_host(Engine::Postgres, 1)]
#[case::replicas(Engine::Postgres, 2)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_leaves_no_half_of_a_transition(#[case] engine: Engine, #[case] replicas: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    let Some(site) = site(engine).await else {
        return;
    };
    site.configure(CONFIG, "[worker]\nlease_s = 3\n");
    let key = key(&site);
    let host = site.serve(CONFIG);
    site.install_agent(&host.api(&key), "Say the word.", &json!({}));
    let mut living = vec![into_service(&site, host, &key).await];
    living.extend((1..replicas).map(|_| site.serve(CONFIG)));

    let apis = Arc::new(Mutex::new(
        living.iter().map(|host| host.api(&key)).collect::<Vec<_>>(),
    ));
    let (fates, end) = (Fates::default(), CancellationToken::new());
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(change(client, apis.clone(), fates.clone(), end.clone()));
    }
    let answered = || {
        fates
            .lock()
            .unwrap()
            .iter()
            .filter(|(_, answered)| *answered)
            .count()
    };
    for _ in 0..KILLS {
        // However slow the machine is, some request succeeded between two kills.
        let before = answered();
        tokio::time::sleep(Duration::from_millis(dice.random_range(20..250))).await;
        while answered() < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let victim = dice.random_range(0..living.len());
        living.remove(victim).kill();
        let next = site.serve(CONFIG);
        apis.lock().unwrap()[victim] = next.api(&key);
        living.insert(victim, next);
    }
    end.cancel();
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }

    let api = living[0].api(&key);
    let entries = done(&api, "deployment:adjust-canary").await;
    let mut told: Vec<String> = Vec::new();
    let mut share = json!(100);
    let mut record = Value::Null;
    for entry in &entries {
        let reason = entry["reasons"][0].as_str().unwrap();
        told.push(reason.strip_prefix("said: ").unwrap().to_owned());
        let log = api.log(entry["runId"].as_str().unwrap()).await;
        let changed = &log
            .iter()
            .find(|event| event["type"] == "deployment.canary.adjusted")
            .unwrap()["payload"];
        assert_eq!(
            changed["fromPercent"], share,
            "nothing was lost before {reason}"
        );
        share = changed["toPercent"].clone();
        record = log.last().unwrap()["payload"]["outputs"].clone();
    }
    let fates = fates.lock().unwrap().clone();
    let acknowledged = fates.iter().filter(|(_, answered)| *answered).count();
    assert!(
        acknowledged > KILLS,
        "only {acknowledged} changes between {KILLS} kills"
    );
    for (label, answered) in &fates {
        let times = told.iter().filter(|other| *other == label).count();
        assert!(
            times == 1 || (times == 0 && !answered),
            "{label} was applied {times} times"
        );
    }
    assert!(
        told.iter()
            .all(|label| fates.iter().any(|(known, _)| known == label))
    );
    assert_eq!(api.get(&path()).await, json!([record]));
}
