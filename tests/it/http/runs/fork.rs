//! `POST /v1/runs/{runId}:fork`.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use touchstone_runs::store as run_store;

use crate::http::support::host::{TestHost, create_body, says};
use crate::http::support::recorder::Recorder;

async fn ended(host: &TestHost) -> (RunId, Vec<Value>) {
    let run = host.create().await;
    let log = host.ended(&run).await;
    (run, log)
}

async fn fork(host: &TestHost, run: &RunId, body: Value) -> RunId {
    let forked = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
    assert_eq!(forked.status, StatusCode::CREATED, "{forked:?}");
    let forked = forked.json();
    assert_eq!(forked["sourceRunId"], json!(run));
    assert_eq!(forked["mode"], body["mode"]);
    forked["runId"].as_str().unwrap().into()
}

async fn document(host: &TestHost, path: String) -> Value {
    let reply = host.get(&path).await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
    reply.json()
}

#[tokio::test]
async fn a_replay_ends_as_its_source_did_and_does_not_differ_from_it() {
    let host = TestHost::working(&says(&["a", "wrong", "unavailable"])).await;
    let (run, log) = ended(&host).await;
    let snapshot = document(&host, format!("/v1/runs/{run}")).await;
    let replay = fork(&host, &run, json!({"mode": "replay"})).await;
    let copy = host.ended(&replay).await;
    assert_eq!(copy.len(), log.len());
    let diff = document(&host, format!("/v1/runs/{run}:diff?against={replay}")).await;
    assert_eq!(
        (&diff["divergedAtSeq"], &diff["stateDiff"]),
        (&Value::Null, &json!({}))
    );
    for view in ["/v1/runs/{}/eval-summary"] {
        let of = |run: &RunId| document(&host, view.replace("{}", run.as_str()));
        assert_eq!(of(&replay).await, of(&run).await);
    }
    let report = document(&host, format!("/v1/host/touchstone/runs/{replay}/report")).await;
    assert_eq!(
        (&report["verdict"], &report["fork"]["mode"]),
        (&json!("inconclusive"), &json!("replay"))
    );
    let forked = document(&host, format!("/v1/runs/{replay}")).await;
    assert_eq!(
        forked["fork"],
        json!({"sourceRunId": run, "fromSeq": 0, "mode": "replay"})
    );
    for member in ["owner", "status", "workflowId", "agent", "configurable"] {
        assert_eq!(forked.get(member), snapshot.get(member), "{member}");
    }
    // The source is unchanged.
    assert_eq!(host.ended(&run).await, log);
    assert_eq!(document(&host, format!("/v1/runs/{run}")).await, snapshot);
}

#[tokio::test]
async fn a_branch_continues_from_the_middle_with_the_overlay() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let (run, log) = ended(&host).await;
    let from = after_the_first_score(&log);
    let overlay = json!({"configurable": {"evalConcurrency": 1}, "tags": ["branched"], "metadata": {"why": "test"}});
    let body = json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": overlay});
    let branch = fork(&host, &run, body).await;
    let own = host.ended(&branch).await;
    let outline = |events: &[Value]| -> Vec<(Value, Value)> {
        events
            .iter()
            .map(|event| (event["type"].clone(), event["payload"].clone()))
            .collect()
    };
    let kept = from as usize - 1;
    assert_eq!(outline(&own[..kept]), outline(&log[..kept]));
    assert_eq!(
        own.iter()
            .filter(|event| event["type"] == "eval.scored")
            .count(),
        2
    );
    let snapshot = document(&host, format!("/v1/runs/{branch}")).await;
    assert_eq!(snapshot["configurable"]["evalConcurrency"], 1);
    assert_eq!(
        (&snapshot["tags"], &snapshot["metadata"]),
        (&json!(["branched"]), &json!({"why": "test"}))
    );
    assert_eq!(snapshot["fork"]["fromSeq"], from);
}

#[tokio::test]
async fn a_branch_has_no_more_in_flight_than_its_endpoint_answers_at_once() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let (run, log) = ended(&host).await;
    let from = after_the_first_score(&log);
    let most = json!({"evalConcurrency": 60});
    let body =
        json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": {"configurable": most}});
    let branch = fork(&host, &run, body).await;
    let mut body = create_body();
    body["configurable"] = most;
    let anew = host.post("/v1/runs", &body).await;
    let anew = RunId::from(anew.json()["runId"].as_str().unwrap());
    for run in [branch, anew] {
        let record = run_store::runs::find(&host.store, &"acme".into(), &run)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(record.spec.eval().unwrap().concurrency, 48, "{run}");
    }
}

