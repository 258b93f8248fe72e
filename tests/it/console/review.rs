//! Human reviews: queues, blind labels, agreement, calibration, and questions of runs.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;

use super::browser::{Browser, with_browser};
use super::support::{MARKUP, Person, Site, ended_run, review};
use crate::http::runs::workflows::start;
use crate::http::support::host::{AGENT, Reply, TestHost};
use crate::store::{Engine, Engine::*};

const TONE: &str = "community.bench.evals.tone";
const LABELS: usize = 12;

async fn judged_run(host: &TestHost) -> RunId {
    host.equip(&[json!({"say": "a"})]).await;
    let _worker = host.work();
    judged(host).await
}

/// A run whose judge finds every other answer polite, on a host with the agent and a worker.
pub async fn judged(host: &TestHost) -> RunId {
    let task = |n: usize| {
        let word = if n.is_multiple_of(2) { "Kindly" } else { "No" };
        json!({"taskId": format!("tone-{n}"), "input": {"say": format!("{word} {n} {MARKUP}")},
            "expected": {"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1.0}]}})
    };
    let tasks: Vec<Value> = (0..LABELS).map(task).collect();
    let suite =
        json!({"suiteId": TONE, "version": "1.0.0", "modes": ["golden", "rubric"], "tasks": tasks});
    let imported = host.post("/v1/host/touchstone/suites", &suite).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let body = json!({"mode": "eval", "evalSuiteRef": format!("{TONE}@1.0.0"), "agentId": AGENT,
        "configurable": {"evalModes": ["golden", "rubric"]}});
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run: RunId = created.json()["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    run
}

/// A key of a person with a name.
async fn key_of(host: &TestHost, name: &str, scopes: &[Scope]) -> String {
    host.issue(|issue| {
        issue.scopes = scopes.to_vec();
        issue.principal = Some(name.to_owned());
    })
    .await
}

const LABELLER: [Scope; 3] = [Scope::RunsRead, Scope::RunsContent, Scope::ReviewsWrite];

fn queue(id: &str) -> String {
    format!("/console/review/queues/{id}")
}

/// What a page says, without its frame.
fn main_of(reply: &Reply) -> String {
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let text = reply.text();
    let (_, rest) = text.split_once("<main").unwrap();
    rest.split("</main>").next().unwrap().to_owned()
}

#[tokio::test]
async fn a_labeller_sees_neither_the_judge_nor_other_people() {
    let site = Site::on(Sqlite).await.unwrap();
    let host = &site.host;
    let run = judged_run(host).await;
    let id = review(host, &json!({"runId": run, "labellers": 3, "steps": 4})).await;
    let ann = key_of(host, "ann-labels", &LABELLER).await;
    let mut ann = Person::signed_in(host, &ann).await;
    let bob = key_of(host, "bob-labels", &LABELLER).await;
    let mut bob = Person::signed_in(host, &bob).await;
    for item in 1..=LABELS {
        let path = format!("{}/items/{item}", queue(&id));
        let fields = [
            ("choice", "3"),
            ("note", "a-secret-note"),
            ("action", "save"),
        ];
        let sent = ann.send(&path, &fields).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{sent:?}");
        let seen = main_of(&bob.get(&path).await);
        for shown in ["is polite", "tone-", "Answer of the agent", "0.75"] {
            assert!(seen.contains(shown), "{shown}: {seen}");
        }
        for hidden in [
            "0.000",
            "1.000",
            "badge",
            "Passed",
            "Failed",
            "Not judged",
            "not met",
            "weight",
            "a-secret-note",
            "ann-labels",
            "checked",
            "<script>window",
            run.as_str(),
        ] {
            assert!(!seen.contains(hidden), "{hidden}: {seen}");
        }
        // The page of the queue shows what people chose only once all labels are there.
        let progress = main_of(&bob.get(&queue(&id)).await);
        assert!(!progress.contains("a-secret-note"), "{progress}");
        assert!(progress.contains(&format!("{item} of {} labels", LABELS * 3)));
    }
    let own = main_of(&ann.get(&format!("{}/items/1", queue(&id))).await);
    assert!(
        own.contains("a-secret-note") && own.contains("checked"),
        "{own}"
    );
    let api = format!("/v1/host/touchstone/reviews/{id}/next");
    let next = host.get(&api).await.json();
    let members: Vec<&String> = next["item"].as_object().unwrap().keys().collect();
    for hidden in ["score", "outcome", "reason", "labels", "assertions"] {
        assert!(!members.iter().any(|it| *it == hidden), "{members:?}");
    }
    let log = host.get("/v1/host/touchstone/audit").await.text();
    assert!(log.contains("runs:content") && log.contains("reviews:label"));
    assert!(!log.contains("a-secret-note"));
}

#[rstest]
#[tokio::test]
async fn a_label_changes_until_all_labels_are_there(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let host = &site.host;
    let run = ended_run(host).await;
    let id = review(host, &json!({ "runId": run })).await;
    let item = format!("{}/items/1", queue(&id));
    let ann = key_of(host, "ann", &LABELLER).await;
    let mut ann = Person::signed_in(host, &ann).await;
    for choice in ["0", "1"] {
        let sent = ann.send(&item, &[("choice", choice)]).await;
        let place = sent.header("location").unwrap();
        assert!(
            place.starts_with(&format!("{}/items/2?", queue(&id))),
            "{place}"
        );
    }
    assert_eq!(
        ann.send(&item, &[("choice", "7")]).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(ann.send(&item, &[]).await.status, StatusCode::BAD_REQUEST);
    let bob = key_of(host, "bob", &LABELLER).await;
    let mut bob = Person::signed_in(host, &bob).await;
    let opened = bob.get(&format!("{}/next", queue(&id))).await;
    assert!(
        opened.header("location").unwrap().contains("/items/1?"),
        "{opened:?}"
    );
    let skipped = bob.send(&item, &[("action", "skip")]).await;
    assert!(
        skipped.header("location").unwrap().contains("/items/2?"),
        "{skipped:?}"
    );
    bob.send(&item, &[("choice", "1")]).await;
    for person in [&mut ann, &mut bob] {
        let late = person.send(&item, &[("choice", "0")]).await;
        assert_eq!(late.status, StatusCode::CONFLICT, "{late:?}");
        assert_eq!(person.get(&item).await.status, StatusCode::CONFLICT);
    }
    let closing = format!("{}/close", queue(&id));
    assert_eq!(bob.send(&closing, &[]).await.status, StatusCode::FORBIDDEN);
    let mut lead = site.person().await;
    let closed = lead.send(&closing, &[]).await;
    assert_eq!(closed.status, StatusCode::SEE_OTHER, "{closed:?}");
    let late = bob
        .send(&format!("{}/items/2", queue(&id)), &[("choice", "1")])
        .await;
    assert_eq!(late.status, StatusCode::CONFLICT, "{late:?}");
    let seen = main_of(&lead.get(&queue(&id)).await);
    assert!(
        seen.contains("Closed") && seen.contains("No judge decides"),
        "{seen}"
    );
    // Labels are deleted with their run.
    let path = format!("/v1/host/touchstone/runs/{run}");
    let deleted = host.request(Method::DELETE, &path).send().await;
    assert_eq!(deleted.status, StatusCode::OK, "{deleted:?}");
    assert_eq!(lead.get(&queue(&id)).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn reviews_need_their_scopes_and_stay_in_their_tenant() {
    let site = Site::on(Sqlite).await.unwrap();
    let host = &site.host;
    let run = ended_run(host).await;
    let id = review(host, &json!({ "runId": run })).await;
    let mut other = Person::signed_in(host, &host.other_key).await;
    for path in [
        queue(&id),
        format!("{}/next", queue(&id)),
        format!("{}/items/1", queue(&id)),
        format!("/console/review/new?run={run}"),
    ] {
        assert_eq!(
            other.get(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    assert!(!main_of(&other.get("/console/review").await).contains(&id));
    let made = other
        .send("/console/review/queues", &[("run", run.as_str())])
        .await;
    assert_eq!(made.status, StatusCode::NOT_FOUND, "{made:?}");

    let reader = key_of(host, "eve", &[Scope::RunsRead]).await;
    let mut reader = Person::signed_in(host, &reader).await;
    let seen = main_of(&reader.get(&queue(&id)).await);
    assert!(
        seen.contains("reviews:write") && !seen.contains("/close"),
        "{seen}"
    );
    let blind = key_of(host, "kim", &[Scope::RunsRead, Scope::ReviewsWrite]).await;
    let mut blind = Person::signed_in(host, &blind).await;
    let seen = main_of(&blind.get(&queue(&id)).await);
    assert!(seen.contains("runs:content"), "{seen}");
    let refused = blind.get(&format!("{}/items/1", queue(&id))).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text().contains("runs:content"));
}

#[tokio::test]
async fn a_review_is_created_from_a_run() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let mut person = site.person().await;
    let page = main_of(&person.get(&format!("/console/runs/{run}")).await);
    assert!(page.contains(&format!("/console/review/new?run={run}")));
    let form = main_of(&person.get(&format!("/console/review/new?run={run}")).await);
    assert!(form.contains("Answers that failed (1)"), "{form}");
    let fields = [
        ("run", run.as_str()),
        ("outcome", "failed"),
        ("sample", ""),
        ("seed", "7"),
        ("labellers", "1"),
        ("steps", "1"),
    ];
    let made = person.send("/console/review/queues", &fields).await;
    let place = made.header("location").unwrap().to_owned();
    let seen = main_of(&person.get(&place).await);
    assert!(
        seen.contains("0 of 1 labels") && seen.contains("The review was created"),
        "{seen}"
    );
    let list = main_of(&person.get("/console/review").await);
    assert!(list.contains(place.split('?').next().unwrap()), "{list}");
    let none = [("run", run.as_str()), ("outcome", "unjudged")];
    let refused = person.send("/console/review/queues", &none).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
}

#[tokio::test]
async fn questions_of_runs_are_answered_on_the_page_of_reviews() {
    let site = Site::on(Sqlite).await.unwrap();
    let host = &site.host;
    let _worker = host.work();
    let run = start(host, &json!({"workflowId": "conformance-approval"})).await;
    let mut person = site.person().await;
    let action = format!("/console/approvals/{run}/gate");
    while !main_of(&person.get("/console/review").await).contains(&action) {
        tokio::task::yield_now().await;
    }
    let fields = [
        ("answer", "accept"),
        ("reason", "Fine."),
        ("back", "review"),
    ];
    let sent = person.send(&action, &fields).await;
    assert_eq!(
        sent.header("location"),
        Some("/console/review?done=answered")
    );
    host.ended(&run).await;
    assert!(main_of(&person.get("/console/review").await).contains("Nothing waits"));
}

/// Labels every answer by keys, as the answer says, except for one.
async fn label_all(browser: &Browser, queue: &str, different: &str) {
    browser.open(queue).await;
    browser.click("form[action$='/next'] button").await;
    let items = format!("{queue}/items/");
    let mut place = browser.place().await;
    while place == queue {
        tokio::task::yield_now().await;
        place = browser.place().await;
    }
    while place.starts_with(&items) {
        let answer = browser.text(".answer pre").await;
        let is_different = answer.contains(different);
        let key = if answer.contains("Kindly") == is_different {
            "n"
        } else {
            "y"
        };
        browser.press(key).await;
        browser.press("\u{e007}").await;
        let before = place;
        place = browser.place().await;
        while place == before {
            tokio::task::yield_now().await;
            place = browser.place().await;
        }
    }
    assert!(place.starts_with(&format!("{queue}?")), "{place}");
}

#[rstest]
#[tokio::test]
async fn two_people_label_answers_and_see_how_far_they_agree(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::plain(engine).await else {
        return;
    };
    let run = judged_run(&site.host).await;
    let id = review(&site.host, &json!({"runId": run, "seed": 3})).await;
    let queue = queue(&id);
    let ann = key_of(&site.host, "ann", &LABELLER).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&ann).await;
        browser.open("/console/review").await;
        browser.click("#queues tbody th a").await;
        browser.arrive(&queue).await;
        browser.click("form[action$='/next'] button").await;
        browser.find("form[data-label]").await;
        // Keys are letters while a person types.
        browser.press("y").await;
        browser
            .find("#note")
            .await
            .send_keys("n s ? y")
            .await
            .unwrap();
        let chosen = "document.querySelector('input[name=choice]:checked').value";
        assert_eq!(browser.value(chosen).await, "1");
        assert_eq!(
            browser.value("document.querySelector('#note').value").await,
            "n s ? y"
        );
        assert_eq!(
            browser.value("document.querySelector('#keys').open").await,
            false
        );
        browser.open(&queue).await;
        label_all(browser, &queue, "No such answer").await;
        let seen = browser.text("main").await;
        assert!(seen.contains("You have labelled every answer"), "{seen}");
        assert!(!seen.contains("Ended"), "{seen}");

        browser.client.delete_all_cookies().await.unwrap();
        browser.sign_in(&site.host.key).await;
        label_all(browser, &queue, "Kindly 4 ").await;
        let agreement = browser.text("#agreement").await;
        for shown in ["rely on the labels", "92 %", "0.83", "0.84"] {
            assert!(agreement.contains(shown), "{shown}: {agreement}");
        }
        let disputed = browser.text("#disputed tbody").await;
        assert!(
            disputed.contains("tone-4") && disputed.contains("Pass by ann"),
            "{disputed}"
        );
        browser.click("#calibration form button").await;
        while !browser.text("#calibration").await.contains("Calibrated") {
            browser.client.refresh().await.unwrap();
        }
        assert_eq!(browser.value("window.ran === undefined").await, true);
        let calibrations = site
            .host
            .get("/v1/host/touchstone/judge/calibrations")
            .await;
        assert_eq!(calibrations.json()["calibrations"][0]["samples"], LABELS);
    })
    .await;
}
