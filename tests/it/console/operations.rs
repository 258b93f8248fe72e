//! Packs, suites, keys, webhooks, sessions and the host.

use std::time::Duration;

use axum::http::StatusCode;
use rstest::rstest;
use serde_json::json;
use touchstone_host::access::Scope;

use super::audited::actions;
use super::person::Person;
use super::support::Site;
use crate::http::support::host::{TestHost, id_of, says, suite};
use crate::store::{Engine, Engine::*};
use crate::webhooks::receiver::{Answer, Receiver};

/// Everything that a key of a tenant can do, and managing keys.
fn manager() -> Vec<Scope> {
    let all = Scope::ALL.iter().copied();
    all.filter(|scope| !scope.is_operator()).collect()
}

/// The key that a page shows once.
fn shown_key(page: &str) -> String {
    let rest = page.split("id=\"secret\">").nth(1).unwrap();
    rest.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn packs_and_suites_show_origin_and_tasks() {
    let host = TestHost::working(&says(&["hello <b>there</b>"])).await;
    let person = Person::with(&host, &host.key_with(&manager()).await).await;
    let list = person.page("/console/packs").await;
    assert!(list.contains("community.bench.echo") && list.contains("Unsigned"));
    let pack = person
        .page("/console/packs/community.bench.echo/1.0.0")
        .await;
    assert!(pack.contains("sha256-") && pack.contains("community.bench.echo.default"));
    // The first link is that of the import.
    let address = list.split("href=\"/console/suites/").nth(2).unwrap();
    let address = address.split('"').next().unwrap();
    let suite = person.page(&format!("/console/suites/{address}")).await;
    assert!(suite.contains("hello &#60;b&#62;there"), "{suite}");
    let missing = person
        .open("/console/packs/community.bench.other/1.0.0")
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn tasks_of_a_suite_need_their_scope() {
    let host = TestHost::working(&says(&["hello"])).await;
    let key = host.key_with(&[Scope::ManifestRead]).await;
    let person = Person::with(&host, &key).await;
    let list = person.page("/console/packs").await;
    let address = list.split("href=\"/console/suites/").nth(1).unwrap();
    let address = address.split('"').next().unwrap();
    let suite = person.page(&format!("/console/suites/{address}")).await;
    assert!(suite.contains("runs:content") && !suite.contains("hello"));
    assert!(!suite.contains("Remove this suite"));
}

#[tokio::test]
async fn a_key_is_shown_once_and_gives_at_most_the_rights_of_its_maker() {
    let host = TestHost::idle().await;
    let key = host.key_with(&[Scope::KeysManage, Scope::RunsRead]).await;
    let person = Person::with(&host, &key).await;
    let made = person
        .submit(
            "/console/keys",
            &[("scope", "runs:read"), ("expiresIn", "30")],
        )
        .await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    assert_eq!(made.cache, "no-store");
    let new = shown_key(&made.text);
    assert_eq!(
        host.request(axum::http::Method::GET, "/v1/host/touchstone/runs")
            .key(&new)
            .send()
            .await
            .status,
        StatusCode::OK
    );
    let page = person.page("/console/keys").await;
    assert!(page.contains(id_of(&new).as_str()) && !page.contains(&new));
    for beyond in [
        "runs:create",
        "metrics:read",
        "cluster:manage",
        "organizations:write",
        "agents:*",
    ] {
        let refused = person.submit("/console/keys", &[("scope", beyond)]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{beyond}");
    }
    let nothing = person.submit("/console/keys", &[]).await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST, "{}", nothing.text);
}

#[tokio::test]
async fn keys_are_rotated_and_revoked_within_the_tenant() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&manager()).await).await;
    let other = host.key_with(&[Scope::RunsRead]).await;
    let id = id_of(&other);
    let rotated = person
        .submit(&format!("/console/keys/{id}/rotate"), &[("overlap", "0")])
        .await;
    assert_eq!(rotated.status, StatusCode::OK, "{}", rotated.text);
    let new = shown_key(&rotated.text);
    let status = |key: String| {
        let host = &host;
        async move {
            let request = host.request(axum::http::Method::GET, "/v1/host/touchstone/runs");
            request.key(&key).send().await.status
        }
    };
    assert_eq!(status(other).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(new.clone()).await, StatusCode::OK);
    let revoked = person
        .submit(&format!("/console/keys/{id}/revoke"), &[])
        .await;
    assert_eq!(
        revoked.location.as_deref(),
        Some("/console/keys?done=key-revoked")
    );
    assert_eq!(status(new).await, StatusCode::UNAUTHORIZED);
    // The second key of the test host belongs to another tenant.
    let foreign = id_of(&host.other_key);
    for action in ["rotate", "revoke"] {
        let path = format!("/console/keys/{foreign}/{action}");
        let answer = person.submit(&path, &[("overlap", "0")]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{action}");
    }
}