/// A branch can cut between events that a run wrote in one transaction.
#[rstest]
#[case::multi_node(json!({"workflowId": "conformance-multi-node"}), Value::Null)]
#[case::failure(json!({"workflowId": "conformance-failure"}), Value::Null)]
#[case::approval(json!({"workflowId": "conformance-approval"}), json!({"action": "accept"}))]
#[case::refusal(json!({"workflowId": "conformance-approval"}), json!({"action": "reject"}))]
#[case::clarification(json!({"workflowId": "conformance-clarification"}), json!({"answers": {"q1": "blue"}}))]
#[tokio::test]
async fn a_branch_from_anywhere_comes_to_the_same_end(#[case] body: Value, #[case] answer: Value) {
    let host = TestHost::idle().await;
    host.work();
    let created = host.post("/v1/runs", &body).await;
    let run: RunId = created.json()["runId"].as_str().unwrap().into();
    let log = answered(&host, &run, &answer).await;
    let kinds = |log: &[Value]| -> Vec<String> {
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        log.iter().map(kind).collect()
    };
    let once = |kind: &&String| {
        [
            "run.",
            "node.completed",
            "node.failed",
            "node.resumed",
            "interrupt.resolved",
        ]
        .iter()
        .any(|family| kind.starts_with(family))
    };
    let expected = kinds(&log);
    for from in 0..=log.len() {
        let branch = fork(&host, &run, json!({"mode": "branch", "fromSeq": from})).await;
        let own = kinds(&answered(&host, &branch, &answer).await);
        let kept = from.saturating_sub(1);
        assert_eq!(own[..kept], expected[..kept], "from {from}");
        let (own, expected): (Vec<_>, Vec<_>) = (
            own.iter().filter(once).collect(),
            expected.iter().filter(once).collect(),
        );
        assert_eq!(own, expected, "from {from}");
    }
}

/// Answers every interrupt of a run and returns its log.
async fn answered(host: &TestHost, run: &RunId, answer: &Value) -> Vec<Value> {
    let mut after = 0;
    loop {
        let snapshot = document(host, format!("/v1/runs/{run}")).await;
        let waits = snapshot["status"].as_str().unwrap().starts_with("waiting-");
        if let (true, Some(node)) = (waits, snapshot["currentNodeId"].as_str()) {
            let path = format!("/v1/runs/{run}/interrupts/{node}");
            let reply = host.post(&path, &json!({"resumeValue": answer})).await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
            return host.ended(run).await;
        }
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20");
        let page = host.get(&path).await.json();
        after += page["events"].as_array().unwrap().len();
        if page["isComplete"] == true {
            return host.ended(run).await;
        }
    }
}

#[tokio::test]
async fn invalid_forks_are_refused() {
    let host = TestHost::working(&says(&["a"])).await;
    let (run, log) = ended(&host).await;
    let end = log.len();
    let branch = |from: usize, overlay: Value| json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": overlay});
    for (body, status, code) in [
        (
            json!({"mode": "replay", "fromSeq": -1}),
            400,
            "validation_error",
        ),
        (
            json!({"mode": "replay", "fromSeq": 1.5}),
            400,
            "validation_error",
        ),
        (json!({"fromSeq": 0}), 400, "validation_error"),
        (json!({"mode": "branch"}), 400, "validation_error"),
        (
            json!({"mode": "replay", "extra": 1}),
            400,
            "validation_error",
        ),
        (
            json!({"mode": "replay", "runOptionsOverlay": {"tags": ["x"]}}),
            400,
            "validation_error",
        ),
        (
            json!({"mode": "replay", "fromSeq": end + 1}),
            422,
            "invalid_from_seq",
        ),
        (
            json!({"mode": "branch", "fromSeq": 99999}),
            422,
            "invalid_from_seq",
        ),
        (
            branch(0, json!({"configurable": {"temperature": 9}})),
            400,
            "validation_error",
        ),
        (
            branch(0, json!({"configurable": {"baselineRunId": "run_absent"}})),
            400,
            "validation_error",
        ),
        (
            branch(
                3,
                json!({"configurable": {"baselineRunId": run, "evalModes": ["golden", "regression"]}}),
            ),
            400,
            "validation_error",
        ),
        (branch(0, json!({"tags": "x"})), 400, "validation_error"),
        // The version was resolved for the source run.
        (
            branch(0, json!({"configurable": {"agentVersion": "1.0.0"}})),
            400,
            "validation_error",
        ),
        (
            branch(0, json!({"configurable": {"agentChannel": "stable"}})),
            400,
            "validation_error",
        ),
        // The rest must be judged by the same rules as the history.
        (
            branch(
                end,
                json!({"configurable": {"evalMatch": {"ignore": ["/why"]}}}),
            ),
            400,
            "validation_error",
        ),
        (
            branch(
                end,
                json!({"configurable": {"budget": {"maxTokens": 1_000_000}}}),
            ),
            400,
            "validation_error",
        ),
    ] {
        let reply = host.post(&format!("/v1/runs/{run}:fork"), &body).await;
        assert_eq!(
            (reply.status.as_u16(), reply.code().as_str()),
            (status, code),
            "{body}"
        );
    }
    let refused = host
        .post(
            &format!("/v1/runs/{run}:fork"),
            &branch(0, json!({"configurable": {"temperature": 9}})),
        )
        .await;
    assert_eq!(
        refused.json()["details"]["field"],
        "runOptionsOverlay.configurable.temperature"
    );
}

