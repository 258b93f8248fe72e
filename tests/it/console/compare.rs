//! Two runs side by side, and scores over time.

use axum::http::StatusCode;
use serde_json::json;
use touchstone_host::access::Scope;

use super::visitor::{Visitor, ended};
use crate::http::deployments::promotion;
use crate::http::support::host::{SUITE, TestHost, says, suite};

#[tokio::test]
async fn two_runs_are_chosen_and_compared() {
    let host = TestHost::working(&says(&["yes", "no", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let (first, second) = (ended(&host).await, ended(&host).await);
    let choose = ada.page("/console/compare").await;
    assert!(choose.contains(first.as_str()) && choose.contains(second.as_str()));
    // The list sends one member for each run, the newest first.
    let chosen = ada
        .get(&format!("/console/compare?runs={second}&runs={first}"))
        .await;
    assert_eq!(chosen.status, StatusCode::SEE_OTHER);
    let location = format!("/console/compare?runs={first},{second}");
    assert_eq!(chosen.header("location"), Some(location.as_str()));
    let page = ada.page(&location).await;
    assert!(page.contains("No task changed in this way"), "{page}");
    assert!(
        page.contains(&format!("runs={second},{first}")),
        "the runs can be swapped"
    );
    assert!(page.contains("<dt>Interval</dt>"), "{page}");
    for show in ["same", "all"] {
        let page = ada.page(&format!("{location}&show={show}")).await;
        for task in ["task-0", "task-1", "task-2"] {
            let href = format!("/console/compare/tasks/{task}?runs={first},{second}");
            assert!(page.contains(&href), "{show} {task}: {page}");
        }
    }
    let page = ada.page(&format!("{location}&show=all&from=100")).await;
    assert!(page.contains("There are no more tasks."), "{page}");
    let one = ada.page(&format!("/console/compare?runs={first}")).await;
    assert!(one.contains("checked"));
}

#[tokio::test]
async fn answers_are_side_by_side_for_those_who_may_read_them() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let (first, second) = (ended(&host).await, ended(&host).await);
    let path = format!("/console/compare/tasks/task-1?runs={first},{second}");
    let page = ada.page(&path).await;
    assert!(page.contains("Both runs gave the same answer."), "{page}");
    let before = format!("/console/compare/tasks/task-0?runs={first},{second}\" rel=\"prev\"");
    assert!(
        page.contains(&before) && !page.contains("rel=\"next\""),
        "{page}"
    );
    assert!(page.contains("Baseline") && page.contains("Compared run"));
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let refused = reader.get(&path).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text().contains("<code>runs:content</code>"));
    let other = Visitor::signed_in(&host, &host.other_key).await;
    assert_eq!(other.get(&path).await.status, StatusCode::NOT_FOUND);
    let runs = format!("/console/compare?runs={first},{second}");
    assert_eq!(other.get(&runs).await.status, StatusCode::NOT_FOUND);
    let unknown = format!("/console/compare/tasks/none?runs={first},{second}");
    assert_eq!(ada.get(&unknown).await.status, StatusCode::NOT_FOUND);
    let one = format!("/console/compare/tasks/task-1?runs={first}");
    assert_eq!(ada.get(&one).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_history_of_a_suite_is_a_chart_and_a_table() {
    let host = TestHost::working(&says(&["yes", "no", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let alone = ada.page(&format!("/console/history?suiteId={SUITE}")).await;
    assert!(!alone.contains("<figure class=\"history\">") && alone.contains(run.as_str()));
    ended(&host).await;
    let page = ada.page(&format!("/console/history?suiteId={SUITE}")).await;
    assert!(page.contains("<figure class=\"history\">"), "{page}");
    assert!(page.contains("series-interval"), "intervals are stored");
    let matrix = ada.page("/console/history").await;
    assert!(matrix.contains("Newest score of each agent version and suite"));
    assert!(page.contains("aria-current=\"true\">All</a>"), "{page}");
    for filter in [
        "since=2999-01-01",
        "until=2001-01-01",
        "model=other",
        "suiteVersion=9.9.9",
    ] {
        let path = format!("/console/history?suiteId={SUITE}&{filter}");
        let none = ada.page(&path).await;
        assert!(
            none.contains("No run of this suite matches"),
            "{filter}: {none}"
        );
    }
    let wrong = format!("/console/history?suiteId={SUITE}&until=tomorrow");
    assert_eq!(ada.get(&wrong).await.status, StatusCode::BAD_REQUEST);
    let none = ada.page("/console/history?suiteId=other").await;
    assert!(none.contains("No run of this suite"));
    let other = Visitor::signed_in(&host, &host.other_key).await;
    assert!(
        other
            .page("/console/history")
            .await
            .contains("No scores yet")
    );
}

#[tokio::test]
async fn runs_without_a_common_task_are_refused_with_a_reason() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let first = ended(&host).await;
    let mut changed = suite(&says(&["yes"]));
    changed["version"] = json!("2.0.0");
    changed["tasks"][0]["taskId"] = json!("another");
    let imported = host.post("/v1/host/touchstone/suites", &changed).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = crate::http::support::host::create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@2.0.0"));
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let second = created.json()["runId"].as_str().unwrap().into();
    host.ended(&second).await;
    let reply = ada
        .get(&format!("/console/compare?runs={first},{second}"))
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(
        reply.text().contains("no task in common"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn the_history_marks_deployments_and_shows_costs_and_latencies() {
    let host = promotion::host().await;
    let ada = Visitor::ada(&host).await;
    promotion::into_service(&host, "1.1.0", json!({"reason": "weekly <b>release</b>"})).await;
    promotion::eval(&host, "1.1.0").await;
    let path = format!("/console/history?suiteId={SUITE}");
    let page = ada.page(&path).await;
    for text in ["<h2>Score</h2>", "<h2>Latency</h2>", "<h2>Deployments</h2>"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(page.contains("class=\"release\"") && page.contains(">D3</text>"));
    assert!(page.contains("weekly &#60;b&#62;release"), "{page}");
    assert!(
        page.contains("Promoted") && page.contains("stable: "),
        "{page}"
    );
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let page = reader.page(&path).await;
    assert!(page.contains("<code>audit:read</code>") && !page.contains("class=\"release\""));
}

#[tokio::test]
async fn the_matrix_has_the_newest_run_of_each_version() {
    let host = promotion::host().await;
    let ada = Visitor::ada(&host).await;
    let first = promotion::eval(&host, "1.1.0").await;
    let second = promotion::eval(&host, "1.1.0").await;
    let other = promotion::eval(&host, "1.2.0").await;
    let page = ada.page("/console/history").await;
    for run in [&second, &other] {
        assert!(page.contains(&format!("/console/runs/{run}\"")), "{page}");
    }
    assert!(!page.contains(&first) && page.contains("?</span> Inconclusive"));
    let none = ada.page("/console/history?agentId=other").await;
    assert!(!none.contains("<table class=\"matrix\">"));
}

#[tokio::test]
async fn flaky_tasks_need_several_runs_of_one_version() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let path = format!("/console/suites/{SUITE}/flaky");
    let first = ended(&host).await;
    assert!(ada.page(&path).await.contains("Not enough runs"));
    let second = ended(&host).await;
    let page = ada.page(&path).await;
    assert!(
        page.contains("No flaky task") && page.contains("Each of the 2 tasks"),
        "{page}"
    );
    for run in [first, second] {
        assert!(page.contains(&format!("/console/runs/{run}\"")));
    }
    let none = ada
        .page(&format!("{path}?agentVersion=9.9.9&limit=5"))
        .await;
    assert!(none.contains("Not enough runs"));
    let wrong = ada.get(&format!("{path}?limit=1000")).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let history = ada.page(&format!("/console/history?suiteId={SUITE}")).await;
    assert!(history.contains(&format!("href=\"{path}\"")));
    let other = Visitor::signed_in(&host, &host.other_key).await;
    assert!(other.page(&path).await.contains("Not enough runs"));
}

#[tokio::test]
async fn judges_are_listed_for_those_who_may_read_them() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    ended(&host).await;
    let page = ada.page("/console/judges").await;
    assert!(page.contains("No judge is calibrated"), "{page}");
    assert!(page.contains("No run with several judges"));
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let page = reader.page("/console/judges").await;
    assert!(page.contains("<code>manifest:read</code>"));
}

#[tokio::test]
async fn differences_of_runs_are_named_for_people() {
    let host = promotion::host().await;
    let ada = Visitor::ada(&host).await;
    let first = promotion::eval(&host, "1.1.0").await;
    let second = promotion::eval(&host, "1.2.0").await;
    let path = format!("/console/compare?runs={first},{second}");
    let page = ada.page(&path).await;
    assert!(
        page.contains("Agent&#39;s version") && page.contains("Pack&#39;s digest"),
        "{page}"
    );
    for name in ["agentVersion", "packIntegrity"] {
        assert!(!page.contains(name), "{name}");
    }
}

#[tokio::test]
async fn the_report_of_a_run_contains_the_comparison_with_its_baseline() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let (first, second) = (ended(&host).await, ended(&host).await);
    let report = format!("/console/runs/{second}/download/report.html");
    let plain = ada.page(&report).await;
    assert!(!plain.contains(first.as_str()), "{plain}");
    let page = ada
        .page(&format!("/console/runs/{second}?baseline={first}"))
        .await;
    let link = format!("{report}?baseline={first}");
    assert!(page.contains(&format!("href=\"{link}\"")), "{page}");
    let compared = ada.page(&link).await;
    assert!(compared.contains(first.as_str()), "{compared}");
    let unknown = ada.get(&format!("{report}?baseline=run_0")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}
