//! Calls every route of the console without a session, without scopes, as another tenant, and with
//! hostile texts, and looks at what comes back. A new route is included.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use regex::Regex;
use rstest::rstest;
use touchstone_console::operations;
use touchstone_console::routes::{Kind, PageRoute};
use touchstone_host::access::Scope;

use super::session::bad_tokens;
use super::support::{Names, Person, Site, answer, ended_run, example, filled, form, is_html};
use crate::http::support::host::Reply;
use crate::store::{Engine, Engine::*};

/// Headers of every answer of the console.
const HEADERS: [(&str, &str); 4] = [
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
];

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
        text = text.replace(name, "the name");
    }
    let location = reply.header("location").unwrap_or_default().to_owned();
    let text = TOKEN.replace_all(&text, "").into_owned();
    (reply.status, text + &location)
}

#[tokio::test]
async fn things_of_another_tenant_look_like_missing_ones() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let known = Names::reviewed(&site.host, &run).await;
    let unused = known.unused();
    let mut walked = 0;
    let with_names = guarded().filter(|it| it.path.contains('{'));
    for route in with_names {
        let mut person = Person::signed_in(&site.host, &site.host.other_key).await;
        let foreign = call(&mut person, route, &filled(route, &known)).await;
        let missing = call(&mut person, route, &filled(route, &unused)).await;
        let foreign = seen(&foreign, &known);
        assert_eq!(foreign, seen(&missing, &unused), "{route:?}");
        if route.path.contains("{runId}") {
            // A form that lacks a field may say so before it looks for the run.
            let refused = [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST];
            assert!(refused.contains(&foreign.0), "{route:?} {foreign:?}");
            walked += 1;
        }
    }
    assert!(walked > 3);
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
const PARAMETERS: [&str; 28] = [
    "q",
    "cursor",
    "after",
    "before",
    "limit",
    "page",
    "sort",
    "order",
    "outcome",
    "verdict",
    "status",
    "tag",
    "suiteId",
    "agentId",
    "agentVersion",
    "model",
    "since",
    "until",
    "baseline",
    "candidate",
    "run",
    "channel",
    "version",
    "url",
    "previous",
    "calibration",
    "done",
    "to",
];

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
            let names = Names {
                run: text.clone(),
                task: text.clone(),
                agent: text.clone(),
                suite: text.clone(),
                pack: text.clone(),
                review: text.clone(),
            };
            if route.path.contains('{') {
                paths.push(filled(route, &names));
                paths.push(filled(
                    route,
                    &Names {
                        run: run.to_string(),
                        ..names
                    },
                ));
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

fn assert_headers(reply: &Reply, what: &str) {
    for (name, value) in HEADERS {
        assert_eq!(reply.header(name), Some(value), "{what}");
    }
    let policy = reply.header("content-security-policy").unwrap();
    let is_file = reply.header("content-disposition").is_some();
    if !is_file || !policy.contains("sandbox") {
        assert!(
            policy.starts_with("default-src 'none'; "),
            "{what}: {policy}"
        );
        for directive in [
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(directive), "{what}: {policy}");
        }
    }
    for loose in ["unsafe", "*", "http:", "data:"] {
        assert!(!policy.contains(loose), "{what}: {policy}");
    }
}

/// Nothing in a page is inline: no style, no script, no event handler, no address that is a script.
pub fn assert_page(reply: &Reply, what: &str) {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"<([a-zA-Z][a-zA-Z0-9-]*)((?:[^>"']|"[^"]*"|'[^']*')*)>"#).unwrap()
    });
    static ATTRIBUTE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"([a-zA-Z:_-]+)(?:\s*=\s*"([^"]*)")?"#).unwrap());
    if !is_html(reply) {
        return;
    }
    let text = reply.text();
    for tag in TAG.captures_iter(&text) {
        let attributes: Vec<(String, String)> = ATTRIBUTE
            .captures_iter(&tag[2])
            .map(|it| {
                let value = it.get(2).map_or("", |value| value.as_str());
                (it[1].to_ascii_lowercase(), value.to_ascii_lowercase())
            })
            .collect();
        let element = tag[1].to_ascii_lowercase();
        let kept = ["style", "iframe", "object", "embed", "base"];
        assert!(!kept.contains(&element.as_str()), "{what}: {}", &tag[0]);
        let has_source = attributes.iter().any(|(name, _)| name == "src");
        assert!(element != "script" || has_source, "{what}: {}", &tag[0]);
        for (name, value) in attributes {
            let is_inline = name == "style" || name.starts_with("on");
            assert!(!is_inline, "{what}: {}", &tag[0]);
            let is_address = ["href", "src", "action", "formaction"].contains(&name.as_str());
            let is_plain = value.starts_with(['/', '#', '?']) || value.starts_with("http");
            assert!(!is_address || is_plain, "{what}: {}", &tag[0]);
        }
    }
}