#[tokio::test]
async fn a_key_with_more_rights_is_not_rotated() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&[Scope::KeysManage]).await).await;
    let stronger = id_of(&host.key);
    let path = format!("/console/keys/{stronger}/rotate");
    let answer = person.submit(&path, &[("overlap", "1")]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn keys_need_the_scope_that_all_does_not_contain() {
    let host = TestHost::idle().await;
    let all: Vec<Scope> = Scope::within_tenant().collect();
    let person = Person::with(&host, &host.key_with(&all).await).await;
    let seen = person.open("/console/keys").await;
    assert_eq!(seen.status, StatusCode::FORBIDDEN);
    assert!(seen.text.contains("keys:manage"));
}

#[tokio::test]
async fn people_see_and_end_their_own_sessions() {
    let host = TestHost::idle().await;
    let own = host
        .issue(|issue| {
            issue.scopes = vec![Scope::RunsRead];
            issue.principal = Some("dana".to_owned());
        })
        .await;
    let (here, there) = (
        Person::with(&host, &own).await,
        Person::with(&host, &own).await,
    );
    let colleague = Person::with(&host, &host.key_with(&[Scope::RunsRead]).await).await;
    let page = here.page("/console/sessions").await;
    assert!(page.contains("End my other sessions (1)"), "{page}");
    assert_eq!(
        page.matches("dana").count(),
        3,
        "twice in the list, once in the frame"
    );
    let ended = here.submit("/console/sessions/end-others", &[]).await;
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    assert_eq!(
        there.open("/console/sessions").await.status,
        StatusCode::SEE_OTHER
    );
    colleague.page("/console/sessions").await;
}

#[tokio::test]
async fn the_host_shows_health_and_work_and_keeps_settings_to_operators() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&[Scope::RunsRead]).await).await;
    let page = person.page("/console/host").await;
    assert!(page.contains("Writable") && page.contains("Storage of this tenant"));
    assert!(page.contains("The settings are not shown"));
    let operator = Person::with(&host, &host.key_with(&[Scope::MetricsRead]).await).await;
    let page = operator.page("/console/host").await;
    assert!(!page.contains("The settings are not shown") && page.contains("runs:read"));
}

/// `cluster/measured.rs` looks at the page of a host with workers.
#[tokio::test]
async fn the_cluster_is_shown_to_operators_only() {
    let host = TestHost::idle().await;
    let operator = Person::with(&host, &host.key_with(&[Scope::MetricsRead]).await).await;
    let page = operator.page("/console/cluster").await;
    assert!(page.contains("This host has no cluster"), "{page}");
    let reader = Person::with(&host, &host.key_with(&[Scope::RunsRead]).await).await;
    let refused = reader.open("/console/cluster").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let sessions = reader.page("/console/sessions").await;
    assert!(!sessions.contains("/console/cluster"), "{sessions}");
}

#[rstest]
#[tokio::test]
async fn operators_see_all_tenants_workers_and_the_queue(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let host = &site.host;
    let slow = json!({"say": "yes", "delayMs": 3_600_000});
    host.equip(&[slow]).await;
    let run = host.create().await;
    let operator = host.key_with(&[Scope::MetricsRead]).await;
    let operator = Person::with(host, &operator).await;
    let waiting = operator.page("/console/host").await;
    assert!(waiting.contains("No worker holds a run."), "{waiting}");
    assert!(
        !waiting.contains("worker</dt><dd>–"),
        "a run waits: {waiting}"
    );
    let worker = host.work();
    let shown = loop {
        let shown = operator.page("/console/host").await;
        if shown.contains("Lease ends") {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for part in [
        "acme",
        "globex",
        run.as_str(),
        "Free on",
        "Size of the database",
    ] {
        let is_expected = part != "Free on" || engine == Sqlite;
        assert_eq!(shown.contains(part), is_expected, "{part}: {shown}");
    }
    assert!(shown.contains("Same as the host"), "{shown}");
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let reader = Person::with(host, &reader).await;
    let shown = reader.page("/console/host").await;
    assert!(shown.contains(&format!("/console/runs/{run}\"")), "{shown}");
    assert!(!shown.contains("globex") && !shown.contains("Size of the database"));
    let other = host.issue(|issue| {
        issue.tenant = "globex".into();
        issue.scopes = vec![Scope::RunsRead];
    });
    let other = Person::with(host, &other.await).await;
    let shown = other.page("/console/host").await;
    assert!(
        !shown.contains(run.as_str()) && !shown.contains("acme"),
        "{shown}"
    );
    let stranger = Person::with(host, &host.other_key).await;
    let shown = stranger.page("/console/host").await;
    assert!(shown.contains(run.as_str()), "an operator sees the run");
    assert!(
        !shown.contains(&format!("/console/runs/{run}\"")),
        "{shown}"
    );
    worker.cancel();
}

#[tokio::test]
async fn a_webhook_shows_its_secret_once_and_is_removed() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&manager()).await).await;
    let fields = [
        ("url", "http://127.0.0.1:4000/hook"),
        ("event", "run.completed"),
    ];
    let made = person.submit("/console/webhooks", &fields).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    let secret = shown_key(&made.text);
    let page = person.page("/console/webhooks").await;
    assert!(page.contains("127.0.0.1:4000/hook") && !page.contains(&secret));
    let action = page.split("action=\"/console/webhooks/").nth(1).unwrap();
    let action = action.split('"').next().unwrap();
    let removed = person
        .submit(&format!("/console/webhooks/{action}"), &[])
        .await;
    assert_eq!(removed.status, StatusCode::SEE_OTHER, "{}", removed.text);
    assert!(
        person
            .page("/console/webhooks")
            .await
            .contains("No webhooks yet")
    );
    let acts = actions(&host, &host.key, "webhooks:").await;
    assert_eq!(acts, ["webhooks:register", "webhooks:remove"]);
}

