//! All runs of one agent, suite and model count as one body of evidence: repeating until a run
//! passes does not help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use touchstone::database;
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::{ModelReply, ModelRequest, RetryPolicy};
use touchstone_deployments::attestation::{EvalVerdict, Expected, judge, read};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_kit::keys::SecretKey;
use touchstone_openwop::in_toto::Envelope;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_runs::rules::eval::gate::{Condition, GatePolicy};

use crate::http::deployments::promotion::{audit, moved, path, refused};
use crate::http::support::host::{AGENT, Lab, SIGNING_KEY, TestHost, create_body, says};
use crate::support::host_keys;

const TASKS: usize = 20;

/// Gives right or wrong answers, as configured.
struct Moody {
    info: ModelInfo,
    good: Arc<AtomicBool>,
    pause: Duration,
}

#[async_trait]
impl Model for Moody {
    async fn complete(&self, _: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        tokio::time::sleep(self.pause).await;
        let text = match self.good.load(Ordering::SeqCst) {
            true => "a",
            false => "b",
        };
        Ok(ModelReply {
            text: Some(text.to_owned()),
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

struct Lucky {
    host: TestHost,
    good: Arc<AtomicBool>,
    _dir: TempDir,
}

impl Lucky {
    /// A host whose gate requires a score with this confidence.
    async fn new(pause: Duration, score: f64, confidence: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = database::open(
            dir.path().join("host.db").to_str().unwrap(),
            host_keys::usual(),
        )
        .await
        .unwrap();
        let good = Arc::new(AtomicBool::new(true));
        let agent = Moody {
            info: ModelInfo {
                provider: "bench".to_owned(),
                model: "moody-1".to_owned(),
                price: Some(ModelPrice::configured(1.0, 2.0)),
                max_concurrency: 48,
                timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
            },
            good: good.clone(),
            pause,
        };
        let lab = Lab {
            agent: Some(Arc::new(agent)),
            ..Lab::default()
        };
        let place = HostUrl::public("https://assess.example.org").unwrap();
        let host = TestHost::lab(store, HttpSettings::default(), place, lab).await;
        host.equip(&says(&["a"; TASKS])).await;
        host.work();
        let policy = json!({"policy": {"eval": {"requireSignedSuite": false, "requiredPassScore": score, "confidence": confidence}}});
        let set = host.post("/v1/host/touchstone/gates", &policy).await;
        assert_eq!(set.status, StatusCode::OK, "{set:?}");
        Self {
            host,
            good,
            _dir: dir,
        }
    }

    /// A run in which every task passes, or every task fails.
    async fn run(&self, good: bool) -> String {
        self.good.store(good, Ordering::SeqCst);
        let run = self.host.create().await;
        self.host.ended(&run).await;
        run.to_string()
    }

    async fn check(&self, run: &str) -> Value {
        let ask =
            json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable", "evalRunId": run});
        let reply = self
            .host
            .post("/v1/host/touchstone/gates/check", &ask)
            .await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()
    }

    async fn statistics(&self, run: &str) -> Value {
        let path = format!("/v1/host/touchstone/runs/{run}/statistics");
        self.host.get(&path).await.json()
    }

    /// The verdict of a run and the lenient one, which report and list have in common. The filter
    /// selects by the former.
    async fn verdict(&self, run: &str) -> [String; 2] {
        let path = "/v1/host/touchstone/runs";
        let report = self.host.get(&format!("{path}/{run}/report")).await.json();
        let text = |name: &str| report[name].as_str().unwrap().to_owned();
        let [verdict, lenient] = ["verdict", "lenientVerdict"].map(text);
        assert_eq!(
            report["reasons"] == json!([]),
            verdict == "pass",
            "{report}"
        );
        for other in ["pass", "fail", "inconclusive"] {
            let found = self
                .host
                .get(&format!("{path}?verdict={other}"))
                .await
                .json();
            let mut rows = found["runs"].as_array().unwrap().iter();
            let row = rows.find(|row| row["runId"] == run);
            assert_eq!(row.is_some(), other == verdict, "{other}: {found}");
            if let Some(row) = row {
                assert_eq!(row["result"]["verdict"], verdict);
                assert_eq!(row["result"]["lenientVerdict"], lenient);
            }
        }
        [verdict, lenient]
    }

    async fn attested(&self, run: &str) -> (EvalVerdict, Value) {
        let path = format!("/v1/host/touchstone/runs/{run}/attestation");
        let reply = self.host.get(&path).await.json();
        let envelopes: Vec<Envelope> =
            serde_json::from_value(reply["attestations"].clone()).unwrap();
        let key = SecretKey::from_random(SIGNING_KEY).public();
        let result = touchstone_openwop::dsse::open(&envelopes[1], &key).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        (
            read(&envelopes[0], &key).unwrap(),
            result["predicate"]["result"].clone(),
        )
    }
}

fn conditions(check: &Value) -> Vec<&str> {
    let unmet = check["unmet"].as_array().unwrap().iter();
    unmet.map(|it| it["condition"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_gate_counts_all_runs_and_not_only_the_named_one() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "strict").await;
    let bad = lucky.run(false).await;
    let good = lucky.run(true).await;
    let check = lucky.check(&good).await;
    assert_eq!(check["allowed"], false);
    assert_eq!(conditions(&check), ["confidence"]);
    assert_eq!(
        check["attempts"],
        json!({"looks": 2, "runIds": [bad, good]})
    );
    let gate = lucky.statistics(&good).await["gate"].clone();
    assert_eq!(gate["score"], 0.5);
    assert_eq!(gate["verdict"], "fail");

    // The attempts counted are in the audit log and in the attestation, where they are checked
    // again offline.
    let host = &lucky.host;
    for _ in 0..2 {
        moved(host, json!({"version": "1.0.0", "transition": "promote"})).await;
    }
    let body = json!({"version": "1.0.0", "transition": "promote", "channel": "stable", "evalRunId": good});
    let reply = host.post(&path(), &body).await;
    refused(&reply, StatusCode::FORBIDDEN, "eval_gate_unmet");
    let entry = audit(host).await.pop().unwrap();
    assert_eq!(entry["decidedOn"]["attempts"]["runIds"], json!([bad, good]));
    let (verdict, result) = lucky.attested(&good).await;
    assert_eq!(verdict.attempts.len(), 2);
    assert!(verdict.attempts.iter().all(|it| it.tasks.len() == TASKS));
    assert_ne!(result, "PASSED");
    let policy = GatePolicy {
        require_signed_suite: false,
        required_pass_score: Some(0.8),
        ..GatePolicy::default()
    };
    let unmet = judge(&verdict, &policy, &Expected::default(), Timestamp::now());
    let unmet: Vec<Condition> = unmet.iter().map(|it| it.condition).collect();
    assert_eq!(unmet, [Condition::Confidence]);
    let alone = EvalVerdict {
        attempts: Vec::new(),
        ..verdict
    };
    let unmet = judge(&alone, &policy, &Expected::default(), Timestamp::now());
    assert!(unmet.is_empty(), "{unmet:?}");
}

#[tokio::test]
async fn the_report_and_the_list_have_the_verdict_of_all_attempts() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "strict").await;
    let good = lucky.run(true).await;
    // No number of tasks shows a score of 1.
    assert_eq!(lucky.verdict(&good).await, ["inconclusive", "pass"]);
    let bad = lucky.run(false).await;
    assert_eq!(lucky.verdict(&bad).await, ["fail", "fail"]);
    assert_eq!(lucky.verdict(&good).await, ["fail", "pass"]);
    let void = format!("/v1/host/touchstone/runs/{bad}:void");
    let reason = json!({"reason": "the endpoint was misconfigured"});
    let voided = lucky.host.post(&void, &reason).await;
    assert_eq!(voided.status, StatusCode::OK, "{voided:?}");
    assert_eq!(lucky.verdict(&good).await, ["inconclusive", "pass"]);
}

#[tokio::test]
async fn a_lenient_gate_takes_the_score_of_all_runs() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "lenient").await;
    lucky.run(false).await;
    let good = lucky.run(true).await;
    let check = lucky.check(&good).await;
    assert_eq!(conditions(&check), ["confidence"], "{check}");
    let message = check["unmet"][0]["message"].as_str().unwrap();
    assert!(message.contains("over 2 runs"), "{message}");
}

#[tokio::test]
async fn a_good_agent_that_is_run_every_night_stays_good() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "strict").await;
    for look in 1..=4 {
        let run = lucky.run(true).await;
        let check = lucky.check(&run).await;
        assert_eq!(check["allowed"], true, "{check}");
        assert_eq!(check["attempts"]["looks"], look);
        // A repeated check does not count as another look.
        assert_eq!(lucky.check(&run).await["attempts"]["looks"], look);
    }
}

