//! When a session begins, rotates and ends, and who gets one without a key.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{Method, Request, StatusCode};
use jiff::SignedDuration;
use rstest::rstest;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use touchstone_host::access::Scope;

use super::support::{COOKIE_NAME, Person, Site, answer, token_of};
use crate::http::support::host::{Reply, id_of};
use crate::store::{Engine, Engine::*};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[rstest]
#[tokio::test]
async fn a_key_begins_a_session_whose_cookie_scripts_and_other_sites_cannot_use(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let mut person = Person::new(&site.host);
    let key = site.host.key.clone();
    let fields = [("key", key.as_str()), ("to", "/console/runs?tag=a")];
    let reply = person.send("/console/sign-in", &fields).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
    assert_eq!(reply.header("location"), Some("/console/runs?tag=a"));
    let cookie = reply.header("set-cookie").unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with(&format!("{COOKIE_NAME}=")), "{cookie}");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Secure");
    assert!(!cookie.contains(&key) && !reply.text().contains(&key));
    assert!(person.is_in().await);
    let stored = person.session().await.unwrap();
    assert_eq!(stored.tenant.as_str(), "acme");
    let secret = person.token.as_ref().unwrap().split_once('.').unwrap().1;
    let raw = site.database.raw().await;
    assert!(
        !raw.holds(secret.as_bytes()),
        "only the hash of a token is stored"
    );
}

#[tokio::test]
async fn a_host_without_tls_sends_a_cookie_that_browsers_keep_there() {
    let site = Site::plain(Sqlite).await.unwrap();
    let key = site.host.key.clone();
    let reply = Person::new(&site.host)
        .send("/console/sign-in", &[("key", &key)])
        .await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.starts_with("touchstone="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"));
}

#[tokio::test]
async fn a_refused_key_gets_no_session_and_a_reason() {
    let site = Site::on(Sqlite).await.unwrap();
    let revoked = site.host.key_with(Scope::ALL).await;
    site.host.keys.revoke(&id_of(&revoked)).await.unwrap();
    let expired = site
        .host
        .issue(|issue| issue.expires_at = jiff::Timestamp::from_second(1).ok())
        .await;
    let cases = [
        ("", "unknown_key", "not an API key of this host"),
        ("tsk_nothing", "unknown_key", "not an API key of this host"),
        (&revoked, "key_revoked", "revoked"),
        (&expired, "key_expired", "has expired"),
    ];
    for (key, reason, words) in cases {
        let mut person = Person::new(&site.host);
        let fields = [("key", key), ("to", "/console/runs")];
        let reply = person.send("/console/sign-in", &fields).await;
        let location = format!("/console/sign-in?failed={reason}&to=%2Fconsole%2Fruns");
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
        assert_eq!(reply.header("location"), Some(location.as_str()));
        assert_eq!(reply.header("set-cookie"), None, "{key}");
        let page = person.get(&location).await.text();
        assert!(
            page.contains(words) && page.contains("role=\"alert\""),
            "{page}"
        );
    }
}

#[rstest]
#[tokio::test]
async fn a_session_ends_without_use_and_at_its_absolute_limit(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let (mut idle, mut busy) = (site.person().await, site.person().await);
    // Twelve hours, with a request every 20 minutes.
    for _ in 0..35 {
        site.host.clock.pass(MINUTE * 20);
        assert!(busy.is_in().await);
    }
    assert!(!idle.is_in().await, "30 minutes without a request");
    site.host.clock.pass(MINUTE * 19);
    assert!(busy.is_in().await);
    site.host.clock.pass(MINUTE);
    assert!(!busy.is_in().await, "12 hours are over");
}

#[tokio::test]
async fn a_session_is_idle_only_after_its_last_request() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    site.host.clock.pass(MINUTE * 14);
    assert!(person.is_in().await);
    site.host.clock.pass(MINUTE * 29);
    assert!(person.is_in().await);
    site.host.clock.pass(MINUTE * 30);
    assert!(!person.is_in().await);
}

#[rstest]
#[tokio::test]
async fn a_token_is_replaced_and_requests_under_way_still_succeed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let mut person = site.person().await;
    let first = person.token.clone();
    site.host.clock.pass(MINUTE * 14);
    assert!(person.is_in().await);
    assert_eq!(person.token, first, "not yet");
    site.host.clock.pass(MINUTE);
    let mut tabs = [person.copy(), person.copy(), person.copy(), person.copy()];
    let [a, b, c, d] = &mut tabs;
    let paths = "/console/runs";
    let replies: [Reply; 4] =
        tokio::join!(a.get(paths), b.get(paths), c.get(paths), d.get(paths)).into();
    let all_good = replies.iter().all(|it| it.status == StatusCode::OK);
    assert!(all_good, "{replies:?}");
    let renewed: Vec<String> = replies.iter().filter_map(token_of).collect();
    assert_eq!(renewed.len(), 1, "one request gets the new token");
    person.token = renewed.into_iter().next();
    assert_ne!(person.token, first);
    // The form of a page from before the rotation still counts. The overlap is a minute; the clock
    // goes on during the requests.
    let mut old = person.copy();
    old.token = first;
    site.host.clock.pass(SignedDuration::from_secs(25));
    assert!(old.is_in().await && person.is_in().await);
    assert_eq!(person.session().await.unwrap().ended_at, None);
}

