//! Every page in a browser: WCAG 2.2 AA by axe-core, light and dark; no page is wider than its
//! window.

use std::path::PathBuf;

use serde_json::{Value, json};
use touchstone_console::operations;
use touchstone_console::routes::Kind;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::browser::{Browser, with_browser};
use super::oidc;
use super::support::{Names, Site, ended_run, example};
use crate::client::not_run;
use crate::http::support::host::Lab;
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
        "/console/runs?tag=none".to_owned(),
        "/console/runs/run_0".to_owned(),
        "/console/none".to_owned(),
        "/console/sign-in?failed=key_revoked".to_owned(),
    ]);
    pages
}

async fn violations(browser: &Browser, axe: &str) -> Value {
    browser.client.execute(axe, Vec::new()).await.unwrap();
    browser.client.execute_async(AXE, Vec::new()).await.unwrap()
}

#[tokio::test]
async fn every_page_conforms_to_wcag_in_light_and_dark() {
    let Some(axe) = axe() else {
        return;
    };
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        let mut found = Vec::new();
        for path in pages(&Names::of(&run)) {
            browser.open(&path).await;
            for theme in ["light", "dark"] {
                browser.prefer(theme).await;
                for width in [390, 1280] {
                    browser.resize(width).await;
                    let violations = violations(browser, &axe).await;
                    if violations != json!([]) {
                        found.push(format!("{path} {theme} {width}: {violations:#}"));
                    }
                }
            }
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    })
    .await;
}

#[tokio::test]
async fn the_open_menu_of_a_phone_conforms_to_wcag() {
    let Some(axe) = axe() else {
        return;
    };
    let site = Site::plain(Sqlite).await.unwrap();
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.resize(390).await;
        browser.open("/console/runs").await;
        browser.click(".menu > summary").await;
        let shown = browser.text("nav[aria-label=Sections]").await;
        assert!(shown.contains("Runs"), "{shown}");
        assert_eq!(violations(browser, &axe).await, json!([]));
        let wide = browser.client.execute(WIDE, Vec::new()).await.unwrap();
        assert_eq!(wide, json!([]));
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
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        let mut found = Vec::new();
        for path in pages(&Names::of(&run)) {
            browser.open(&path).await;
            for width in WIDTHS {
                browser.resize(width).await;
                let wide = browser.client.execute(WIDE, Vec::new()).await.unwrap();
                if wide != json!([]) {
                    found.push(format!("{path} {width}: {wide}"));
                }
            }
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    })
    .await;
}

#[tokio::test]
async fn the_checks_find_what_they_look_for() {
    let Some(axe) = axe() else {
        return;
    };
    let site = Site::plain(Sqlite).await.unwrap();
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.resize(390).await;
        let add = "const it = document.createElement('p'); it.textContent = 'A text to read';
            it.style.cssText = 'width: 500px; color: #888; background: #999'; document.body.append(it);";
        browser.client.execute(add, Vec::new()).await.unwrap();
        let wide = browser.client.execute(WIDE, Vec::new()).await.unwrap();
        assert!(wide.to_string().contains("P."), "{wide}");
        let found = violations(browser, &axe).await;
        assert!(found.to_string().contains("color-contrast"), "{found}");
    })
    .await;
}
