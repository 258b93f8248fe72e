//! Quotas, deletion of runs, legal holds, retention.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use touchstone::database;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_packs::store as pack_store;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_runs::storage::{ContentRetention, Quotas, Retention};
use touchstone_runs::store as run_store;

use crate::http::support::host::{
    AGENT, Lab, Reply, SUITE, TestHost, create_body, echo_pack_of, says, suite,
};
use crate::support::host_keys;

async fn host(dir: &tempfile::TempDir, quotas: Quotas, retention: Retention) -> TestHost {
    let store = database::open(
        dir.path().join("host.db").to_str().unwrap(),
        host_keys::usual(),
    )
    .await
    .unwrap();
    let lab = Lab {
        quotas,
        retention,
        ..Lab::default()
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    TestHost::lab(store, HttpSettings::default(), place, lab).await
}

fn path(run: &RunId) -> String {
    format!("/v1/host/touchstone/runs/{run}")
}

async fn delete(host: &TestHost, run: &RunId) -> Reply {
    host.request(Method::DELETE, &path(run)).send().await
}

async fn audited(host: &TestHost, action: &str) -> Vec<String> {
    let entries = host.store.audit_entries(&"acme".into(), 0, 100).await;
    let bodies = entries.unwrap().into_iter().map(|entry| entry.body);
    bodies.filter(|body| body.contains(action)).collect()
}

#[tokio::test]
async fn an_exceeded_quota_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        max_packs: 1,
        max_suites: 1,
        max_runs: 2,
        max_bytes: 0,
    };
    let host = host(&dir, quotas, Retention::default()).await;
    host.equip(&says(&["a"])).await;
    host.work();
    // Installing the same pack again adds nothing.
    host.equip(&says(&["a"])).await;
    let mut other = suite(&says(&["b"]));
    other["version"] = json!("2.0.0");
    let refused = host.post("/v1/host/touchstone/suites", &other).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::FORBIDDEN, "quota_exceeded".to_owned())
    );
    assert_eq!(
        refused.json()["details"],
        json!({"quota": "max_suites", "limit": 1, "used": 1})
    );
    let (first, second) = (host.create().await, host.create().await);
    host.ended(&first).await;
    host.ended(&second).await;
    let refused = host.post("/v1/runs", &create_body()).await;
    assert_eq!(refused.code(), "quota_exceeded");
    assert_eq!(refused.json()["details"]["quota"], "max_runs");
    let usage = host.get("/v1/host/touchstone/usage").await.json();
    assert_eq!(usage["runs"], json!({"used": 2, "quota": 2}));
    assert_eq!(usage["bytes"]["quota"], Value::Null);
    // Each tenant has a separate quota.
    let others = host
        .request(Method::GET, "/v1/host/touchstone/usage")
        .key(&host.other_key)
        .send()
        .await;
    assert_eq!(others.json()["runs"]["used"], 0);
    assert_eq!(delete(&host, &first).await.status, StatusCode::OK);
    host.create().await;
}

#[tokio::test]
async fn quotas_of_packs_and_bytes_refuse_what_exceeds_them() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        max_packs: 1,
        ..Quotas::default()
    };
    let packs = host(&dir, quotas, Retention::default()).await;
    packs.install("1.0.0").await;
    let second = json!({"tarball": STANDARD.encode(echo_pack_of("2.0.0"))});
    let refused = packs.post("/v1/host/touchstone/packs", &second).await;
    assert_eq!(refused.code(), "quota_exceeded");
    assert_eq!(
        refused.json()["details"],
        json!({"quota": "max_packs", "limit": 1, "used": 1})
    );

    let dir = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        max_bytes: 1,
        ..Quotas::default()
    };
    let bytes = host(&dir, quotas, Retention::default()).await;
    for (path, body) in [
        ("/v1/host/touchstone/packs", &second),
        ("/v1/host/touchstone/suites", &suite(&says(&["a"]))),
    ] {
        let refused = bytes.post(path, body).await;
        assert_eq!(refused.code(), "quota_exceeded", "{path}");
        assert_eq!(refused.json()["details"]["quota"], "max_bytes", "{path}");
    }
    for path in ["packs", "suites"] {
        let listed = bytes.get(&format!("/v1/host/touchstone/{path}")).await;
        assert_eq!(listed.json()[path], json!([]));
    }
}

