//! Ratings, agent cards and OASIS.

use axum::http::StatusCode;
use serde_json::json;
use touchstone_host::access::Scope;

use super::person::Person;
use crate::http::support::host::TestHost;
use crate::ratings::api::Site;
use crate::ratings::api::assessments::{assessed, work};

#[tokio::test]
async fn a_tenant_without_an_organization_is_told_how_to_get_one() {
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
