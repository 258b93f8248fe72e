//! Eval runs, deployments, reviews, judges, webhooks and approvals of a tenant.

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use touchstone_console::operations;
use touchstone_console::routes::Kind;
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::webhooks::{DeliveryError, DeliveryRecord};
use touchstone_runs::store::deliveries;

use super::{Shown, with_content, without_content};
use crate::console::review::judged;
use crate::console::support::{MARKUP, Names, example, inputs, review};
use crate::console::visitor::Visitor;
use crate::http::deployments::promotion::{eval, moved};
use crate::http::runs::calibrations;
use crate::http::runs::workflows::start;
use crate::http::support::host::{AGENT, SUITE, TestHost, create_body, suite};

/// The task that passes in every other run.
const FLAKY: &str = "task-4";
/// The task whose agent calls a tool that it lacks.
const TOOL: &str = "task-5";

pub struct Runs {
    /// Two runs of one version of the agent.
    pub first: RunId,
    second: RunId,
    judged: RunId,
    /// A run with a task that takes an hour.
    open: RunId,
    /// A workflow that waits for an answer.
    pub waiting: RunId,
    pub webhook: String,
    /// A review with the labels of two people.
    labelled: String,
}

async fn ended(host: &TestHost) -> RunId {
    let mut body = create_body();
    body["tags"] = json!(["nightly", "release"]);
    let run = start(host, &body).await;
    host.ended(&run).await;
    run
}

/// A run that has scored its first tasks.
async fn open(host: &TestHost) -> RunId {
    let slow = json!({"say": "yes", "delayMs": 3_600_000});
    let mut document = suite(&[json!({"say": "yes"}), json!({"say": "wrong"}), slow]);
    document["version"] = json!("9.0.0");
    let imported = host.post("/v1/host/touchstone/suites", &document).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@9.0.0"));
    body["configurable"] = json!({"evalConcurrency": 1});
    let run = start(host, &body).await;
    let path = format!("/v1/runs/{run}/events/poll?lastSequence=0&timeout=1");
    while !host.get(&path).await.text().contains("task-1") {
        crate::support::pause().await;
    }
    run
}

/// A review that two people have completed.
async fn labelled(host: &TestHost, run: &RunId) -> String {
    let id = review(host, &json!({"runId": run, "steps": 4})).await;
    let path = format!("/v1/host/touchstone/reviews/{id}");
    let items = host.get(&path).await.json()["items"].as_u64().unwrap();
    for choice in [4, 1] {
        let key = host.key_with(Scope::ALL).await;
        for item in 1..=items {
            let path = format!("{path}/items/{item}/label");
            let body = json!({"choice": choice, "note": "n".repeat(300)});
            let call = host.request(Method::POST, &path).key(&key).json(&body);
            let reply = call.send().await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        }
    }
    id
}

/// A webhook with deliveries.
async fn webhook(host: &TestHost, run: &RunId) -> String {
    let hook =
        json!({"url": "http://127.0.0.1:9999/a-long-name-of-a-hook", "events": ["run.completed"]});
    let made = host.post("/v1/webhooks", &hook).await.json();
    let id = made["webhookId"].as_str().unwrap();
    let failed = DeliveryError::Failed("timeout".to_owned());
    for outcome in [Ok(204), Err(failed)] {
        let (what, times) = ((1, "run.completed"), (Timestamp::now(), 1234));
        let mut made = DeliveryRecord::of(run, what, 1, &outcome, times);
        let (tenant, id) = ("acme".into(), id.into());
        deliveries::add_one(&host.store, &tenant, &id, &mut made)
            .await
            .unwrap();
    }
    id.to_owned()
}

/// A version that serves, and one that a promotion with an approval takes into service.
async fn deploy(host: &TestHost) {
    let set = |policy: Value| async move {
        let set = host.post("/v1/host/touchstone/gates", &policy).await;
        assert_eq!(set.status, StatusCode::OK, "{set:?}");
    };
    host.install("1.1.0").await;
    // Some of the tasks fail on purpose.
    set(json!({"policy": {"eval": null}})).await;
    for version in ["1.0.0", "1.1.0"] {
        for _ in 0..2 {
            moved(host, json!({"version": version, "transition": "promote"})).await;
        }
        eval(host, version).await;
    }
    let promote = json!({"version": "1.0.0", "transition": "promote", "channel": "stable",
        "reason": "weekly release"});
    moved(host, promote).await;
    let approval = json!({"requiredScope": "approvals:respond"});
    set(json!({"agentId": AGENT, "channel": "stable", "policy": {"approval": approval}})).await;
}

pub async fn runs(host: &TestHost) -> Runs {
    let more = [
        json!({"say": "sometimes"}),
        json!({"say": "done", "attemptTool": MARKUP}),
    ];
    host.equip(&[inputs(), more.into()].concat()).await;
    host.work();
    let (first, second) = (ended(host).await, ended(host).await);
    deploy(host).await;
    let judged = judged(host).await;
    let mut samples = calibrations::scored(&[("Kindly.", 5.0), ("No.", 1.0)].repeat(2));
    for sample in samples["samples"].as_array_mut().unwrap() {
        // Its input does not contain the word that the judge looks for.
        sample["task"] = json!("tone-1");
    }
    let begun = host.post(calibrations::PATH, &samples).await;
    let calibrated = calibrations::ended(host, &begun).await;
    assert_eq!(calibrated["status"], "completed", "{calibrated}");
    let waiting = start(host, &json!({"workflowId": "conformance-approval"})).await;
    let person = Visitor::ada(host).await;
    let action = format!("/console/approvals/{waiting}/gate");
    while !person.page("/console/approvals").await.contains(&action) {
        crate::support::pause().await;
    }
    host.sign_audit().await;
    Runs {
        webhook: webhook(host, &first).await,
        labelled: labelled(host, &first).await,
        open: open(host).await,
        first,
        second,
        judged,
        waiting,
    }
}