#[tokio::test]
async fn the_deliveries_of_a_webhook_are_shown_and_sent_again() {
    let host = TestHost::working(&says(&["hello"])).await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(204)).await;
    let person = Person::with(&host, &host.key_with(&manager()).await).await;
    let url = receiver.url();
    let fields = [("url", url.as_str()), ("event", "run.completed")];
    person.submit("/console/webhooks", &fields).await;
    let list = person.page("/console/webhooks").await;
    let id = list.split("href=\"/console/webhooks/").nth(1).unwrap();
    let page = format!("/console/webhooks/{}", id.split('"').next().unwrap());
    assert!(person.page(&page).await.contains("No deliveries yet"));
    let run = host.create().await;
    host.ended(&run).await;
    let shown = loop {
        let shown = person.page(&page).await;
        if shown.contains("Delivered, HTTP 204") {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(shown.contains(run.as_str()) && shown.contains("run.completed"));
    let replay = format!("{page}/deliveries/1/replay");
    let sent = person.submit(&replay, &[]).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.text);
    assert!(sent.location.unwrap().ends_with("?done=delivery-sent"));
    receiver.answer(Answer::Status(500));
    let failed = person.submit(&replay, &[]).await;
    assert!(failed.location.unwrap().ends_with("?done=delivery-failed"));
    let shown = person.page(&page).await;
    assert!(shown.contains("Failed, HTTP 500") && shown.contains("sent by a person"));
    let unknown = person
        .submit(&format!("{page}/deliveries/x/replay"), &[])
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let other = Person::with(&host, &host.other_key).await;
    assert_eq!(other.open(&page).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        other.submit(&replay, &[]).await.status,
        StatusCode::NOT_FOUND
    );
    let acts = actions(&host, &host.key, "webhooks:").await;
    let replayed = ["webhooks:register", "webhooks:replay", "webhooks:replay"];
    assert_eq!(acts, replayed);
}

#[tokio::test]
async fn a_suite_is_imported_or_its_errors_have_line_and_column() {
    let host = TestHost::idle().await;
    let person = Person::with(&host, &host.key_with(&manager()).await).await;
    let page = "/console/suites/import";
    assert!(person.page("/console/packs").await.contains(page));
    person.page(page).await;
    let mut suite = suite(&says(&["hello <b>there</b>"]));
    suite["version"] = json!("one");
    let text = serde_json::to_string_pretty(&suite).unwrap();
    let line = text.lines().position(|it| it.contains("\"one\"")).unwrap() + 1;
    let refused = person.submit(page, &[("suite", &text)]).await;
    assert_eq!(refused.status, StatusCode::OK, "{}", refused.text);
    let place = format!("Suite, line {line}, column");
    assert!(refused.text.contains(&place), "{place}: {}", refused.text);
    assert!(refused.text.contains("&#60;b&#62;"), "the text stays");
    let refused = person.submit(page, &[("suite", "{\n  oops")]).await;
    assert!(refused.text.contains("line 2"), "{}", refused.text);
    suite["version"] = json!("7.0.0");
    let padding = " ".repeat(touchstone_console::routes::MAX_FORM);
    let text = format!("{suite}{padding}");
    let imported = person.submit(page, &[("suite", &text)]).await;
    assert_eq!(imported.status, StatusCode::SEE_OTHER, "{}", imported.text);
    let place = imported.location.unwrap();
    assert!(place.ends_with("/7.0.0?done=suite-imported"), "{place}");
    assert!(person.page(&place).await.contains("imported"));
    let reader = host.key_with(&[Scope::ManifestRead]).await;
    let reader = Person::with(&host, &reader).await;
    let refused = reader.submit(page, &[("suite", &text)]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(!reader.page("/console/packs").await.contains(page));
}