#[tokio::test]
async fn a_running_run_can_be_branched_but_not_replayed() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let going = Recorder::log_of(&host, 1, false).await;
    let path = format!("/v1/runs/{}:fork", going.run);
    let refused = host.post(&path, &json!({"mode": "replay"})).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (StatusCode::CONFLICT, "conflict")
    );
    host.work();
    let branch = fork(&host, &going.run, json!({"mode": "branch", "fromSeq": 1})).await;
    assert_eq!(
        host.ended(&branch).await.last().unwrap()["type"],
        "run.completed"
    );
}

#[tokio::test]
async fn forked_and_retried_runs_keep_the_age_of_reused_facts() {
    let host = TestHost::working(&says(&["a", "unavailable"])).await;
    let (run, log) = ended(&host).await;
    let last = log.last().unwrap()["timestamp"].clone();
    let end = log.len();
    let facts = async |run: &RunId| {
        host.ended(run).await;
        let report = document(&host, format!("/v1/host/touchstone/runs/{run}/report")).await;
        report.get("factsRecordedAt").cloned()
    };
    assert_eq!(facts(&run).await, None);
    let replay = fork(&host, &run, json!({"mode": "replay"})).await;
    assert_eq!(moment(facts(&replay).await), moment(Some(last.clone())));
    let of_replay = fork(&host, &replay, json!({"mode": "replay"})).await;
    assert_eq!(moment(facts(&of_replay).await), moment(Some(last.clone())));
    // In a replay, too, everything before the last event keeps its original times.
    let ending = fork(&host, &replay, json!({"mode": "branch", "fromSeq": end})).await;
    assert_eq!(moment(facts(&ending).await), moment(Some(last.clone())));
    let ending = fork(&host, &run, json!({"mode": "branch", "fromSeq": end})).await;
    let before_last = log[end - 2]["timestamp"].clone();
    assert_eq!(moment(facts(&ending).await), moment(Some(before_last)));
    for from in [0, 3] {
        let anew = fork(&host, &run, json!({"mode": "branch", "fromSeq": from})).await;
        assert_eq!(facts(&anew).await, None, "from {from}");
    }
    let path = format!("/v1/host/touchstone/runs/{replay}:retry");
    let retry = host.post(&path, &json!({})).await.json()["runId"].clone();
    let retry = retry.as_str().unwrap().into();
    assert_eq!(moment(facts(&retry).await), moment(Some(last)));
}

#[tokio::test]
async fn a_retry_is_a_partial_rerun_only_if_its_source_was_one() {
    let host = TestHost::working(&says(&["a", "b", "unavailable"])).await;
    let (run, log) = ended(&host).await;
    let rerun = async |run: &RunId| {
        host.ended(run).await;
        let report = document(&host, format!("/v1/host/touchstone/runs/{run}/report")).await;
        let said = report["notes"]
            .to_string()
            .contains("executed the others again");
        assert_eq!(said, report.get("partialRerun").is_some(), "{report}");
        report.get("partialRerun").cloned()
    };
    let retry = async |run: &RunId| -> RunId {
        let path = format!("/v1/host/touchstone/runs/{run}:retry");
        let retried = host.post(&path, &json!({})).await.json();
        retried["runId"].as_str().unwrap().into()
    };
    assert_eq!(rerun(&retry(&run).await).await, None);
    let body = json!({"mode": "branch", "fromSeq": after_the_first_score(&log)});
    let picked = fork(&host, &run, body).await;
    let kept = rerun(&picked).await;
    assert_eq!(kept, Some(json!({"sourceRunId": run, "keptTasks": 1})));
    assert_eq!(rerun(&retry(&picked).await).await, kept);
}

/// The position of a branch that keeps one judged task.
fn after_the_first_score(log: &[Value]) -> u64 {
    let scored = log.iter().find(|event| event["type"] == "eval.scored");
    scored.unwrap()["sequence"].as_u64().unwrap() + 1
}

