//! A person corrects a score of an eval run: the evidence is kept, and an appeal opens against the
//! rating that counted it.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use crate::ratings::api::evidence::profiles::{Evals, mostly_right, rated_by_runs};
use crate::ratings::api::{Engine, Site, site};

const TEXT: &str = "the expected text was out of date";

/// The events of a run that scored a task, in log order.
async fn judgments(site: &Site, run: &str) -> Vec<Value> {
    let log = site.host.ended(&run.into()).await;
    let scored = log.into_iter().filter(|it| it["type"] == "eval.scored");
    scored.collect()
}

/// The score event of the failed task.
async fn missed(site: &Site, run: &str) -> Value {
    let judgments = judgments(site, run).await;
    let missed = judgments.iter().find(|it| it["payload"]["passed"] == false);
    missed.unwrap().clone()
}

async fn corrected(site: &Site, key: Option<&str>, run: &str, target: Value) {
    let path = format!("/v1/runs/{run}/annotations");
    let signal = json!({"kind": "correction", "correction": TEXT});
    let call = site.host.request(Method::POST, &path);
    let call = match key {
        Some(key) => call.key(key),
        None => call,
    };
    let body = json!({"target": target, "signal": signal});
    let made = call.json(&body).send().await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

async fn appeals(site: &Site, evals: &Evals, assessment: &Value) -> Vec<Value> {
    let path = format!("assessments/{}/appeals", assessment["id"].as_str().unwrap());
    let listed = evals.get(site, &path).await;
    listed["data"].as_array().unwrap().clone()
}

#[rstest]
#[tokio::test]
async fn correcting_counted_evidence_opens_an_appeal(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let evals = mostly_right(&site).await;
    let (agent, runs, found) = rated_by_runs(&site, &evals).await;
    let missed = missed(&site, &runs[0]).await;
    let target = json!({"eventId": missed["eventId"]});

    // A caller who may not file appeals opens none, and neither does a comment without a reference
    // to a judgment.
    let key = site
        .host
        .key_with(&[Scope::RunsRead, Scope::RunsCreate])
        .await;
    corrected(&site, Some(&key), &runs[0], target.clone()).await;
    corrected(&site, None, &runs[0], json!({"nodeId": missed["nodeId"]})).await;
    assert_eq!(appeals(&site, &evals, &found).await, Vec::<Value>::new());

    corrected(&site, None, &runs[0], target.clone()).await;
    // While this appeal is open, a second correction does not open another.
    corrected(&site, None, &runs[0], target).await;
    let appeals = appeals(&site, &evals, &found).await;
    let [appeal] = appeals.as_slice() else {
        panic!("{appeals:?}");
    };
    let rated: Vec<&String> = found["result"]["performance"]["dimensions"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, it)| !it["score"].is_null())
        .map(|(name, _)| name)
        .collect();
    let mut challenged: Vec<&str> = appeal["dimensions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    challenged.sort_unstable();
    assert_eq!(
        (&appeal["status"], challenged),
        (&json!("filed"), {
            let mut rated: Vec<&str> = rated.iter().map(|it| it.as_str()).collect();
            rated.sort_unstable();
            rated
        })
    );
    assert_eq!(appeal["counter_evidence"][0]["claim"], TEXT);

    // The appeal names the task as the evidence does, so that it can be resolved.
    let task = &appeal["counter_evidence"][0]["task_id"];
    let events = format!("events?agent_id={agent}&type=task_completed&limit=200");
    let events = evals.get(&site, &events).await;
    let events = events["data"].as_array().unwrap();
    let about = events.iter().find(|it| it["data"]["task_id"] == *task);
    assert_eq!(about.unwrap()["data"]["completion_status"], "rejected");
    let path = format!(
        "/api/v1/assessments/{}/appeals/{}/resolve",
        found["id"].as_str().unwrap(),
        appeal["id"].as_str().unwrap()
    );
    let dana = site.host.issue(|issue| {
        issue.scopes = vec![Scope::AppealsReview];
        issue.principal = Some("dana".to_owned());
    });
    let accept =
        json!({"decision": "accept", "overrides": [{"type": "exclude_task", "task_id": task}]});
    let call = site.host.request(Method::POST, &path).key(&dana.await);
    let ruled = call.json(&accept).send().await;
    assert_eq!(ruled.json()["status"], "accepted", "{ruled:?}");
    let path = format!("assessments/{}", found["id"].as_str().unwrap());
    let now = evals.get(&site, &path).await;
    let rate = |of: &Value| {
        of["result"]["performance"]["dimensions"]["task_completion_rate"]["score"].as_f64()
    };
    assert!(rate(&now) > rate(&found), "{now}");
}

#[tokio::test]
async fn correcting_uncounted_evidence_opens_no_appeal() {
    site!(Engine::Sqlite => site);
    let evals = mostly_right(&site).await;
    let (_, _, found) = rated_by_runs(&site, &evals).await;
    let later = site.host.create().await.to_string();
    let missed = missed(&site, &later).await;
    let target = json!({"eventId": missed["eventId"]});
    corrected(&site, None, &later, target.clone()).await;
    // Not even if the run has become evidence since.
    let collected = evals.collect(&site, &json!({})).await;
    assert_eq!(collected["runs"], 1);
    corrected(&site, None, &later, target).await;
    assert_eq!(appeals(&site, &evals, &found).await, Vec::<Value>::new());
}
