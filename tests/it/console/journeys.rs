//! What people do in the console, in a browser.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use fantoccini::key::Key;
use rstest::rstest;
use touchstone_host::access::Scope;

use super::browser::with_browser;
use super::support::{Site, ended_run};
use crate::http::support::host::id_of;
use crate::store::{Engine, Engine::*};

#[rstest]
#[tokio::test]
async fn a_person_signs_in_with_a_key_and_out(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::plain(engine).await else {
        return;
    };
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.open("/console/runs?tag=nightly").await;
        let sign_in = "/console/sign-in?to=%2Fconsole%2Fruns%3Ftag%3Dnightly";
        browser.arrive(sign_in).await;
        // A person can type at once.
        browser.until("document.activeElement.id", "key").await;
        browser.press("wrong").await;
        browser.click("button.primary").await;
        let alert = browser.text("[role=alert]").await;
        assert!(alert.contains("not an API key of this host"), "{alert}");
        browser.until("document.activeElement.id", "key").await;
        browser.press(&site.host.key).await;
        browser.press("\u{e007}").await;
        browser.arrive("/console/runs?tag=nightly").await;
        assert_eq!(browser.text("h1").await, "Runs");
        let empty = browser.text(".empty h2").await;
        assert_eq!(empty, "No run matches");
        let cookies = browser.value("document.cookie").await;
        assert_eq!(cookies, "", "scripts do not see the session");
        browser
            .activate("form[action='/console/sign-out'] button")
            .await;
        browser.arrive("/console/sign-in").await;
        browser.open("/console/runs").await;
        browser
            .arrive("/console/sign-in?to=%2Fconsole%2Fruns")
            .await;
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn a_failure_is_found_from_the_list_by_way_of_its_run(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::plain(engine).await else {
        return;
    };
    let run = ended_run(&site.host).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.open("/console/runs").await;
        let row = browser.text("tbody tr").await;
        assert!(
            row.contains(run.as_str()) && row.contains("nightly"),
            "{row}"
        );
        browser.click("tbody th a").await;
        browser.arrive(&format!("/console/runs/{run}")).await;
        let verdict = browser.text(".verdict h2").await;
        assert!(!verdict.is_empty());
        let shown = browser.find("#outcome").await;
        shown.select_by_value("failed").await.unwrap();
        // The filter applies at once.
        let rows = "document.querySelectorAll('#tasks tbody tr').length === 1";
        while browser.value(rows).await != true {
            crate::support::pause().await;
        }
        browser.click("#tasks tbody th a").await;
        browser
            .arrive(&format!("/console/runs/{run}/tasks/task-2"))
            .await;
        let content = browser.text("main").await;
        for text in ["something else", "wrong"] {
            assert!(content.contains(text), "{content}");
        }
        // The next task's answer is markup, which the browser shows and does not run.
        browser.click("a[rel=next]").await;
        browser
            .arrive(&format!("/console/runs/{run}/tasks/task-3"))
            .await;
        let content = browser.text("main").await;
        assert!(
            content.contains("<script>window.ran=1</script>"),
            "{content}"
        );
        assert_eq!(browser.value("window.ran === undefined").await, true);
    })
    .await;
}

#[tokio::test]
async fn a_person_without_the_scope_of_content_reads_which_one_is_missing() {
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let key = site.host.key_with(&[Scope::RunsRead]).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&key).await;
        browser
            .open(&format!("/console/runs/{run}/tasks/task-2"))
            .await;
        let content = browser.text("main").await;
        assert!(content.contains("runs:content"), "{content}");
        assert!(!content.contains("something else"), "{content}");
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn a_revoked_key_ends_the_open_page(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::plain(engine).await else {
        return;
    };
    let run = ended_run(&site.host).await;
    let key = site.host.key_with(Scope::ALL).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&key).await;
        browser.open(&format!("/console/runs/{run}")).await;
        site.host.keys.revoke(&id_of(&key)).await.unwrap();
        browser.click("#tasks tbody th a").await;
        let task = format!("%2Fconsole%2Fruns%2F{run}%2Ftasks%2F");
        let sign_in = format!("/console/sign-in?to={task}task-0");
        browser.arrive(&sign_in).await;
    })
    .await;
}