#[rstest]
#[case::no_such_run("/console/runs/run_none", StatusCode::NOT_FOUND)]
#[case::no_scope("/console/audit", StatusCode::FORBIDDEN)]
#[tokio::test]
async fn an_error_page_brings_the_new_token_too(#[case] path: &str, #[case] status: StatusCode) {
    let site = Site::on(Sqlite).await.unwrap();
    let key = site.host.key_with(&[Scope::RunsRead]).await;
    let mut person = Person::signed_in(&site.host, &key).await;
    let first = person.token.clone();
    site.host.clock.pass(MINUTE * 15);
    assert_eq!(person.get(path).await.status, status);
    assert_ne!(person.token, first);
    site.host.clock.pass(MINUTE * 2);
    assert!(person.is_in().await);
}

#[rstest]
#[tokio::test]
async fn a_replaced_token_that_is_used_late_ends_the_session(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let mut person = site.person().await;
    let mut thief = person.copy();
    site.host.clock.pass(MINUTE * 15);
    assert!(person.is_in().await);
    assert_ne!(person.token, thief.token);
    site.host.clock.pass(MINUTE);
    assert!(!thief.is_in().await, "the overlap is over");
    assert!(!person.is_in().await, "one of the two is a thief");
    assert!(person.session().await.unwrap().ended_at.is_some());
}

#[rstest]
#[tokio::test]
async fn a_session_ends_with_its_key(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let host = &site.host;
    let revoked = host.key_with(&[Scope::RunsRead]).await;
    let soon = jiff::Timestamp::now() + SignedDuration::from_mins(5);
    let expiring = host
        .issue(|issue| {
            issue.scopes = vec![Scope::RunsRead];
            issue.expires_at = Some(soon);
        })
        .await;
    let mut person = Person::signed_in(host, &revoked).await;
    let mut other = Person::signed_in(host, &expiring).await;
    assert!(person.is_in().await && other.is_in().await);
    host.keys.revoke(&id_of(&revoked)).await.unwrap();
    assert!(!person.is_in().await);
    assert!(other.is_in().await);
    host.clock.pass(MINUTE * 6);
    assert!(!other.is_in().await);
}

#[rstest]
#[tokio::test]
async fn a_session_ends_with_the_secret_that_signed_in(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let (host, now) = (&site.host, jiff::Timestamp::now());
    let id = id_of(&host.key);
    let mut thief = site.person().await;
    let overlap = now + SignedDuration::from_mins(10);
    let new = host.keys.rotate(&id, overlap, None).await.unwrap();
    assert!(thief.is_in().await, "the old secret is still valid");
    let mut person = Person::signed_in(host, new.text.expose_secret()).await;
    host.clock.pass(MINUTE * 11);
    assert!(!thief.is_in().await, "the old secret has ended");
    assert!(person.is_in().await);
    let newer = host.keys.rotate(&id, now, None).await.unwrap();
    assert!(!person.is_in().await, "rotated without an overlap");
    let mut person = Person::signed_in(host, newer.text.expose_secret()).await;
    assert!(person.is_in().await && !thief.is_in().await);
}

#[rstest]
#[tokio::test]
async fn a_principal_has_a_bounded_number_of_sessions(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let key = site.host.key_with(&[Scope::RunsRead]).await;
    let mut other = site.person().await;
    let mut first = Person::signed_in(&site.host, &key).await;
    let mut second = Person::signed_in(&site.host, &key).await;
    for _ in 0..18 {
        site.host.clock.pass(SignedDuration::from_secs(1));
        Person::signed_in(&site.host, &key).await;
    }
    assert!(first.is_in().await && second.is_in().await);
    Person::signed_in(&site.host, &key).await;
    Person::signed_in(&site.host, &key).await;
    assert!(!first.is_in().await && !second.is_in().await);
    assert!(other.is_in().await, "other principals are not affected");
    let log = site.host.get("/v1/host/touchstone/audit").await;
    let log = log.text();
    assert_eq!(log.matches("console:end-session").count(), 2, "{log}");
    assert!(log.contains("limit: 20 sessions"), "{log}");
}

#[tokio::test]
async fn the_list_of_sessions_has_pages() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    for _ in 0..210 {
        let key = site.host.key_with(&[Scope::RunsRead]).await;
        Person::signed_in(&site.host, &key).await;
    }
    let own = person.session().await.unwrap().id;
    let page = person.get("/console/sessions").await.text();
    assert!(!page.contains(&own), "the oldest is on the next page");
    let (_, rest) = page.split_once("/console/sessions?before=").unwrap();
    let (before, _) = rest.split_once('"').unwrap();
    let next = format!("/console/sessions?before={before}");
    let page = person.get(&next).await.text();
    assert!(page.contains(&own), "{page}");
    let unknown = person.get("/console/sessions?before=none").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn ending_the_other_sessions_is_in_the_audit_log() {
    let site = Site::on(Sqlite).await.unwrap();
    let (mut person, other) = (site.person().await, site.person().await);
    person.send("/console/sessions/end-others", &[]).await;
    let ended = other.session().await.unwrap();
    assert!(ended.ended_at.is_some());
    let log = site.host.get("/v1/host/touchstone/audit").await;
    let log = log.json();
    let entries = log["entries"].as_array().unwrap().iter();
    let found: Vec<&Value> = entries
        .filter(|it| it["entry"]["action"] == "console:end-session")
        .collect();
    assert_eq!(found.len(), 1, "{log}");
    assert_eq!(found[0]["entry"]["resource"], ended.id);
}

