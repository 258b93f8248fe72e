//! Calls every route of the console without a session, without scopes, as another tenant, and with
//! hostile texts, and looks at what comes back. A new route is included.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use regex::Regex;
use rstest::rstest;
use touchstone_console::operations;
use touchstone_console::routes::{Kind, PageRoute};
use touchstone_host::access::Scope;

use super::headers::{assert_headers, assert_page};
use super::seeds::{seeded, stranger};
use super::session::bad_tokens;
use super::support::{Names, Person, Site, answer, ended_run, example, filled};
use super::visitor::Visitor;
use crate::http::support::host::{Reply, public_place};
use crate::store::{Engine, Engine::*};

fn guarded() -> impl Iterator<Item = PageRoute> {
    operations().into_iter().filter(|it| it.kind != Kind::Open)
}

async fn call(person: &mut Person<'_>, route: PageRoute, path: &str) -> Reply {
    match route.method {
        "POST" => person.send(path, &[]).await,
        _ => person.get(path).await,
    }
}

#[test]
fn each_route_is_listed_once() {
    let routes = operations();
    let unique: BTreeSet<_> = routes.iter().map(|it| (it.method, it.path)).collect();
    assert_eq!(unique.len(), routes.len());
    assert!(routes.len() > 8);
    for route in routes {
        let is_form = matches!(route.kind, Kind::Form) || route.path == "/console/sign-in";
        assert!(route.method == "GET" || is_form, "{route:?} changes state");
    }
}