/// The pages of a person with every scope.
pub async fn pages(host: &TestHost, runs: &Runs, names: &Names) -> Vec<Shown> {
    let Runs { first, second, .. } = runs;
    let own = review(host, &json!({ "runId": first })).await;
    let both = format!("runs={first},{second}");
    let agent = format!("/console/deployments/{AGENT}");
    let content = with_content([
        "/console".to_owned(),
        "/console/runs".to_owned(),
        "/console/runs?tag=nightly".to_owned(),
        format!("/console/runs/{first}"),
        format!("/console/runs/{first}?outcome=failed&done=tagged"),
        format!("/console/runs/{second}?baseline={first}"),
        format!("/console/runs/{}", runs.open),
        format!("/console/runs/{}", runs.judged),
        format!("/console/runs/{}", runs.waiting),
        format!("/console/runs/{first}/tasks/task-2"),
        format!("/console/runs/{first}/tasks/task-3"),
        format!("/console/runs/{first}/tasks/{TOOL}"),
        format!("/console/compare?runs={first}"),
        format!("/console/compare?{both}"),
        format!("/console/compare/tasks/{FLAKY}?{both}"),
        "/console/history".to_owned(),
        format!("/console/history?suiteId={SUITE}"),
        format!("/console/suites/{SUITE}/flaky?agentVersion=1.0.0"),
        "/console/judges".to_owned(),
        "/console/review".to_owned(),
        format!("/console/review/new?run={first}"),
        format!("/console/review/queues/{}", runs.labelled),
        format!("/console/review/queues/{own}"),
        format!("/console/review/queues/{own}/items/1"),
        "/console/deployments".to_owned(),
        agent.clone(),
        format!("{agent}/promote?version=1.1.0&channel=stable"),
        format!("{agent}/promote?version=1.1.0&channel=canary&run="),
        format!("{agent}/change?transition=rollback&version=1.0.0"),
        format!("{agent}/change?transition=pause&version=1.0.0"),
        format!("{agent}/change?transition=adjust-canary&version=1.0.0"),
    ]);
    [content, operations_pages(runs), other_pages(names)].concat()
}

fn operations_pages(runs: &Runs) -> Vec<Shown> {
    with_content([
        "/console/approvals".to_owned(),
        "/console/gates".to_owned(),
        format!("/console/gates/edit?agentId={AGENT}&channel=stable"),
        "/console/audit".to_owned(),
        "/console/audit/verify".to_owned(),
        "/console/packs".to_owned(),
        "/console/packs/community.bench.echo/1.0.0".to_owned(),
        "/console/suites/import".to_owned(),
        format!("/console/suites/{SUITE}/1.0.0"),
        "/console/keys".to_owned(),
        "/console/webhooks".to_owned(),
        format!("/console/webhooks/{}", runs.webhook),
        "/console/sessions".to_owned(),
        "/console/host".to_owned(),
        "/console/cluster".to_owned(),
    ])
}

/// Pages without content, and those of errors.
fn other_pages(names: &Names) -> Vec<Shown> {
    let routes = operations().into_iter();
    // A browser saves a document and shows no page.
    let routes = routes.filter(|it| it.kind == Kind::Page && !it.path.contains("/download/"));
    let examples = routes.filter_map(|it| example(it, names));
    let more = [
        format!("/console/runs/{}/tasks/none", names.run),
        format!("/console/webhooks/{}?before=1", names.webhook),
        "/console/runs?tag=none".to_owned(),
        "/console/runs/run_0".to_owned(),
        "/console/none".to_owned(),
        "/console/sign-in?failed=key_revoked".to_owned(),
    ];
    without_content(examples.chain(more))
}

/// The pages of a person who may only read runs: some say which scope is missing.
pub fn pages_of_a_reader(runs: &Runs, evaluation: &RunId) -> Vec<Shown> {
    let Runs { first, second, .. } = runs;
    without_content([
        "/console/deployments".to_owned(),
        "/console/keys".to_owned(),
        "/console/host".to_owned(),
        "/console/judges".to_owned(),
        "/console/review".to_owned(),
        format!("/console/runs/{first}"),
        format!("/console/runs/{first}/tasks/task-2"),
        format!("/console/compare/tasks/{FLAKY}?runs={first},{second}"),
        format!("/console/history?suiteId={SUITE}"),
        format!("/console/oasis/{evaluation}"),
        format!(
            "/console/oasis/{evaluation}/evidence/{}",
            super::desk::SCENARIO
        ),
    ])
}

/// The documents of a run, which a browser saves.
pub fn documents(run: &str) -> Vec<String> {
    let names = ["report.html", "report.md", "report.json", "junit.xml"];
    names
        .map(|name| format!("/console/runs/{run}/download/{name}"))
        .into()
}
