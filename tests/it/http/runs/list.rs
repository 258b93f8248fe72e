//! `GET /v1/host/touchstone/runs` and `POST …/{runId}:tag`.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use crate::http::support::host::{AGENT, SUITE, TestHost, says};

const PATH: &str = "/v1/host/touchstone/runs";

/// Two runs that have ended: of three tasks, two pass.
async fn with_runs() -> (TestHost, [String; 2]) {
    let host = TestHost::working(&says(&["a", "b", "wrong"])).await;
    let (first, second) = (host.create().await, host.create().await);
    for run in [&first, &second] {
        host.ended(run).await;
    }
    (host, [first.to_string(), second.to_string()])
}

fn ids(page: &Value) -> Vec<String> {
    let runs = page["runs"].as_array().unwrap().iter();
    runs.map(|run| run["runId"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_row_has_subject_and_result_of_the_run() {
    let (host, [first, second]) = with_runs().await;
    let listed = host.get(PATH).await;
    assert_eq!(listed.status, StatusCode::OK, "{listed:?}");
    let listed = listed.json();
    assert_eq!(ids(&listed), [second.clone(), first]);
    let row = &listed["runs"][0];
    assert_eq!(row["kind"], "eval");
    assert_eq!(row["status"], "completed");
    assert_eq!(row["suite"]["suiteId"], SUITE);
    assert_eq!(row["agent"]["agentId"], AGENT);
    assert_eq!(row["taskCount"], 3);
    let report = host.get(&format!("{PATH}/{second}/report")).await.json();
    assert_eq!(row["result"]["verdict"], report["verdict"]);
    assert_eq!(row["result"]["score"], report["summary"]["aggregateScore"]);
    assert_eq!(
        row["result"]["passedCount"],
        report["summary"]["passedCount"]
    );
    assert_eq!(row["result"]["completedAt"], report["completedAt"]);
}

#[tokio::test]
async fn the_interval_of_a_run_without_a_failure_has_a_width() {
    let host = TestHost::working(&says(&["a", "a", "a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let listed = host.get(PATH).await.json();
    let result = &listed["runs"][0]["result"];
    let statistics = host.get(&format!("{PATH}/{run}/statistics")).await.json();
    let limit = |name: &str| statistics["gate"][name].as_f64().unwrap().clamp(0.0, 1.0);
    assert_eq!(result["scoreLow"].as_f64(), Some(limit("low")), "{listed}");
    assert_eq!(result["scoreHigh"].as_f64(), Some(limit("high")));
    assert!(limit("low") < limit("high"));
}

#[tokio::test]
async fn pages_continue_where_the_previous_one_ended() {
    let (host, [first, second]) = with_runs().await;
    let page = host.get(&format!("{PATH}?limit=1")).await.json();
    assert_eq!(ids(&page), [second]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let page = host
        .get(&format!("{PATH}?limit=1&cursor={cursor}"))
        .await
        .json();
    assert_eq!(ids(&page), [first]);
    assert_eq!(page.get("nextCursor"), None);
}

#[tokio::test]
async fn conditions_select_runs() {
    let (host, [first, second]) = with_runs().await;
    let verdict = host.get(PATH).await.json()["runs"][0]["result"]["verdict"].clone();
    let verdict = verdict.as_str().unwrap();
    let both = vec![second.clone(), first];
    for (query, expected) in [
        (format!("verdict={verdict}&suiteId={SUITE}"), both.clone()),
        (format!("agentId={AGENT}&status=completed"), both),
        (format!("idPrefix={second}"), vec![second]),
        ("verdict=pass".to_owned(), vec![]),
        ("kind=workflow".to_owned(), vec![]),
        ("since=2999-01-01T00:00:00Z".to_owned(), vec![]),
    ] {
        let listed = host.get(&format!("{PATH}?{query}")).await;
        assert_eq!(listed.status, StatusCode::OK, "{query}: {listed:?}");
        assert_eq!(ids(&listed.json()), expected, "{query}");
    }
}

#[tokio::test]
async fn tenants_see_only_their_own_runs() {
    let (host, _) = with_runs().await;
    let other = host.other_key.clone();
    let listed = host.request(Method::GET, PATH).key(&other).send().await;
    assert_eq!(listed.json(), json!({"runs": []}));
}

#[rstest]
#[case("verdict=good", "verdict")]
#[case("status=gone", "status")]
#[case("kind=x", "kind")]
#[case("since=yesterday", "since")]
#[case("cursor=x", "cursor")]
#[case("limit=0", "limit")]
#[case("limit=201", "limit")]
#[case("idPrefix=a%2Fb", "idPrefix")]
#[tokio::test]
async fn an_invalid_condition_is_refused_by_name(#[case] query: &str, #[case] field: &str) {
    let host = TestHost::idle().await;
    let reply = host.get(&format!("{PATH}?{query}")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    assert_eq!(reply.json()["details"]["field"], field);
}

#[tokio::test]
async fn listing_needs_the_scope_to_read_runs() {
    let host = TestHost::idle().await;
    let key = host.key_with(&[Scope::RunsCreate]).await;
    let reply = host.request(Method::GET, PATH).key(&key).send().await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn tags_group_runs_and_show_in_the_report() {
    let (host, [first, _]) = with_runs().await;
    let path = format!("{PATH}/{first}:tag");
    let tagged = host
        .post(&path, &json!({"add": ["nightly", "prompt-2"]}))
        .await;
    assert_eq!(tagged.status, StatusCode::OK, "{tagged:?}");
    assert_eq!(tagged.json()["tags"], json!(["nightly", "prompt-2"]));
    let listed = host.get(&format!("{PATH}?tag=prompt-2")).await.json();
    assert_eq!(ids(&listed), std::slice::from_ref(&first));
    assert_eq!(listed["runs"][0]["tags"], json!(["nightly", "prompt-2"]));
    let report = host.get(&format!("{PATH}/{first}/report")).await.json();
    assert_eq!(report["tags"], json!(["nightly", "prompt-2"]));
    let removed = host
        .post(&path, &json!({"remove": ["nightly"]}))
        .await
        .json();
    assert_eq!(removed["tags"], json!(["prompt-2"]));
    for body in [
        json!({"add": [""]}),
        json!({"add": "x"}),
        json!({"tags": []}),
    ] {
        let refused = host.post(&path, &body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}");
    }
}

#[tokio::test]
async fn a_deleted_run_is_not_listed() {
    let (host, [first, second]) = with_runs().await;
    let path = format!("{PATH}/{first}");
    let deleted = host.request(Method::DELETE, &path);
    let key = host.key_with(&[Scope::RunsDelete]).await;
    assert_eq!(deleted.key(&key).send().await.status, StatusCode::OK);
    assert_eq!(ids(&host.get(PATH).await.json()), [second]);
}

#[tokio::test]
async fn words_find_runs_by_their_names() {
    let (host, [first, second]) = with_runs().await;
    let tag = format!("{PATH}/{first}:tag");
    host.post(&tag, &json!({"add": ["Nightly"]})).await;
    let found = async |words: &str| {
        let reply = host.get(&format!("{PATH}?q={words}")).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        ids(&reply.json())
    };
    assert_eq!(found("nightly").await, std::slice::from_ref(&first));
    assert_eq!(found("bench%20NIGHT").await, std::slice::from_ref(&first));
    assert_eq!(found("bench").await, [second, first.clone()]);
    assert!(found("nothing").await.is_empty());
    for wrong in ["a+b+c+d+e", &"x".repeat(65), "run_1+run_2"] {
        let reply = host.get(&format!("{PATH}?q={wrong}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let both = host.get(&format!("{PATH}?q={first}&idPrefix=run_")).await;
    assert_eq!(both.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn flaky_tasks_of_a_suite_are_listed() {
    let (host, [first, second]) = with_runs().await;
    let path = format!("/v1/host/touchstone/suites/{SUITE}/flaky");
    let found = host.get(&path).await;
    assert_eq!(found.status, StatusCode::OK, "{found:?}");
    let found = found.json();
    assert_eq!(found["measuredCount"], 3);
    assert_eq!(found["tasks"], json!([]));
    assert_eq!(ids(&found), [first, second]);
    assert_eq!(found["agent"]["agentId"], AGENT);
    let none = host.get(&format!("{path}?agentVersion=9.9.9")).await.json();
    assert_eq!(none, json!({"runs": [], "measuredCount": 0, "tasks": []}));
    let unknown = host.get("/v1/host/touchstone/suites/none/flaky").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let wrong = host.get(&format!("{path}?limit=21")).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}
