//! People who promote, approve and roll back in a browser.

use rstest::rstest;
use serde_json::json;
use touchstone_host::access::Scope;

use super::browser::{Browser, with_browser};
use super::deployments::{approver, require_approval};
use super::support::Site;
use crate::http::deployments::promotion::{eval, into_service, moved, take_small_evidence};
use crate::http::support::host::{AGENT, TestHost, says};
use crate::store::{Engine, Engine::*};

/// A host without TLS with workers, two versions of the agent, and a gate that accepts little
/// evidence.
async fn site(engine: Engine) -> Option<Site> {
    let site = Site::plain(engine).await?;
    site.host.equip(&says(&["a", "b"])).await;
    site.host.work();
    site.host.install("1.1.0").await;
    take_small_evidence(&site.host).await;
    Some(site)
}

/// Takes a version to the step before it serves.
async fn staged(host: &TestHost, version: &str) {
    for _ in 0..2 {
        moved(host, json!({"version": version, "transition": "promote"})).await;
    }
}

fn agent() -> String {
    format!("/console/deployments/{AGENT}")
}

async fn submit(browser: &Browser, reason: &str) {
    let field = browser.find("main form[method=post] textarea").await;
    field.send_keys(reason).await.unwrap();
    browser.click("main form[method=post] button").await;
}

#[rstest]
#[tokio::test]
async fn a_refused_promotion_says_why_and_a_passing_gate_opens_it(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = site(engine).await else {
        return;
    };
    staged(&site.host, "1.0.0").await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.open(&agent()).await;
        browser
            .click("a[href*='/promote?'][href*='version=1.0.0']")
            .await;
        browser.find("#why-not").await;
        let disabled = "document.querySelector('main form[method=post] button').disabled";
        assert_eq!(browser.value(disabled).await, true);
        let page = browser.text("main").await;
        assert!(
            page.contains("an eval run of this tenant is the evidence"),
            "{page}"
        );
        // A form that is sent all the same is refused by the host.
        let enable = "document.querySelector('main form[method=post] button').disabled = false";
        browser.client.execute(enable, Vec::new()).await.unwrap();
        submit(browser, "too early").await;
        let refused = browser.text("[role=alert]").await;
        assert!(refused.contains("The host refused this step."), "{refused}");

        let run = eval(&site.host, "1.0.0").await;
        let page = format!("{}/promote?version=1.0.0&channel=stable", agent());
        browser.open(&page).await;
        let evidence = browser.value("document.getElementById('run').value").await;
        assert_eq!(evidence, run.as_str(), "the newest eval run is filled in");
        submit(browser, "weekly release").await;
        browser
            .arrive(&format!("{}?done=version-promoted", agent()))
            .await;
        let page = browser.text("main").await;
        for text in ["Refused", "too early", "weekly release", "100 %", "stable"] {
            assert!(page.contains(text), "no {text}: {page}");
        }
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn a_version_is_rolled_back_to_the_one_before(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = site(engine).await else {
        return;
    };
    into_service(&site.host, "1.0.0", json!({})).await;
    into_service(&site.host, "1.1.0", json!({"canaryPercent": 10})).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.open("/console/deployments").await;
        let list = browser.text("tbody").await;
        assert!(list.contains("10 %") && list.contains("90 %"), "{list}");
        browser.click("tbody th a").await;
        browser.arrive(&agent()).await;
        browser
            .click("a[href*='transition=rollback'][href*='version=1.1.0']")
            .await;
        browser.find("button.danger").await;
        submit(browser, "wrong answers").await;
        browser
            .arrive(&format!("{}?done=version-rolled-back", agent()))
            .await;
        let page = browser.text("main").await;
        for text in ["Rolled back", "wrong answers", "100 %"] {
            assert!(page.contains(text), "no {text}: {page}");
        }
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn a_promotion_waits_until_another_person_approves_it(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = site(engine).await else {
        return;
    };
    let host = &site.host;
    require_approval(host, json!({"excludeRequester": true})).await;
    staged(host, "1.0.0").await;
    eval(host, "1.0.0").await;
    let all: Vec<Scope> = Scope::within_tenant().collect();
    let bob = approver(host, "bob", &all).await;
    let ann = approver(host, "ann", &[Scope::RunsRead, Scope::ApprovalsRespond]).await;
    let address = host.listen().await;
    let page = format!("{}/promote?version=1.0.0&channel=stable", agent());
    with_browser(address, async |browser| {
        browser.sign_in(&bob).await;
        browser.open(&page).await;
        let button = browser.text("main form[method=post] button").await;
        assert_eq!(button, "Ask for approval");
        submit(browser, "weekly release").await;
        browser.find("#why-not").await;
        browser.open("/console/approvals").await;
        let own = browser.text("main").await;
        assert!(
            own.contains("You asked for this, so you may not answer"),
            "{own}"
        );

        browser.sign_in(&ann).await;
        browser.open("/console/approvals").await;
        submit(browser, "looks good").await;
        browser.arrive("/console/approvals?done=answered").await;

        browser.sign_in(&bob).await;
        // The gate run ends shortly after the answer.
        loop {
            browser.open(&page).await;
            let may = "!document.querySelector('main form[method=post] button').disabled";
            if browser.value(may).await == true {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        submit(browser, "weekly release").await;
        browser
            .arrive(&format!("{}?done=version-promoted", agent()))
            .await;
        let page = browser.text("main").await;
        assert!(
            page.contains("ann approved") && page.contains("100 %"),
            "{page}"
        );
    })
    .await;
}
