//! Every page in a browser: WCAG 2.2 AA by axe-core, light and dark; no page is wider than its
//! window.

use std::path::PathBuf;

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use touchstone_console::operations;
use touchstone_console::routes::Kind;
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_runs::ports::webhooks::{DeliveryError, DeliveryRecord};
use touchstone_runs::store::deliveries;

use super::browser::{Browser, with_browser};
use super::oidc;
use super::support::{Names, Site, ended_run, example, review};
use crate::client::not_run;
use crate::http::support::host::{AGENT, Lab, TestHost};
use crate::ratings::api::Site as Organized;
use crate::ratings::api::appeals::{filed, rated};
use crate::ratings::api::assessments::ordered;
use crate::store::Engine::Sqlite;

const MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";
/// A phone, a tablet, a laptop, a desktop: widths in CSS pixels.
const WIDTHS: [u32; 4] = [390, 768, 1280, 1920];

const AXE: &str = "
    const done = arguments[arguments.length - 1];
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']}).then(
        (found) => done(found.violations.map((it) => [it.id, it.nodes.map((node) =>
            node.html.slice(0, 200) + ' ' + node.failureSummary)])),
        (fault) => done(['axe failed', String(fault)]));";

/// Elements that reach out of the window and do not scroll in a frame of their own, and texts that
/// are cut off.
const WIDE: &str = "
    const wide = [];
    const root = document.documentElement;
    if (root.scrollWidth > innerWidth) wide.push(`page ${root.scrollWidth}`);
    for (const it of document.querySelectorAll('body *')) {
        const box = it.getBoundingClientRect();
        if (box.width === 0 || it.closest('.scroll, svg, .hidden, .skip, pre')) continue;
        const name = it.tagName + '.' + (it.getAttribute('class') || '');
        if (box.right > innerWidth + 1) wide.push(`${name} ${box.right}`);
        const cut = getComputedStyle(it).overflowX === 'hidden' && it.scrollWidth > it.clientWidth + 1;
        if (cut && !it.matches('progress, .ellipsis')) wide.push(`cut ${name}`);
    }
    return wide.slice(0, 9);";

fn axe() -> Option<String> {
    let Some(modules) = std::env::var_os(MODULES).map(PathBuf::from) else {
        not_run("the check of accessibility", MODULES);
        return None;
    };
    let file = modules.join("axe-core/axe.min.js");
    Some(std::fs::read_to_string(file).expect("axe-core is in tests/node/package.json"))
}

/// Every page that has an example, and the one for each kind of failure.
fn pages(names: &Names) -> Vec<String> {
    let listed = operations().into_iter();
    let listed = listed.filter(|it| it.kind == Kind::Page);
    let mut pages: Vec<String> = listed.filter_map(|it| example(it, names)).collect();
    let run = &names.run;
    pages.extend([
        format!("/console/runs/{run}/tasks/task-3"),
        format!("/console/runs/{run}?outcome=failed&done=tagged"),
        format!("/console/review/new?run={run}"),
        format!("/console/review/queues/{}/items/3", names.review),
        "/console/runs?tag=none".to_owned(),
        format!("/console/history?suiteId={}", names.suite),
        "/console/runs/run_0".to_owned(),
        "/console/none".to_owned(),
        "/console/sign-in?failed=key_revoked".to_owned(),
    ]);
    pages
}

/// The page of a review that two people have completed.
async fn labelled(host: &TestHost, run: &RunId) -> String {
    let id = review(host, &json!({"runId": run, "steps": 4})).await;
    for (key, choice) in [
        (host.key_with(Scope::ALL).await, 4),
        (host.key_with(Scope::ALL).await, 1),
    ] {
        for item in 1..=4 {
            let path = format!("/v1/host/touchstone/reviews/{id}/items/{item}/label");
            let body = json!({"choice": choice, "note": "n".repeat(300)});
            let call = host.request(Method::POST, &path).key(&key).json(&body);
            let reply = call.send().await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        }
    }
    format!("/console/review/queues/{id}")
}

async fn violations(browser: &Browser, axe: &str) -> Value {
    browser.client.execute(axe, Vec::new()).await.unwrap();
    browser.client.execute_async(AXE, Vec::new()).await.unwrap()
}

