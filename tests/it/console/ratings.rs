//! Ratings, agent cards and OASIS.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use touchstone_host::access::Scope;
use touchstone_host::system::SystemClock;

use super::audited::actions;
use super::person::Person;
use crate::http::support::host::TestHost;
use crate::ratings::api::Site;
use crate::ratings::api::appeals::rated;
use crate::ratings::api::assessments::{assessed, ordered, work};
use crate::webhooks::receiver::{Answer, Receiver};

#[tokio::test]
async fn a_tenant_without_an_organization_sees_how_to_get_one() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&[Scope::AgentsRead]).await).await;
    let page = person.page("/console/ratings").await;
    assert!(
        page.contains("touchstone rating organization create"),
        "{page}"
    );
}

#[tokio::test]
async fn a_rating_is_ranked_and_explained() {
    let site = Site::of(TestHost::idle().await, None).await;
    site.host.assess();
    let agent = site.enrol("triage <i>desk</i>").await;
    work(&site, &agent, "done", 30, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let assessment = assessed(&site, &order).await;
    assert_eq!(assessment["status"], "completed", "{assessment}");
    let person = Person::with(&site.host, &site.ours.key).await;
    let list = person.page("/console/ratings?sort=capability").await;
    assert!(list.contains("triage &#60;i&#62;desk") && list.contains("class=\"plane\""));
    let none = person.page("/console/ratings?tier=performance:0").await;
    assert!(none.contains("No agent has this tier"));
    let page = person.page(&format!("/console/ratings/{agent}")).await;
    assert!(page.contains("Task Completion Rate") && page.contains("dimensions/accuracy"));
    let why = format!("/console/ratings/{agent}/dimensions/accuracy");
    let why = person.page(&why).await;
    assert!(
        why.contains("Accuracy from revisions") && why.contains("task assigned"),
        "{why}"
    );
    let id = assessment["id"].as_str().unwrap();
    person
        .page(&format!("/console/ratings/{agent}/assessments/{id}"))
        .await;
    let theirs = Person::with(&site.host, &site.theirs.key).await;
    for path in [
        format!("/console/ratings/{agent}"),
        format!("/console/ratings/{agent}/dimensions/accuracy"),
        format!("/console/ratings/{agent}/assessments/{id}"),
    ] {
        assert_eq!(
            theirs.open(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn cards_are_watched_and_unwatched() {
    let host = TestHost::idle().await;
    let key = host
        .key_with(&[Scope::AssessmentsRead, Scope::AssessmentsWrite])
        .await;
    let person = Person::with(&host, &key).await;
    assert!(
        person
            .page("/console/cards")
            .await
            .contains("No card is watched")
    );
    let url = "https://agent.example.com/card.json";
    let watched = person
        .submit("/console/cards/watch", &[("url", url), ("every", "24")])
        .await;
    assert_eq!(watched.status, StatusCode::SEE_OTHER, "{}", watched.text);
    assert!(person.page("/console/cards").await.contains(url));
    let invalid = person
        .submit(
            "/console/cards/watch",
            &[("url", "ftp://x"), ("every", "24")],
        )
        .await;
    assert_eq!(invalid.status, StatusCode::BAD_REQUEST);
    person
        .submit("/console/cards/unwatch", &[("url", url)])
        .await;
    assert!(!person.page("/console/cards").await.contains(url));
    let history = format!("/console/cards/history?url={url}");
    assert!(person.page(&history).await.contains("Not scored yet"));
}

#[tokio::test]
async fn oasis_has_an_empty_list_and_no_report_of_other_runs() {
    let host = TestHost::working(&crate::http::support::host::says(&["hello"])).await;
    let person = Person::with(&host, &host.key).await;
    assert!(
        person
            .page("/console/oasis")
            .await
            .contains("No evaluations yet")
    );
    let run = host.create().await;
    host.ended(&run).await;
    let seen = person.open(&format!("/console/oasis/{run}")).await;
    assert_eq!(seen.status, StatusCode::NOT_FOUND);
}

/// A colleague of the organization.
async fn colleague(site: &Site, name: &str) -> Person {
    let key = site.host.issue(|issue| {
        issue.tenant = site.ours.id.as_str().into();
        issue.scopes = Scope::within_tenant().collect();
        issue.principal = Some(name.to_owned());
    });
    Person::with(&site.host, &key.await).await
}

#[tokio::test]
async fn an_appeal_is_filed_reviewed_and_accepted_by_another_person() {
    let site = Site::of(TestHost::idle().await, None).await;
    let assessment = rated(&site).await;
    let text = |name: &str| assessment[name].as_str().unwrap().to_owned();
    let page = format!(
        "/console/ratings/{}/assessments/{}",
        text("agent_id"),
        text("id")
    );
    let (dana, kim) = (
        colleague(&site, "dana").await,
        colleague(&site, "kim").await,
    );
    let fields = [
        ("dimension", "task_completion_rate"),
        ("justification", "The task was <b>impossible</b>."),
        ("task", "bad-0"),
        ("claim", "It asked for two things."),
    ];
    let filed = dana.submit(&format!("{page}/appeals"), &fields).await;
    assert_eq!(filed.status, StatusCode::SEE_OTHER, "{}", filed.text);
    let own = dana.page(&page).await;
    assert!(own.contains("another person must decide"), "{own}");
    assert!(!own.contains("Accept the appeal"));
    let shown = kim.page(&page).await;
    let action = shown.split(&format!("action=\"{page}/appeals/")).nth(1);
    let action = action.unwrap().split('"').next().unwrap();
    let action = format!("{page}/appeals/{action}");
    let reject = [("decision", "reject"), ("reason", "no")];
    let refused = dana.submit(&action, &reject).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    let review = kim.submit(&action, &[("decision", "review")]).await;
    assert!(review.location.unwrap().ends_with("?done=appeal-reviewed"));
    assert!(kim.page(&page).await.contains("kim reviews it"));
    let accept = [
        ("decision", "accept"),
        ("correction", "exclude_task"),
        ("task", "bad-0"),
        ("reason", "You are right."),
    ];
    let accepted = kim.submit(&action, &accept).await;
    assert_eq!(accepted.status, StatusCode::SEE_OTHER, "{}", accepted.text);
    let shown = kim.page(&page).await;
    assert!(shown.contains("kim: You are right.") && shown.contains("Task bad-0 does not count."));
    assert!(shown.contains("Changed scores:") && !shown.contains("Accept the appeal"));
    let late = kim.submit(&action, &accept).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn an_assessment_is_requested_for_a_window_or_one_dimension() {
    let site = Site::of(TestHost::idle().await, None).await;
    let agent = site.enrol("triage").await;
    let now = Timestamp::now().to_string();
    let event = json!({"agent_id": agent, "type": "tool_invoked", "timestamp": now, "data": {
        "task_id": "t", "tool": "grep", "success": true, "unnecessary": false,
        "error_recovered": null}});
    let recorded = site.post("events", &event).await;
    assert!(recorded.status.is_success(), "{recorded:?}");
    let person = Person::with(&site.host, &site.ours.key).await;
    let page = person.page(&format!("/console/ratings/{agent}")).await;
    assert!(page.contains("Other assessment"));
    let assess = format!("/console/ratings/{agent}/assess");
    let fields = [
        ("kind", "single_dimension"),
        ("dimension", "tool_proficiency"),
        ("from", "2020-01-01"),
        ("until", ""),
    ];
    let ordered = person.submit(&assess, &fields).await;
    assert_eq!(ordered.status, StatusCode::SEE_OTHER, "{}", ordered.text);
    let place = ordered.location.unwrap();
    let shown = person.page(&place).await;
    assert!(shown.contains("One dimension"), "{shown}");
    let wrong = person.submit(&assess, &[("kind", "whole")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn notices_have_webhooks_with_deliveries() {
    let site = Site::of(TestHost::idle().await, None).await;
    let receiver = Receiver::start(Answer::Status(410)).await;
    let person = Person::with(&site.host, &site.ours.key).await;
    assert!(
        person
            .page("/console/notices")
            .await
            .contains("No webhooks yet")
    );
    let url = receiver.url();
    let fields = [("url", url.as_str()), ("event", "assessment.started")];
    let made = person.submit("/console/notices", &fields).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    assert!(made.text.contains("whsec_") && made.cache == "no-store");
    let list = person.page("/console/notices").await;
    assert!(list.contains("assessment started") && !list.contains("whsec_"));
    let id = list.split("href=\"/console/notices/").nth(1).unwrap();
    let page = format!("/console/notices/{}", id.split('"').next().unwrap());
    assert!(person.page(&page).await.contains("No notices yet"));

    site.host.tell(Arc::new(SystemClock));
    site.host.assess();
    let agent = site.enrol("triage").await;
    ordered(&site, &agent).await;
    let shown = loop {
        let shown = person.page(&page).await;
        if shown.contains("the address is gone") {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(
        shown.contains("HTTP 410") && shown.contains("Enable it again"),
        "{shown}"
    );
    receiver.answer(Answer::Status(204));
    let enabled = person.submit(&format!("{page}/enable"), &[]).await;
    assert!(enabled.location.unwrap().ends_with("?done=notice-enabled"));
    let shown = person.page(&page).await;
    let again = shown.split(&format!("action=\"{page}/deliveries/")).nth(1);
    let again = again.unwrap().split('"').next().unwrap();
    let again = format!("{page}/deliveries/{again}");
    let sent = person.submit(&again, &[]).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.text);
    receiver.wait_for(2).await;
    let rotated = person.submit(&format!("{page}/rotate"), &[]).await;
    assert!(rotated.text.contains("whsec_"));
    let theirs = Person::with(&site.host, &site.theirs.key).await;
    assert_eq!(theirs.open(&page).await.status, StatusCode::NOT_FOUND);
    let foreign = theirs.submit(&format!("{page}/remove"), &[]).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    let removed = person.submit(&format!("{page}/remove"), &[]).await;
    assert_eq!(removed.status, StatusCode::SEE_OTHER);
    assert_eq!(person.open(&page).await.status, StatusCode::NOT_FOUND);
    let acts = actions(&site.host, &site.ours.key, "notices:").await;
    let expected = ["create", "enable", "redeliver", "rotate", "remove"];
    assert_eq!(acts, expected.map(|act| format!("notices:{act}")));
}