#[tokio::test]
async fn each_page_has_the_headers_and_nothing_inline() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let names = Names::reviewed(&site.host, &run).await;
    let mut person = site.person().await;
    let mut walked = 0;
    for route in operations().into_iter().filter(|it| it.method == "GET") {
        let Some(path) = example(route, &names) else {
            continue;
        };
        let reply = person.get(&path).await;
        let what = format!("{path} {}", reply.status);
        assert!(!reply.status.is_server_error(), "{what}");
        // The address `/` belongs to programs too.
        if route.path != "/" {
            assert_headers(&reply, &what);
        }
        if route.kind == Kind::Page && is_html(&reply) && reply.status.is_success() {
            assert!(reply.text().contains("<html lang=\"en\""), "{what}");
            assert_eq!(reply.header("vary"), Some("Cookie"), "{what}");
            walked += 1;
        }
        assert_page(&reply, &what);
    }
    assert!(walked > 3);
}

#[tokio::test]
async fn errors_of_every_kind_are_pages() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    for path in [
        "/console/none",
        "/console/",
        "/console/runs/none/none",
        "/console/runs/run_0",
    ] {
        let reply = person.get(path).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert!(
            is_html(&reply) && reply.text().contains("Not found"),
            "{reply:?}"
        );
        assert_headers(&reply, path);
    }
    for (method, path) in [
        (Method::DELETE, "/console/runs"),
        (Method::PUT, "/console/sign-out"),
        (Method::GET, "/console/sign-out"),
        (Method::POST, "/console/runs"),
        (Method::POST, "/console/none"),
    ] {
        let request = form(person.request(method.clone(), path), &[]);
        let reply = answer(&site.host, request, None).await;
        let what = format!("{method} {path} {reply:?}");
        let refused = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_FOUND];
        assert!(refused.contains(&reply.status), "{what}");
        assert!(is_html(&reply), "{what}");
        assert_headers(&reply, &what);
    }
    let long = format!("/console/runs?tag={}", "x".repeat(20_000));
    let reply = person.get(&long).await;
    assert!(
        reply.status.is_client_error() && is_html(&reply),
        "{reply:?}"
    );
    assert_headers(&reply, "a long address");
}

#[tokio::test]
async fn assets_are_kept_for_good_and_found_only_by_their_digest() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut stranger = Person::new(&site.host);
    let page = stranger.get("/console/sign-in").await.text();
    let address = Regex::new("/console/assets/[0-9a-f]{16}/[a-z.]+").unwrap();
    let found: BTreeSet<&str> = address.find_iter(&page).map(|it| it.as_str()).collect();
    assert!(found.len() > 1, "{page}");
    for path in found {
        let reply = stranger.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        let kept = reply.header("cache-control").unwrap();
        assert!(kept.ends_with("immutable"), "{kept}");
        let (before, name) = path.rsplit_once('/').unwrap();
        let other = format!("{}0000/{name}", &before[..before.len() - 4]);
        assert_eq!(stranger.get(&other).await.status, StatusCode::NOT_FOUND);
    }
}

/// Addresses within the console that a page leads to, and whether a link does.
fn links(html: &str) -> BTreeSet<(String, bool)> {
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(href|action)=\"(/console[^\"#]*)").unwrap());
    let found = LINK.captures_iter(html);
    found
        .map(|it| {
            let place = it[2].replace("&#38;", "&").replace("&amp;", "&");
            (place, &it[1] == "href")
        })
        .collect()
}

#[tokio::test]
async fn links_and_forms_lead_to_pages_that_exist() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let names = Names::reviewed(&site.host, &run).await;
    let mut person = site.person().await;
    let mut waiting: Vec<String> = operations()
        .into_iter()
        .filter(|it| it.kind == Kind::Page)
        .filter_map(|it| example(it, &names))
        .collect();
    let mut walked = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if walked.len() > 300 || !walked.insert(path.clone()) {
            continue;
        }
        let reply = person.get(&path).await;
        if !is_html(&reply) || !reply.status.is_success() {
            continue;
        }
        for (link, is_link) in links(&reply.text()) {
            let place = link.split('?').next().unwrap();
            let known = operations()
                .into_iter()
                .any(|route| !route.path.contains('*') && matches(route.path, place));
            assert!(known, "{path} leads to {link}");
            let is_page = operations()
                .into_iter()
                .any(|route| route.kind == Kind::Page && matches(route.path, place));
            // A form adds its fields to its address.
            if is_page && is_link {
                let there = person.get(&link).await;
                assert!(
                    there.status.is_success(),
                    "{path} leads to {link}: {}",
                    there.status
                );
                waiting.push(link);
            }
        }
    }
    assert!(walked.len() > 6, "{walked:?}");
}

/// Whether an address belongs to a route.
fn matches(route: &str, path: &str) -> bool {
    let (route, path): (Vec<&str>, Vec<&str>) =
        (route.split('/').collect(), path.split('/').collect());
    let mut pairs = route.iter().zip(&path);
    route.len() == path.len() && pairs.all(|(a, b)| a == b || a.starts_with('{'))
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
