//! The headers of every answer, the markup of every page, and the pages of errors.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use regex::Regex;
use touchstone_console::operations;
use touchstone_console::routes::Kind;

use super::support::{Names, Person, Site, answer, ended_run, example, form, is_html};
use crate::http::support::host::Reply;
use crate::store::Engine::*;

/// Headers of every answer of the console.
const HEADERS: [(&str, &str); 4] = [
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
];

pub fn assert_headers(reply: &Reply, what: &str) {
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
    // A downloaded report is a page of its own.
    let own = |path: &str| path.ends_with("/download/{name}");
    let routes = operations().into_iter();
    for route in routes.filter(|it| it.method == "GET" && !own(it.path)) {
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
async fn assets_are_cached_permanently_and_found_only_by_their_digest() {
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
