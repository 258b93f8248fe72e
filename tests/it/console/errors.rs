//! The frame of pages: errors of signed-in people, the sections that the navigation offers, and what
//! the last form did.

use axum::body::to_bytes;
use axum::http::StatusCode;
use touchstone_host::access::Scope;

use super::support::Person;
use super::visitor::Visitor;
use crate::http::support::host::{TestHost, says};

const NAVIGATION: &str = "<nav aria-label=\"Sections\">";

/// A page that a browser opens with further headers.
async fn opened(visitor: &Visitor<'_>, path: &str, headers: &[(&str, &str)]) -> String {
    let response = visitor.open(path, headers).await;
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn an_error_of_a_signed_in_person_keeps_navigation_and_theme() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let dark = [("cookie", "touchstone-theme=dark")];
    for (path, status) in [
        ("/console/runs/run_0", StatusCode::NOT_FOUND),
        ("/console/none", StatusCode::NOT_FOUND),
        ("/console/runs?since=yesterday", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(ada.get(path).await.status, status, "{path}");
        let page = opened(&ada, path, &dark).await;
        assert!(page.contains(NAVIGATION), "{path}: {page}");
        assert!(page.contains("data-theme=\"dark\""), "{path}: {page}");
    }
    let nobody = Person::new(&host).get("/console/none").await;
    assert_eq!(nobody.status, StatusCode::NOT_FOUND);
    assert!(!nobody.text().contains(NAVIGATION));
}

#[tokio::test]
async fn an_error_leads_back_to_the_page_before() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let path = "/console/runs?since=yesterday";
    for (referer, back) in [
        (
            "http://localhost/console/runs?q=a",
            Some("/console/runs?q=a"),
        ),
        ("http://localhost/console/runs?since=yesterday", None),
        ("http://localhost/console/sign-in?to=/console", None),
        ("https://evil.example/", None),
    ] {
        let page = opened(&ada, path, &[("referer", referer)]).await;
        let link = ">Back</a>";
        assert_eq!(page.contains(link), back.is_some(), "{referer}: {page}");
        let href = back.map(|back| format!("href=\"{back}\"{link}"));
        assert!(
            href.is_none_or(|it| page.contains(&it)),
            "{referer}: {page}"
        );
    }
    let refused = ada.send("/console/webhooks", &[("url", "ftp://x")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let page = refused.text();
    assert!(page.contains(NAVIGATION) && page.contains("keeps what you entered"));
}

#[tokio::test]
async fn the_navigation_has_only_sections_that_the_session_may_open() {
    let host = TestHost::working(&says(&["yes"])).await;
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let page = reader.page("/console/runs").await;
    assert!(page.contains(">History</a>") && page.contains(">Sessions</a>"));
    for section in ["Audit log", "Deployments", "API keys"] {
        assert!(!page.contains(&format!(">{section}</a>")), "{section}");
    }
    let refused = reader.get("/console/audit").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let page = refused.text();
    assert!(page.contains(">History</a>") && page.contains("<code>audit:read</code>"));
    let page = Visitor::ada(&host).await.page("/console/runs").await;
    assert!(page.contains(">Audit log</a>"));
}

#[tokio::test]
async fn a_link_of_another_page_cannot_claim_that_something_was_done() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let path = "/console/runs?done=tagged";
    for (site, is_shown) in [
        ("same-origin", true),
        ("same-site", false),
        ("cross-site", false),
        ("none", false),
    ] {
        let page = opened(&ada, path, &[("sec-fetch-site", site)]).await;
        assert_eq!(page.contains("The tags were changed."), is_shown, "{site}");
    }
    let reply = Person::new(&host)
        .get("/console/runs?done=tagged&q=a")
        .await;
    let location = reply.header("location").unwrap();
    assert!(
        location.ends_with("to=%2Fconsole%2Fruns%3Fq%3Da"),
        "{location}"
    );
}