#[tokio::test]
async fn the_keyboard_reaches_content_and_rows() {
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let address = site.host.listen().await;
    let (tab, enter) = (char::from(Key::Tab), char::from(Key::Enter));
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.open(&format!("/console/runs/{run}")).await;
        browser.press(&tab.to_string()).await;
        browser
            .until("document.activeElement.className", "skip")
            .await;
        let top = "document.activeElement.getBoundingClientRect().top >= 0";
        assert_eq!(browser.value(top).await, true, "the link is visible");
        browser.press(&enter.to_string()).await;
        browser.until("document.activeElement.id", "main").await;
        let row = "document.activeElement.textContent";
        for (key, task) in [
            ("j", "task-0"),
            ("j", "task-1"),
            ("j", "task-2"),
            ("k", "task-1"),
        ] {
            browser.press(key).await;
            assert_eq!(browser.value(row).await, task, "{key}");
        }
        browser.press(&enter.to_string()).await;
        browser
            .arrive(&format!("/console/runs/{run}/tasks/task-1"))
            .await;
        browser.open("/console/runs").await;
        browser.press("/").await;
        browser.until("document.activeElement.type", "search").await;
        browser.press("jk").await;
        let typed = browser.value("document.activeElement.value").await;
        assert_eq!(typed, "jk", "keys are off while a person types");
    })
    .await;
}

#[tokio::test]
async fn the_theme_is_the_browsers_until_a_person_chooses_one() {
    let site = Site::plain(Sqlite).await.unwrap();
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        let ground = "getComputedStyle(document.body).backgroundColor";
        browser.sign_in(&site.host.key).await;
        browser.prefer("light").await;
        let light = browser.value(ground).await;
        browser.prefer("dark").await;
        let dark = browser.value(ground).await;
        assert_ne!(light, dark);
        browser.open("/console/runs?tag=a").await;
        browser.activate("button[name=theme][value=light]").await;
        browser.find("html[data-theme=light]").await;
        assert_eq!(browser.place().await, "/console/runs?tag=a");
        let light = light.as_str().unwrap();
        browser.until(ground, light).await;
        browser.prefer("light").await;
        browser.activate("button[name=theme][value=dark]").await;
        browser.find("html[data-theme=dark]").await;
        let dark = dark.as_str().unwrap();
        browser.until(ground, dark).await;
        browser.open("/console").await;
        assert_eq!(browser.value(ground).await, dark, "the choice is kept");
        let pressed = "document.querySelector('button[aria-pressed=true]').textContent";
        let pressed = browser.value(pressed).await;
        assert_eq!(pressed, "Dark");
    })
    .await;
}

#[tokio::test]
async fn a_link_on_another_site_opens_the_page_of_a_signed_in_person() {
    let site = Site::plain(Sqlite).await.unwrap();
    let address = site.host.listen().await;
    // For browsers, `localhost` and `127.0.0.1` are different sites.
    let page = format!("<a href=\"http://{address}/console/runs?tag=a\">Look</a>");
    let other = Router::new().route("/", get(async || Html(page)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, other).await });
    with_browser(address, async |browser| {
        let elsewhere = format!("http://localhost:{port}/");
        browser.client.goto(&elsewhere).await.unwrap();
        browser.click("a").await;
        let sign_in = "/console/sign-in?to=%2Fconsole%2Fruns%3Ftag%3Da";
        browser.arrive(sign_in).await;
        browser.sign_in(&site.host.key).await;
        browser.client.goto(&elsewhere).await.unwrap();
        browser.click("a").await;
        browser.arrive("/console/runs?tag=a").await;
        // A page of the same address leads there first.
        let title = "document.querySelector('h1').textContent";
        browser.until(title, "Runs").await;
        // A form of the other site does nothing.
        browser.client.goto(&elsewhere).await.unwrap();
        let send = format!(
            "const form = document.createElement('form'); form.method = 'post';
             form.action = 'http://{address}/console/sign-out'; document.body.append(form);
             form.submit();"
        );
        browser.client.execute(&send, Vec::new()).await.unwrap();
        browser.arrive("/console/sign-out").await;
        let refused = browser.text("h1").await;
        assert_eq!(refused, "You may not do this");
        browser.open("/console/runs").await;
        assert_eq!(browser.text("h1").await, "Runs");
    })
    .await;
}

#[tokio::test]
async fn pages_report_no_fault_of_their_own() {
    let site = Site::plain(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let address = site.host.listen().await;
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        let paths = [
            "/console/runs".to_owned(),
            format!("/console/runs/{run}"),
            format!("/console/runs/{run}/tasks/task-3"),
        ];
        for path in paths {
            browser.open(&path).await;
            let faults = browser.faults().await;
            assert!(faults.is_empty(), "{path}: {faults:?}");
        }
    })
    .await;
}