#[tokio::test]
async fn without_a_session_each_page_leads_to_sign_in_and_nothing_else_happens() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let known = Names::of(&run);
    let good = site.person().await.token.unwrap();
    let tokens = bad_tokens(&good).into_iter().map(Some);
    for token in tokens.chain([None]) {
        for route in guarded() {
            for names in [&known, &known.unused()] {
                let path = filled(route, names);
                let mut person = Person::new(&site.host);
                person.token.clone_from(&token);
                let reply = call(&mut person, route, &path).await;
                let what = format!("{route:?} {token:?} {reply:?}");
                assert_headers(&reply, &what);
                assert!(reply.header("set-cookie").is_none(), "{what}");
                if route.kind == Kind::Stream {
                    assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{what}");
                    continue;
                }
                let place = match route.kind {
                    Kind::Form => "/console",
                    _ => &path,
                };
                let place: String =
                    url::form_urlencoded::byte_serialize(place.as_bytes()).collect();
                let location = format!("/console/sign-in?to={place}");
                assert_eq!(reply.status, StatusCode::SEE_OTHER, "{what}");
                assert_eq!(reply.header("location"), Some(location.as_str()), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let key = site.host.issue(|_| ()).await;
    let mut walked = 0;
    for route in guarded() {
        let mut person = Person::signed_in(&site.host, &key).await;
        let path = filled(route, &Names::of(&run));
        let reply = call(&mut person, route, &path).await;
        let what = format!("{route:?} {reply:?}");
        assert_headers(&reply, &what);
        assert!(!reply.status.is_server_error(), "{what}");
        let Some(scope) = route.scope else {
            continue;
        };
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{what}");
        let named = format!("<code>{}</code>", scope.as_str());
        assert!(reply.text().contains(&named), "{what}");
        walked += 1;
    }
    assert!(walked > 5);
}

/// What a person sees, without names that they sent and without random values.
fn seen(reply: &Reply, names: &Names) -> (StatusCode, String) {
    static TOKEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("name=\"csrf\" value=\"[^\"]*\"").unwrap());
    let mut text = reply.text();
    for name in names.all() {
        text = text.replace(&name, "the name");
    }
    let location = reply.header("location").unwrap_or_default().to_owned();
    let text = TOKEN.replace_all(&text, "").into_owned();
    (reply.status, text + &location)
}

/// Fields that the forms need before they look for what they change.
const FIELDS: [(&str, &str); 24] = [
    ("action", "save"),
    ("add", "nightly"),
    ("answer", "accept"),
    ("channel", "stable"),
    ("choice", "1"),
    ("claim", "The task was impossible."),
    ("correction", "exclude_task"),
    ("decision", "accept"),
    ("dimension", "speed"),
    ("justification", "The specification was wrong."),
    ("kind", "passive_only"),
    ("label", "flaky"),
    ("mode", "replay"),
    ("note", "A note"),
    ("overlap", "0"),
    ("rating", "up"),
    ("reason", "A reason"),
    ("signal", "label"),
    ("task", "bad-0"),
    ("text", "A text"),
    ("toState", "staged"),
    ("transition", "promote"),
    ("value", "1"),
    ("version", "1.0.0"),
];
/// A suite without runs has a page that says so, whoever has the suite.
const ANY_NAME: &str = "/console/suites/{suiteId}/flaky";

#[tokio::test(flavor = "multi_thread")]
async fn things_of_another_tenant_look_like_missing_ones() {
    let seeded = seeded(Sqlite, public_place()).await.unwrap();
    let (host, known) = (seeded.host(), &seeded.names);
    let unused = known.unused();
    let key = stranger(&seeded.site).await;
    let mut found = Vec::new();
    let with_names = guarded().filter(|it| it.path.contains('{'));
    for route in with_names {
        let mut person = Person::signed_in(host, &key).await;
        let mut asked = async |names: &Names| {
            let path = filled(route, names);
            let reply = match route.method {
                "POST" => person.send(&path, &FIELDS).await,
                // Pages that need a step or two runs say so before they look for anything else.
                _ => {
                    let runs = format!("runs={},{}", names.run, names.evaluation);
                    let step = "transition=rollback&version=1.0.0";
                    person.get(&format!("{path}?{step}&{runs}")).await
                }
            };
            seen(&reply, names)
        };
        let foreign = asked(known).await;
        assert_eq!(foreign, asked(&unused).await, "{route:?}");
        // A form that lacks a field may say so before it looks for what it changes.
        let is_refused = foreign.0 == StatusCode::NOT_FOUND
            || route.kind == Kind::Form && foreign.0 == StatusCode::BAD_REQUEST;
        if !is_refused && route.path != ANY_NAME {
            found.push(format!("{route:?} {foreign:?}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Everything is still there.
    for viewer in &seeded.viewers {
        let person = Visitor::signed_in(host, &viewer.key).await;
        for shown in viewer.pages.iter().filter(|it| it.has_content) {
            person.page(&shown.path).await;
        }
    }
    let session = host.store.session(&known.session).await.unwrap();
    assert!(session.is_some(), "the session goes on");
}

/// Every parameter of an address belongs to something that exists.
#[tokio::test(flavor = "multi_thread")]
async fn the_walk_of_another_tenant_has_a_real_id_for_each_parameter() {
    let names = Names::of(&"run_0".into());
    let with_names = operations().into_iter().filter(|it| it.path.contains('{'));
    for route in with_names.filter(|it| !it.path.contains("/assets/")) {
        assert!(example(route, &names).is_some(), "{route:?}");
    }
    let seeded = seeded(Sqlite, public_place()).await.unwrap();
    let mut seeded = seeded.names.clone();
    for name in seeded.each() {
        assert!(
            !name.ends_with("-none") && !name.ends_with("_none"),
            "{name}"
        );
    }
}

/// Texts that break a query, a path, a log or a store.
fn hostile() -> Vec<String> {
    [
        "%00",
        "%0d%0aset-cookie:%20a=b",
        "%27%3B%20DROP%20TABLE%20run%3B--",
        "..%2F..%2Fetc%2Fpasswd",
        "%F0%9F%A6%80",
        "%FF",
        "-1",
        "99999999999999999999999",
        "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(["x".repeat(2000)])
    .collect()
}

/// Parameters of queries that pages read.
const PARAMETERS: [&str; 46] = [
    "q",
    "cursor",
    "after",
    "before",
    "from",
    "limit",
    "page",
    "sort",
    "order",
    "show",
    "outcome",
    "verdict",
    "status",
    "kind",
    "tag",
    "tier",
    "suiteId",
    "suiteVersion",
    "agentId",
    "agentVersion",
    "model",
    "since",
    "until",
    "baseline",
    "candidate",
    "run",
    "runs",
    "channel",
    "version",
    "transition",
    "percent",
    "refused",
    "reload",
    "failed",
    "url",
    "previous",
    "calibration",
    "action",
    "principal",
    "done",
    "to",
    "code",
    "error",
    "iss",
    "state",
    "toState",
];

#[test]
fn every_parameter_that_pages_read_is_tried() {
    static READ: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"query\s*\.(?:get|whole|run)\(\s*"([A-Za-z]+)""#).unwrap());
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/console/src")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for name in READ.captures_iter(&text) {
                assert!(PARAMETERS.contains(&&name[1]), "{} in {path:?}", &name[1]);
                read += 1;
            }
        }
    }
    assert!(read > 10);
}

async fn hostile_texts_cause_no_server_error_on(engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let run = ended_run(&site.host).await;
    let known = Names::reviewed(&site.host, &run).await;
    let mut person = site.person().await;
    for route in operations().into_iter().filter(|it| it.method == "GET") {
        let path = filled(route, &known);
        for text in hostile() {
            let mut paths = vec![];
            let together: Vec<String> = PARAMETERS.map(|name| format!("{name}={text}")).into();
            if text.len() < 100 {
                paths.push(format!("{path}?{}", together.join("&")));
            }
            paths.extend(together.iter().map(|it| format!("{path}?{it}")));
            let names = Names::all_of(&text);
            if route.path.contains('{') {
                paths.push(filled(route, &names));
                let run = run.to_string();
                paths.push(filled(route, &Names { run, ..names }));
            }
            for path in paths {
                let reply = person.get(&path).await;
                assert!(!reply.status.is_server_error(), "{path} {reply:?}");
                assert_page(&reply, &path);
            }
        }
    }
}

#[rstest]
#[tokio::test]
async fn hostile_addresses_cause_no_server_error(#[values(Sqlite, Postgres)] engine: Engine) {
    hostile_texts_cause_no_server_error_on(engine).await;
}

/// The forms of a page that change something: their addresses and the names of their fields.
fn forms(html: &str) -> Vec<(String, Vec<String>)> {
    static FORM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(?s)<form([^>]*)>(.*?)</form>").unwrap());
    static ACTION: LazyLock<Regex> = LazyLock::new(|| Regex::new("action=\"([^\"]*)\"").unwrap());
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(" name=\"([^\"]*)\"").unwrap());
    let posts = FORM
        .captures_iter(html)
        .filter(|form| form[1].contains("method=\"post\""));
    let one = |form: regex::Captures<'_>| {
        let action = ACTION.captures(&form[1]).unwrap()[1].replace("&amp;", "&");
        let names = NAME.captures_iter(&form[2]).map(|name| name[1].to_owned());
        (action, names.filter(|name| name != "csrf").collect())
    };
    posts.map(one).collect()
}

#[rstest]
#[tokio::test]
async fn hostile_fields_cause_no_server_error(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let run = ended_run(&site.host).await;
    let names = Names::reviewed(&site.host, &run).await;
    let mut found = BTreeSet::new();
    let mut person = site.person().await;
    for route in guarded().filter(|it| it.kind == Kind::Page) {
        let path = filled(route, &names);
        found.extend(forms(&person.get(&path).await.text()));
    }
    let usual = ["reason", "add", "remove", "note", "name", "tag"].map(str::to_owned);
    for route in guarded().filter(|it| it.kind == Kind::Form) {
        found.insert((filled(route, &names), usual.to_vec()));
    }
    // Signing out ends the session: each form is sent in a new one.
    let texts = [
        "\0",
        "\u{1f980}",
        "<script>",
        "'; --",
        "-1",
        &"x".repeat(70_000),
    ];
    for (path, names) in found {
        for text in texts {
            let fields: Vec<(&str, &str)> =
                names.iter().map(|name| (name.as_str(), text)).collect();
            // A form may revoke the key of its session.
            let key = site.host.key_with(Scope::ALL).await;
            let mut person = Person::signed_in(&site.host, &key).await;
            let reply = person.send(&path, &fields).await;
            let what = format!("{path} {names:?} {:?}", text.get(..9));
            assert!(!reply.status.is_server_error(), "{what} {reply:?}");
            assert_page(&reply, &what);
        }
    }
}

#[tokio::test]
async fn a_request_needs_no_body_to_be_refused() {
    let site = Site::on(Sqlite).await.unwrap();
    for route in guarded().filter(|it| it.kind == Kind::Form) {
        let person = site.person().await;
        let path = filled(route, &Names::of(&"run_0".into()));
        let request = person.request(Method::POST, &path).body(Body::empty());
        let reply = answer(&site.host, request.unwrap(), None).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{route:?}");
    }
}