#[tokio::test]
async fn a_cancelled_run_with_scores_counts_as_an_attempt() {
    let lucky = Lucky::new(Duration::from_millis(40), 0.8, "strict").await;
    lucky.good.store(false, Ordering::SeqCst);
    let mut body = create_body();
    body["configurable"] = json!({"evalConcurrency": 1});
    let created = lucky.host.post("/v1/runs", &body).await.json();
    let bad = RunId::from(created["runId"].as_str().unwrap());
    let page = format!("/v1/runs/{bad}/events/poll?timeout=1&lastSequence=0");
    while !lucky.host.get(&page).await.text().contains("eval.scored") {}
    let cancel = format!("/v1/runs/{bad}/cancel");
    lucky.host.post(&cancel, &json!({})).await;
    lucky.host.ended(&bad).await;
    let good = lucky.run(true).await;
    let check = lucky.check(&good).await;
    assert_eq!(check["attempts"]["looks"], 2, "{check}");
    assert_eq!(check["attempts"]["runIds"], json!([bad, good]));
    let score = lucky.statistics(&good).await["gate"]["score"].as_f64();
    assert!(score.unwrap() < 1.0, "{score:?}");
}

#[tokio::test]
async fn a_deleted_run_still_counts_as_an_attempt() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "strict").await;
    let (host, bad) = (&lucky.host, lucky.run(false).await);
    let good = lucky.run(true).await;
    // The run was not checked before: the remains of its log count.
    let path = format!("/v1/host/touchstone/runs/{bad}");
    let deleted = host.request(Method::DELETE, &path).send().await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    let gone = host.get(&format!("/v1/runs/{bad}")).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);

    let check = lucky.check(&good).await;
    assert_eq!(check["allowed"], false, "{check}");
    assert_eq!(conditions(&check), ["confidence"]);
    assert_eq!(
        check["attempts"],
        json!({"looks": 2, "runIds": [bad, good]})
    );
    assert_eq!(lucky.statistics(&good).await["gate"]["score"], 0.5);
    let (verdict, result) = lucky.attested(&good).await;
    assert_eq!(verdict.attempts.len(), 2);
    assert!(verdict.attempts.iter().all(|it| it.tasks.len() == TASKS));
    assert_ne!(result, "PASSED");
    // A further run is a third look, and the deleted one cannot be voided any more.
    let third = lucky.run(true).await;
    assert_eq!(
        lucky.check(&third).await["attempts"],
        json!({"looks": 3, "runIds": [bad, good, third]})
    );
    let void = format!("{path}:void");
    let voided = host.post(&void, &json!({"reason": "deleted"})).await;
    assert_eq!(voided.status, StatusCode::NOT_FOUND, "{voided:?}");
}