#[rstest]
#[case("temperature", json!(0.5))]
#[case("maxTokens", json!(64))]
#[case("maxLoopIterations", json!(3))]
#[tokio::test]
async fn an_overlay_that_changes_answers_must_fork_from_the_start(
    #[case] name: &str,
    #[case] value: Value,
) {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let (run, log) = ended(&host).await;
    let body = |from: u64| {
        json!({"mode": "branch", "fromSeq": from,
               "runOptionsOverlay": {"configurable": {(name): value}}})
    };
    let from = after_the_first_score(&log);
    let path = format!("/v1/runs/{run}:fork");
    let refused = host.post(&path, &body(from)).await;
    assert_eq!(refused.code(), "validation_error");
    let details = refused.json()["details"].clone();
    assert_eq!(
        details["field"],
        format!("runOptionsOverlay.configurable.{name}")
    );
    assert!(refused.text().contains("set `fromSeq` to 0"), "{refused:?}");
    let anew = fork(&host, &run, body(0)).await;
    host.ended(&anew).await;
    let snapshot = document(&host, format!("/v1/runs/{anew}")).await;
    assert_eq!(snapshot["configurable"][name], value);
    // An unchanged value is not reported as a change.
    let path = format!("/v1/runs/{anew}:fork");
    let same = host.post(&path, &body(from)).await;
    assert_eq!(same.status, StatusCode::CREATED, "{same:?}");
}

fn moment(text: Option<Value>) -> Option<jiff::Timestamp> {
    text.map(|text| text.as_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_deduplicated_run_can_be_forked_while_others_run() {
    let host = TestHost::working(&says(&["a"])).await;
    let mut body = create_body();
    body["scopeId"] = json!("release-7");
    let call = host.request(Method::POST, "/v1/runs");
    let created = call.header("x-dedup", "enforce").json(&body).send().await;
    let run: RunId = created.json()["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    let waits = json!({"workflowId": "conformance-delay", "inputs": {"delayMs": 60_000}, "scopeId": "release-7"});
    let other = host.post("/v1/runs", &waits).await;
    assert_eq!(other.status, StatusCode::CREATED, "{other:?}");
    for body in [
        json!({"mode": "replay"}),
        json!({"mode": "branch", "fromSeq": 0}),
    ] {
        let forked = fork(&host, &run, body).await;
        assert_eq!(
            host.ended(&forked).await.last().unwrap()["type"],
            "run.completed"
        );
    }
}

#[rstest]
#[case::stranger(true)]
#[case::unknown(false)]
#[tokio::test]
async fn another_tenants_run_is_not_found(#[case] foreign: bool) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let (path, key) = if foreign {
        (format!("/v1/runs/{run}:fork"), &host.other_key)
    } else {
        ("/v1/runs/run_absent%3Afork".to_owned(), &host.key)
    };
    let call = host.request(Method::POST, &path).key(key);
    let reply = call
        .json(&json!({"mode": "branch", "fromSeq": 0}))
        .send()
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (StatusCode::NOT_FOUND, "not_found")
    );
}

#[tokio::test]
async fn forking_requires_read_access() {
    let host = TestHost::working(&says(&["a"])).await;
    let (run, _) = ended(&host).await;
    let path = format!("/v1/runs/{run}:fork");
    for (scopes, status) in [
        (&[Scope::RunsCreate][..], StatusCode::FORBIDDEN),
        (&[Scope::RunsRead][..], StatusCode::FORBIDDEN),
        (
            &[Scope::RunsCreate, Scope::RunsRead][..],
            StatusCode::CREATED,
        ),
    ] {
        let key = host.key_with(scopes).await;
        let call = host.request(Method::POST, &path).key(&key);
        assert_eq!(
            call.json(&json!({"mode": "replay"})).send().await.status,
            status
        );
    }
}

#[tokio::test]
async fn one_idempotency_key_creates_one_fork() {
    let host = TestHost::working(&says(&["a"])).await;
    let (run, _) = ended(&host).await;
    let path = format!("/v1/runs/{run}:fork");
    let send = async |body: Value| {
        let call = host
            .request(Method::POST, &path)
            .header("idempotency-key", "fork-1");
        call.json(&body).send().await
    };
    let first = send(json!({"mode": "replay"})).await;
    let again = send(json!({"mode": "replay"})).await;
    assert_eq!(
        (first.status, first.json()),
        (StatusCode::CREATED, again.json())
    );
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    let other = send(json!({"mode": "branch", "fromSeq": 0})).await;
    assert_eq!(other.code(), "idempotency_key_mismatch");
}