#[tokio::test]
async fn signing_in_always_begins_a_new_session_and_ends_the_one_before() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    let mut before = person.copy();
    let key = site.host.key.clone();
    let reply = person.send("/console/sign-in", &[("key", &key)]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
    let ids = |it: &Person<'_>| {
        it.token
            .clone()
            .unwrap()
            .split_once('.')
            .unwrap()
            .0
            .to_owned()
    };
    assert_ne!(ids(&person), ids(&before));
    assert!(person.is_in().await);
    assert!(!before.is_in().await);
    // A token that somebody else chose is never accepted.
    let chosen = "0123456789abcdef0123.chosen";
    let mut fixed = Person::new(&site.host);
    fixed.token = Some(chosen.to_owned());
    fixed.send_only("/console/sign-in", &[("key", &key)]).await;
    assert_ne!(fixed.token.as_deref(), Some(chosen));
    assert!(fixed.is_in().await);
}

#[rstest]
#[tokio::test]
async fn signing_out_ends_the_session_and_removes_the_cookie(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let (mut person, mut other) = (site.person().await, site.person().await);
    let mut copy = person.copy();
    let reply = person.send("/console/sign-out", &[]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
    assert_eq!(reply.header("location"), Some("/console/sign-in"));
    let removed = format!("{COOKIE_NAME}=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0");
    let cookies = reply.headers.get_all(SET_COOKIE);
    let last = cookies.iter().next_back().unwrap();
    assert_eq!(last.to_str().unwrap(), removed);
    assert!(!copy.is_in().await, "the token itself is void");
    assert!(other.is_in().await, "other sessions of the key stay");
}

/// Tokens that no session has.
pub fn bad_tokens(good: &str) -> Vec<String> {
    let (id, secret) = good.split_once('.').unwrap();
    [
        "x".to_owned(),
        ".".to_owned(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.{}", "A".repeat(secret.len())),
        format!("{id}.{secret}A"),
        format!("{}.{secret}", "0".repeat(id.len())),
        format!("{}.{secret}", "a".repeat(4000)),
        format!("%00.{secret}"),
        format!("{id}'--.{secret}"),
    ]
    .into()
}

#[tokio::test]
async fn a_token_that_no_session_has_leads_to_sign_in() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    for bad in bad_tokens(person.token.as_ref().unwrap()) {
        let mut stranger = Person::new(&site.host);
        stranger.token = Some(bad);
        assert!(!stranger.is_in().await, "{:?}", stranger.token);
    }
    assert!(person.is_in().await);
}

#[tokio::test]
async fn the_api_never_reads_cookies() {
    let site = Site::on(Sqlite).await.unwrap();
    let person = site.person().await;
    let paths = [
        "/v1/runs",
        "/v1/host/touchstone/runs",
        "/v1/host/touchstone/audit",
        "/api/v1/agents",
    ];
    for path in paths {
        for method in [Method::GET, Method::POST] {
            let request = person.request(method, path).body(Body::empty()).unwrap();
            let reply = answer(&site.host, request, None).await;
            let status = reply.status.as_u16();
            assert!([401, 405, 404].contains(&status), "{path} {reply:?}");
        }
    }
    let request = person.request(Method::GET, "/v1/host/touchstone/runs");
    let request = request.header(
        AUTHORIZATION,
        format!("Bearer {}", person.token.as_ref().unwrap()),
    );
    let reply = answer(&site.host, request.body(Body::empty()).unwrap(), None).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

#[rstest]
#[tokio::test]
async fn old_sessions_are_deleted(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let old = site.person().await;
    site.host.clock.pass(SignedDuration::from_hours(13));
    let new = site.person().await;
    assert_eq!(site.host.sessions.forget().await.unwrap(), 1);
    assert_eq!(site.host.sessions.forget().await.unwrap(), 0);
    assert_eq!(old.session().await, None);
    assert!(new.session().await.is_some());
}

/// A request to a host without keys.
#[tokio::test]
async fn browsers_are_sent_from_the_root_to_the_console() {
    let site = Site::on(Sqlite).await.unwrap();
    let ask = async |accept: &'static str| {
        let request = Request::builder().uri("/").header("accept", accept);
        answer(&site.host, request.body(Body::empty()).unwrap(), None).await
    };
    let browser = ask("text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!(browser.header("location"), Some("/console"));
    let program = ask("application/json").await;
    assert_eq!(program.status, StatusCode::NOT_FOUND);
    assert_eq!(program.header("content-type"), Some("application/json"));
}