async fn conform(browser: &Browser, axe: &str, paths: &[String]) {
    let mut found = Vec::new();
    for path in paths {
        browser.open(path).await;
        for theme in ["light", "dark"] {
            browser.prefer(theme).await;
            for width in [390, 1280] {
                browser.resize(width).await;
                let violations = violations(browser, axe).await;
                if violations != json!([]) {
                    found.push(format!("{path} {theme} {width}: {violations:#}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

async fn fit(browser: &Browser, paths: &[String]) {
    let mut found = Vec::new();
    for path in paths {
        browser.open(path).await;
        for width in WIDTHS {
            browser.resize(width).await;
            let wide = too_wide(browser).await;
            if wide != json!([]) {
                found.push(format!("{path} {width}: {wide}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A gate policy and a webhook with deliveries; returns their pages.
async fn operated(host: &TestHost, run: &RunId) -> Vec<String> {
    let approval = json!({"requiredScope": "approvals:respond"});
    let policy = json!({"agentId": AGENT, "channel": "stable", "policy": {"approval": approval}});
    host.post("/v1/host/touchstone/gates", &policy).await;
    let hook =
        json!({"url": "http://127.0.0.1:9999/a-long-name-of-a-hook", "events": ["run.completed"]});
    let made = host.post("/v1/webhooks", &hook).await.json();
    let id = made["webhookId"].as_str().unwrap();
    let failed = DeliveryError::Failed("timeout".to_owned());
    for outcome in [Ok(204), Err(failed)] {
        let (what, times) = ((1, "run.completed"), (Timestamp::now(), 1234));
        let mut made = DeliveryRecord::first(run, what, &outcome, times);
        let (tenant, id) = ("acme".into(), id.into());
        deliveries::add_one(&host.store, &tenant, &id, &mut made)
            .await
            .unwrap();
    }
    vec![
        format!("/console/webhooks/{id}"),
        format!("/console/webhooks/{id}?before=1"),
        format!("/console/gates/edit?agentId={AGENT}&channel=stable"),
    ]
}

/// An organization with a rating, an appeal by another person, and a webhook for notices; returns
/// its pages.
async fn organized(site: &Organized) -> Vec<String> {
    let assessment = rated(site).await;
    filed(site, &assessment, &["speed"]).await;
    let hook = json!({"url": "http://127.0.0.1:9999/notices"});
    let hook = site.post("webhooks", &hook).await.json();
    ordered(site, assessment["agent_id"].as_str().unwrap()).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let agent = text(&assessment["agent_id"]);
    vec![
        format!("/console/ratings/{agent}"),
        format!(
            "/console/ratings/{agent}/assessments/{}",
            text(&assessment["id"])
        ),
        "/console/notices".to_owned(),
        format!("/console/notices/{}", text(&hook["id"])),
        format!("/api/v1/badges/{}/verify", text(&assessment["badge_id"])),
        "/api/v1/badges/none/verify".to_owned(),
    ]
}

#[tokio::test]
async fn the_pages_of_an_organization_conform_and_fit() {
    let Some(axe) = axe() else {
        return;
    };
    let Site { host, database } = Site::plain(Sqlite).await.unwrap();
    let site = Organized::of(host, None).await;
    let paths = organized(&site).await;
    let address = site.host.listen().await;
    let key = site.host.issue(|issue| {
        issue.tenant = site.ours.id.as_str().into();
        issue.scopes = Scope::within_tenant().collect();
        issue.principal = Some("kim".to_owned());
    });
    let key = key.await;
    with_browser(address, async |browser| {
        browser.sign_in(&key).await;
        conform(browser, &axe, &paths).await;
        fit(browser, &paths).await;
    })
    .await;
    drop(database);
}

/// Runs a test in a browser of a person who has signed in, on a host with an ended run.
async fn signed_in(test: impl AsyncFnOnce(&Browser, Vec<String>)) {
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let more = operated(&site.host, &run).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        let names = Names::reviewed(&site.host, &run).await;
        let labelled = vec![labelled(&site.host, &run).await];
        test(browser, [pages(&names), labelled, more].concat()).await;
    })
    .await;
}

async fn too_wide(browser: &Browser) -> Value {
    browser.client.execute(WIDE, Vec::new()).await.unwrap()
}

#[tokio::test]
async fn every_page_conforms_to_wcag_in_light_and_dark() {
    let Some(axe) = axe() else {
        return;
    };
    signed_in(async |browser, pages| {
        conform(browser, &axe, &pages).await;
    })
    .await;
}

#[tokio::test]
async fn the_open_menu_and_filters_of_a_phone_conform_to_wcag() {
    let Some(axe) = axe() else {
        return;
    };
    signed_in(async |browser, _| {
        browser.resize(390).await;
        browser.open("/console/runs").await;
        for (opener, content, word) in [
            (".menu > summary", "nav[aria-label=Sections]", "Runs"),
            (".fold > summary", ".filters", "Verdict"),
        ] {
            browser.click(opener).await;
            let shown = browser.text(content).await;
            assert!(shown.contains(word), "{shown}");
            assert_eq!(violations(browser, &axe).await, json!([]));
            assert_eq!(too_wide(browser).await, json!([]));
        }
    })
    .await;
}

/// The sign-in page with a provider, and what people see if sign-in does not succeed.
#[tokio::test]
async fn pages_of_single_sign_on_conform_to_wcag_and_fit_their_window() {
    let Some(axe) = axe() else {
        return;
    };
    let lab = Lab {
        oidc: Some(oidc::config("http://127.0.0.1:9")),
        ..Lab::default()
    };
    let home = HostUrl::listening("127.0.0.1:0");
    let site = Site::with(Sqlite, home, lab).await.unwrap();
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        for path in [
            "/console/sign-in",
            "/console/sign-in?failed=key_revoked",
            "/console/sign-in/oidc",
            "/console/sign-in/oidc/callback?code=a&state=b",
        ] {
            browser.open(path).await;
            for (theme, width) in ["light", "dark"].into_iter().zip(WIDTHS) {
                browser.prefer(theme).await;
                browser.resize(width).await;
                assert_eq!(violations(browser, &axe).await, json!([]), "{path} {theme}");
                let wide = browser.client.execute(WIDE, Vec::new()).await.unwrap();
                assert_eq!(wide, json!([]), "{path} {width}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_page_fits_its_window() {
    signed_in(async |browser, pages| {
        fit(browser, &pages).await;
    })
    .await;
}

#[tokio::test]
async fn the_checks_find_what_they_look_for() {
    let Some(axe) = axe() else {
        return;
    };
    signed_in(async |browser, _| {
        browser.resize(390).await;
        let add = "const it = document.createElement('p'); it.textContent = 'A text to read';
            it.style.cssText = 'width: 500px; color: #888; background: #999'; document.body.append(it);";
        browser.client.execute(add, Vec::new()).await.unwrap();
        let wide = too_wide(browser).await;
        assert!(wide.to_string().contains("P."), "{wide}");
        let found = violations(browser, &axe).await;
        assert!(found.to_string().contains("color-contrast"), "{found}");
    })
    .await;
}