#[tokio::test]
async fn suites_that_are_added_and_removed_again_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        max_suites: 1,
        ..Quotas::default()
    };
    let host = host(&dir, quotas, Retention::default()).await;
    for round in 0..3 {
        let added = suite(&says(&[&format!("round {round}")]));
        let imported = host.post("/v1/host/touchstone/suites", &added).await;
        assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
        let digest = imported.json()["digest"].as_str().unwrap().to_owned();
        assert!(
            pack_store::blobs::get(&host.store, &digest)
                .await
                .unwrap()
                .is_some()
        );
        let member = format!(
            "/v1/host/touchstone/suites/{}/{}",
            added["suiteId"].as_str().unwrap(),
            added["version"].as_str().unwrap()
        );
        let removed = host.request(Method::DELETE, &member).send().await;
        assert_eq!(removed.status, StatusCode::OK, "{removed:?}");
        assert_eq!(
            pack_store::blobs::get(&host.store, &digest).await.unwrap(),
            None
        );
    }
}

#[tokio::test]
async fn a_deleted_eval_run_is_unreadable_and_its_content_is_gone() {
    let host = TestHost::working(&says(&["canary-seven", "wrong"])).await;
    let mut body = create_body();
    body["metadata"] = json!({"note": "canary-eight"});
    let created = host.post("/v1/runs", &body).await.json();
    let run: RunId = created["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    let noted = json!({"signal": {"kind": "flag"}, "note": "canary-nine"});
    host.post(&format!("/v1/runs/{run}/annotations"), &noted)
        .await;
    let scored = |log: &[touchstone_host::ports::run_log::StoredEvent]| {
        let scored = log.iter().filter(|event| &*event.kind == "eval.scored");
        scored.cloned().collect::<Vec<_>>()
    };
    let before = run_store::runs::read(&host.store, &run, 0, 1000)
        .await
        .unwrap();
    let deleted = delete(&host, &run).await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    for path in [
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/events/poll"),
        format!("/v1/runs/{run}/eval-summary"),
        format!("/v1/runs/{run}/annotations"),
        format!("/v1/host/touchstone/runs/{run}/report"),
    ] {
        assert_eq!(
            host.get(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    assert_eq!(delete(&host, &run).await.status, StatusCode::NOT_FOUND);
    let after = run_store::runs::read(&host.store, &run, 0, 1000)
        .await
        .unwrap();
    assert_eq!(after.len(), before.len());
    assert_eq!(scored(&after), scored(&before), "scores are unchanged");
    let left: String = after
        .iter()
        .map(|event| String::from_utf8(event.body.to_vec()).unwrap())
        .chain(
            host.recorded()
                .await
                .iter()
                .map(|record| serde_json::to_string(record).unwrap()),
        )
        .collect();
    assert!(!left.contains("canary"), "{left}");
    assert_eq!(audited(&host, "runs:delete").await.len(), 1);
}

#[tokio::test]
async fn a_run_in_progress_held_or_of_another_tenant_stays() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    assert_eq!(delete(&host, &run).await.code(), "conflict");
    host.work();
    host.ended(&run).await;
    let hold = format!("{}:hold", path(&run));
    let refused = host.post(&hold, &json!({"reason": " "})).await;
    assert_eq!(refused.json()["details"]["field"], "reason");
    let unknown = host.post(&hold, &json!({"reason": "x", "until": 3})).await;
    assert_eq!(unknown.json()["details"]["field"], "until");
    let held = host.post(&hold, &json!({"reason": "case 17"})).await;
    assert_eq!(held.status, StatusCode::OK, "{held:?}");
    assert_eq!(held.json()["legalHold"]["reason"], "case 17");
    assert_eq!(delete(&host, &run).await.code(), "conflict");
    let as_other = |method, path: String| host.request(method, &path).key(&host.other_key).send();
    assert_eq!(
        as_other(Method::DELETE, path(&run)).await.status,
        StatusCode::NOT_FOUND
    );
    let release = format!("{}:release", path(&run));
    assert_eq!(
        as_other(Method::POST, release.clone()).await.status,
        StatusCode::NOT_FOUND
    );
    let released = host.post(&release, &json!({})).await;
    assert_eq!(released.json()["legalHold"], Value::Null, "{released:?}");
    assert_eq!(host.post(&release, &json!({})).await.code(), "conflict");
    assert_eq!(delete(&host, &run).await.status, StatusCode::OK);
    assert_eq!(audited(&host, "runs:hold").await.len(), 1);
    assert_eq!(audited(&host, "runs:release").await.len(), 1);
}

#[tokio::test]
async fn a_credential_in_the_reason_of_a_hold_or_a_void_is_masked_everywhere() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let reason = json!({"reason": "leaks sk-canary123456789"});
    let masked = "leaks [REDACTED:api-key]";
    let held = host.post(&format!("{}:hold", path(&run)), &reason).await;
    assert_eq!(held.json()["legalHold"]["reason"], masked, "{held:?}");
    let kept = run_store::storage::legal_hold(&host.store, &"acme".into(), &run).await;
    assert_eq!(kept.unwrap().unwrap().reason, masked);
    let voided = host.post(&format!("{}:void", path(&run)), &reason).await;
    assert_eq!(voided.json()["voided"]["reason"], masked, "{voided:?}");
    let release = format!("{}:release", path(&run));
    assert_eq!(host.post(&release, &json!({})).await.status, StatusCode::OK);
    for action in ["runs:hold", "runs:void", "runs:release"] {
        let entries = audited(&host, action).await;
        assert_eq!(entries.len(), 1, "{action}");
        assert!(entries[0].contains(masked), "{entries:?}");
        assert!(!entries[0].contains("canary"), "{entries:?}");
    }
}

#[tokio::test]
async fn deleting_and_holding_take_scopes_of_their_own() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let key = host
        .key_with(&[Scope::RunsRead, Scope::RunsCreate, Scope::RunsCancel])
        .await;
    for (method, path) in [
        (Method::DELETE, path(&run)),
        (Method::POST, format!("{}:hold", path(&run))),
        (Method::POST, format!("{}:release", path(&run))),
    ] {
        let reply = host
            .request(method, &path)
            .key(&key)
            .json(&json!({"reason": "x"}));
        assert_eq!(reply.send().await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn the_evidence_of_a_version_in_service_stays() {
    let host = TestHost::working(&says(&["a"])).await;
    let lenient = json!({"policy": {"eval": {"requireSignedSuite": false, "confidence": "lenient", "minTasks": 1}}});
    let set = host.post("/v1/host/touchstone/gates", &lenient).await;
    assert!(set.status.is_success(), "{set:?}");
    let run = host.create().await;
    host.ended(&run).await;
    let step = json!({"transition": "promote", "version": "1.0.0"});
    let into_service =
        json!({"transition": "promote", "version": "1.0.0", "channel": "stable", "evalRunId": run});
    for body in [&step, &step, &into_service] {
        let moved = host
            .post(&format!("/v1/agents/{AGENT}/deployments"), body)
            .await;
        assert!(moved.status.is_success(), "{moved:?}");
    }
    let refused = delete(&host, &run).await;
    assert_eq!(refused.code(), "conflict", "{refused:?}");
    assert!(refused.text().contains("in service"), "{refused:?}");
}

#[tokio::test]
async fn runs_beside_a_deleted_one_can_still_be_judged() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let mut graded = suite(&says(&["a", "b"]));
    graded["version"] = json!("1.1.0");
    graded["modes"] = json!(["golden", "regression"]);
    let imported = host.post("/v1/host/touchstone/suites", &graded).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let start = async |suite: &str, configurable: Value| {
        let mut body = create_body();
        body["evalSuiteRef"] = json!(format!("{SUITE}@{suite}"));
        body["configurable"] = configurable;
        let created = host.post("/v1/runs", &body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        let run = RunId::from(created.json()["runId"].as_str().unwrap());
        host.ended(&run).await;
        run
    };
    let statistics = async |run: &RunId| {
        let reply = host.get(&format!("{}/statistics", path(run))).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()
    };
    let baseline = start("1.1.0", json!({})).await;
    let compared = json!({"baselineRunId": baseline, "evalModes": ["golden", "regression"]});
    let compared = start("1.1.0", compared).await;
    let trial = |index: u32| json!({"trial": {"experimentId": "exp-1", "index": index, "of": 2}});
    let (first, second) = (
        start("1.0.0", trial(1)).await,
        start("1.0.0", trial(2)).await,
    );
    // A second run with the number of a deleted trial: the deleted one keeps its number.
    start("1.0.0", trial(2)).await;
    for run in [&baseline, &second] {
        assert_eq!(delete(&host, run).await.status, StatusCode::OK);
    }
    statistics(&compared).await;
    let alone = statistics(&first).await;
    assert_eq!(alone["run_ids"], json!([first]));
    assert_eq!(alone["gate"]["reasons"][0], "1 of 2 trials are available");
}

#[tokio::test]
async fn statistics_are_those_of_the_run_alone_if_asked() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let mut runs = Vec::new();
    for index in 1..=2 {
        let mut body = create_body();
        body["configurable"] = json!({"trial": {"experimentId": "exp-1", "index": index, "of": 2}});
        let created = host.post("/v1/runs", &body).await;
        let run = RunId::from(created.json()["runId"].as_str().unwrap());
        host.ended(&run).await;
        runs.push(run);
    }
    let of = format!("{}/statistics", path(&runs[0]));
    let statistics = async |query: &str| {
        let reply = host.get(&format!("{of}{query}")).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()
    };
    for query in ["", "?pool=all"] {
        let all = statistics(query).await;
        assert_eq!(
            (&all["n_trials"], &all["run_ids"]),
            (&json!(4), &json!(runs)),
            "two tasks in two runs"
        );
    }
    let alone = statistics("?pool=none").await;
    assert_eq!(
        (&alone["n_trials"], &alone["run_ids"]),
        (&json!(2), &json!([runs[0]]))
    );
    let refused = host.get(&format!("{of}?pool=some")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`all` or `none`"), "{message}");
}

#[tokio::test]
async fn a_gate_that_is_given_no_run_takes_the_newest_that_was_not_deleted() {
    let host = TestHost::working(&says(&["a"])).await;
    let (older, newest) = (host.create().await, host.create().await);
    host.ended(&older).await;
    host.ended(&newest).await;
    let ask = json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable"});
    let taken = async || {
        let check = host.post("/v1/host/touchstone/gates/check", &ask).await;
        check.json()["evalRunId"].clone()
    };
    assert_eq!(taken().await, json!(newest));
    assert_eq!(delete(&host, &newest).await.status, StatusCode::OK);
    assert_eq!(taken().await, json!(older));
}

/// A host that keeps content as told, with a run whose last task of three failed.
async fn evaluated(dir: &tempfile::TempDir, content: ContentRetention) -> (TestHost, RunId) {
    let file = dir.path().join("host.db");
    let store = database::open(file.to_str().unwrap(), host_keys::usual())
        .await
        .unwrap();
    let lab = Lab {
        content,
        ..Lab::default()
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    let host = TestHost::lab(store, HttpSettings::default(), place, lab).await;
    host.equip(&says(&["a", "b", "wrong"])).await;
    host.work();
    let run = host.create().await;
    host.ended(&run).await;
    (host, run)
}

#[rstest]
#[case::never(ContentRetention::Never, 0, [false, false])]
#[case::failures(ContentRetention::Failures, 0, [false, true])]
#[case::not_yet(ContentRetention::Days(2), 1, [true, true])]
#[case::after_days(ContentRetention::Days(2), 3, [false, false])]
#[case::always(ContentRetention::Always, 1000, [true, true])]
#[tokio::test]
async fn deleted_content_leaves_scores_and_statistics(
    #[case] retention: ContentRetention,
    #[case] days: i64,
    #[case] kept: [bool; 2],
) {
    let dir = tempfile::tempdir().unwrap();
    let (host, run) = evaluated(&dir, retention).await;
    let views = ["/report", "/statistics"].map(|view| format!("{}{view}", path(&run)));
    let before = [
        host.get(&views[0]).await.text(),
        host.get(&views[1]).await.text(),
    ];
    let logged = host
        .get(&format!("/v1/runs/{run}/events/poll"))
        .await
        .json();

    host.clock.ahead(days);
    let shutdown = CancellationToken::new();
    let deletes = kept != [true, true];
    for expected in [u64::from(deletes), 0] {
        let deleted = host.storage.delete_content(&shutdown).await.unwrap();
        assert_eq!(deleted, expected);
    }
    host.clock.ahead(0);

    let after = [
        host.get(&views[0]).await.text(),
        host.get(&views[1]).await.text(),
    ];
    assert_eq!(before, after);
    for (task, kept) in [("task-0", kept[0]), ("task-2", kept[1])] {
        let details = host
            .get(&format!("{}/tasks/{task}", path(&run)))
            .await
            .json();
        assert_eq!(details["actual"].is_null(), !kept, "{details}");
        assert_eq!(details["contentDeleted"] == json!(true), !kept, "{details}");
    }
    // The log has the same events.
    let log = run_store::runs::read(&host.store, &run, 0, 100)
        .await
        .unwrap();
    assert_eq!(log.len(), logged["events"].as_array().unwrap().len());
    let answers = log.iter().filter(|event| &*event.kind == "agent.decided");
    let masked =
        answers.filter(|event| String::from_utf8_lossy(&event.body).contains("[REDACTED]"));
    let expected = if kept[1] && !kept[0] {
        2
    } else if kept[1] {
        0
    } else {
        3
    };
    assert_eq!(masked.count(), expected);

    let fork = host
        .post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"}))
        .await;
    assert_eq!(fork.status == StatusCode::CONFLICT, deletes, "{fork:?}");
    let audited = audited(&host, "host:retention").await;
    assert_eq!(audited.len(), usize::from(deletes), "{audited:?}");
}

#[tokio::test]
async fn a_legal_hold_keeps_content() {
    let dir = tempfile::tempdir().unwrap();
    let (host, run) = evaluated(&dir, ContentRetention::Never).await;
    let hold = format!("{}:hold", path(&run));
    host.post(&hold, &json!({"reason": "case 17"})).await;
    let shutdown = CancellationToken::new();
    assert_eq!(host.storage.delete_content(&shutdown).await.unwrap(), 0);
}

#[tokio::test]
async fn retention_deletes_only_expired_runs() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention {
        runs_days: 30,
        ..Retention::default()
    };
    let host = host(&dir, Quotas::default(), retention).await;
    host.equip(&says(&["a"])).await;
    host.work();
    let (old, held) = (host.create().await, host.create().await);
    host.ended(&old).await;
    host.ended(&held).await;
    let hold = format!("{}:hold", path(&held));
    host.post(&hold, &json!({"reason": "case 17"})).await;
    let shutdown = CancellationToken::new();
    assert_eq!(host.retention.sweep(&shutdown).await.unwrap(), 0);
    host.clock.ahead(31);
    assert_eq!(host.retention.sweep(&shutdown).await.unwrap(), 1);
    host.clock.ahead(0);
    let status = async |run: &RunId| host.get(&format!("/v1/runs/{run}")).await.status;
    assert_eq!(status(&old).await, StatusCode::NOT_FOUND);
    assert_eq!(status(&held).await, StatusCode::OK);
    let audited = audited(&host, "host:retention").await;
    assert_eq!(audited.len(), 1);
}