#[tokio::test]
async fn a_replay_is_not_an_attempt() {
    let lucky = Lucky::new(Duration::ZERO, 0.8, "strict").await;
    let good = lucky.run(true).await;
    let fork = format!("/v1/runs/{good}:fork");
    let forked = lucky.host.post(&fork, &json!({"mode": "replay"})).await;
    assert_eq!(forked.status, StatusCode::CREATED, "{forked:?}");
    let replay = RunId::from(forked.json()["runId"].as_str().unwrap());
    lucky.host.ended(&replay).await;
    let attempts = lucky.check(&good).await["attempts"].clone();
    assert_eq!(attempts, json!({"looks": 1, "runIds": [good]}));
}

#[tokio::test]
async fn a_run_is_voided_with_permission_and_visibly() {
    let lucky = Lucky::new(Duration::ZERO, 0.75, "strict").await;
    let (host, bad) = (&lucky.host, lucky.run(false).await);
    let good = lucky.run(true).await;
    let void = format!("/v1/host/touchstone/runs/{bad}:void");
    let reason = json!({"reason": "the endpoint was misconfigured"});
    let others: Vec<Scope> = Scope::ALL
        .iter()
        .copied()
        .filter(|scope| *scope != Scope::RunsVoid)
        .collect();
    let key = host.key_with(&others).await;
    let call = host.request(Method::POST, &void).key(&key).json(&reason);
    assert_eq!(call.send().await.status, StatusCode::FORBIDDEN);
    let call = host.request(Method::POST, &void).key(&host.other_key);
    let foreign = call.json(&reason).send().await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    for body in [
        json!({}),
        json!({"reason": " "}),
        json!({"reason": "x", "by": "me"}),
    ] {
        let reply = host.post(&void, &body).await;
        refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    }
    let founding = json!({"name": "Acme", "tenant": "acme"});
    let acme = host.post("/api/v1/organizations", &founding).await.json();
    let enrolled = host
        .request(Method::POST, "/api/v1/agents")
        .key(acme["api_key"].as_str().unwrap())
        .json(&json!({"name": "canary"}))
        .send()
        .await;
    assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
    let agents_own = host
        .issue(|issue| {
            issue.principal = Some("canary".to_owned());
            issue.scopes = vec![Scope::RunsVoid];
        })
        .await;
    let call = host.request(Method::POST, &void).key(&agents_own);
    assert_eq!(
        call.json(&reason).send().await.status,
        StatusCode::FORBIDDEN
    );
    let reply = host.post(&void, &reason).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.json()["voided"]["reason"], reason["reason"]);
    let again = host.post(&void, &reason).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{again:?}");

    let check = lucky.check(&good).await;
    assert_eq!(check["allowed"], true, "{check}");
    assert_eq!(
        check["attempts"],
        json!({"looks": 2, "runIds": [bad, good], "voided": [bad]})
    );
    assert_eq!(
        conditions(&lucky.check(&bad).await),
        ["pass-score", "not-voided"]
    );
    let report = format!("/v1/host/touchstone/runs/{bad}/report");
    let notes = host.get(&report).await.json()["notes"].to_string();
    assert!(notes.contains("the endpoint was misconfigured"), "{notes}");
    let entry = audit(host).await.pop().unwrap();
    assert_eq!(entry["action"], "runs:void");
    let (verdict, result) = lucky.attested(&good).await;
    assert_eq!(
        verdict.attempts[0].voided.as_ref().unwrap().reason,
        "the endpoint was misconfigured"
    );
    // The suite itself requires every task to pass, which no run can show with confidence.
    assert_eq!(result, "WARNED");
}
