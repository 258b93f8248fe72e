//! Every page in a browser: WCAG 2.2 AA by axe-core, light and dark; no page is wider than its
//! window.

use std::collections::BTreeSet;
use std::path::PathBuf;

use axum::http::StatusCode;
use serde_json::{Value, json};
use touchstone_console::operations;
use touchstone_console::routes::Kind;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::browser::{Browser, with_browser};
use super::links::matches;
use super::oidc;
use super::seeds::evals::documents;
use super::seeds::{Shown, seeded};
use super::support::{Site, ended_run, is_html};
use super::visitor::Visitor;
use crate::client::not_run;
use crate::http::support::host::{Lab, public_place};
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

/// Runs a test in the browsers of people who see pages with content.
async fn each_viewer(test: impl AsyncFn(&Browser, Vec<String>)) {
    let place = HostUrl::listening("127.0.0.1:0");
    let seeded = seeded(Sqlite, place).await.unwrap();
    let address = seeded.host().listen().await;
    for viewer in &seeded.viewers {
        with_browser(address, async |browser| {
            browser.sign_in(&viewer.key).await;
            test(browser, viewer.paths()).await;
        })
        .await;
    }
}

/// The page of an address, the one with the fewest parameters first.
fn route_of(path: &str) -> Option<&'static str> {
    let place = path.split('?').next().unwrap();
    let routes = operations().into_iter().filter(|it| it.kind == Kind::Page);
    let fits = routes.filter(|it| matches(it.path, place));
    let found = fits.min_by_key(|it| it.path.matches('{').count());
    found.map(|it| it.path)
}

/// Leads on to another page.
const NEXT: &str = "/console/review/queues/{reviewId}/next";
/// A document that a browser saves.
const DOCUMENT: &str = "/console/runs/{runId}/download/{name}";

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_checked_with_its_content() {
    let seeded = seeded(Sqlite, public_place()).await.unwrap();
    let mut unseen: BTreeSet<&str> = operations()
        .into_iter()
        .filter(|it| it.kind == Kind::Page && ![NEXT, DOCUMENT].contains(&it.path))
        .map(|it| it.path)
        .collect();
    let mut found = Vec::new();
    for viewer in &seeded.viewers {
        let person = Visitor::signed_in(seeded.host(), &viewer.key).await;
        for Shown { path, has_content } in &viewer.pages {
            let reply = person.get(path).await;
            let is_shown = reply.status == StatusCode::OK && is_html(&reply);
            let is_full = is_shown && !reply.text().contains("class=\"empty\"");
            match (*has_content, is_full) {
                (true, false) => found.push(format!("{path}: {} {}", reply.status, reply.text())),
                (true, true) => drop(route_of(path).map(|route| unseen.remove(route))),
                (false, _) => assert!(!reply.status.is_server_error(), "{path}: {reply:?}"),
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(unseen.is_empty(), "{unseen:?}");
    let person = Visitor::ada(seeded.host()).await;
    let names = &seeded.names;
    let next = NEXT.replace("{reviewId}", &names.review);
    assert_eq!(person.get(&next).await.status, StatusCode::SEE_OTHER);
    for path in documents(&names.run) {
        assert_eq!(person.get(&path).await.status, StatusCode::OK, "{path}");
    }
}

/// Runs a test in a browser of a person who has signed in, on a host with an ended run.
async fn signed_in(test: impl AsyncFnOnce(&Browser)) {
    let site = Site::plain(Sqlite).await.unwrap();
    ended_run(&site.host).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        test(browser).await;
    })
    .await;
}

async fn too_wide(browser: &Browser) -> Value {
    browser.client.execute(WIDE, Vec::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_conforms_to_wcag_in_light_and_dark() {
    let Some(axe) = axe() else {
        return;
    };
    each_viewer(async |browser, pages| {
        conform(browser, &axe, &pages).await;
    })
    .await;
}

#[tokio::test]
async fn the_open_menu_and_filters_of_a_phone_conform_to_wcag() {
    let Some(axe) = axe() else {
        return;
    };
    signed_in(async |browser| {
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

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_its_window() {
    each_viewer(async |browser, pages| {
        fit(browser, &pages).await;
    })
    .await;
}

#[tokio::test]
async fn the_checks_find_what_they_look_for() {
    let Some(axe) = axe() else {
        return;
    };
    signed_in(async |browser| {
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
