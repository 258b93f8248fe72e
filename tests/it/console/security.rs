//! What other sites and stored texts cannot do: send forms, lead people elsewhere, run scripts.

use axum::body::Body;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;
use touchstone_console::operations;
use touchstone_console::routes::Kind;
use touchstone_kit::ids::RunId;

use super::headers::assert_page;
use super::seeds::seeded;
use super::support::{
    MARKUP, Names, Person, Site, answer, ended_run, example, filled, form, hostile_suite, is_html,
};
use super::visitor::Visitor;
use crate::http::support::host::{Reply, TestHost, create_body, public_place};
use crate::store::{Engine, Engine::*};

/// How a run ends once somebody works on it.
async fn end_of(host: &TestHost, run: &RunId) -> String {
    let worker = host.work();
    host.ended(run).await;
    worker.cancel();
    let run = host.get(&format!("/v1/runs/{run}")).await.json();
    run["status"].as_str().unwrap().to_owned()
}

async fn pending(host: &TestHost) -> RunId {
    host.equip(&[json!({"say": "yes"})]).await;
    host.create().await
}

#[rstest]
#[tokio::test]
async fn a_form_needs_the_token_of_its_session(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let run = pending(&site.host).await;
    let mut person = site.person().await;
    let mut other = Person::signed_in(&site.host, &site.host.other_key).await;
    let before = site.person().await.csrf().await.unwrap();
    let ended = {
        let mut ended = site.person().await;
        let token = ended.csrf().await.unwrap();
        ended.send("/console/sign-out", &[]).await;
        token
    };
    let foreign = other.csrf().await.unwrap();
    let own = person.csrf().await.unwrap();
    let cut = &own[..own.len() - 2];
    let tokens = ["", "AAAA", cut, &foreign, &before, &ended];
    let path = format!("/console/runs/{run}/cancel");
    for token in tokens {
        let reply = person.send_only(&path, &[("csrf", token)]).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{token}");
        assert!(reply.text().contains("open the page again"), "{reply:?}");
    }
    // In the query, where logs and other sites see it, the token does not count.
    let reply = person.send_only(&format!("{path}?csrf={own}"), &[]).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    let reply = other.send(&path, &[]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND, "{reply:?}");
    let second = site.host.create().await;
    let path = format!("/console/runs/{second}/cancel");
    let reply = person.send_only(&path, &[("csrf", &own)]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
    assert_eq!(end_of(&site.host, &run).await, "completed");
    assert_eq!(end_of(&site.host, &second).await, "cancelled");
}

#[tokio::test]
async fn every_page_masks_the_token_differently_and_it_is_accepted() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = pending(&site.host).await;
    let mut person = site.person().await;
    let token = async |person: &mut Person<'_>| {
        let page = person.get("/console/runs").await.text();
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (first, second) = (token(&mut person).await, token(&mut person).await);
    assert_ne!(
        first, second,
        "compressed pages would reveal a constant text"
    );
    let path = format!("/console/runs/{run}/cancel");
    let reply = person.send_only(&path, &[("csrf", &first)]).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
}

/// A form with the right token, sent with these headers.
async fn sent_with(site: &Site, path: &str, headers: &[(&str, &str)]) -> Reply {
    let person = site.person().await;
    let csrf = person.csrf().await.unwrap();
    let mut request = person
        .request(Method::POST, path)
        .header(HOST, "evals.example");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let fields = [("csrf", csrf.as_str()), ("key", &site.host.key)];
    answer(&site.host, form(request, &fields), None).await
}

#[tokio::test]
async fn forms_of_other_sites_are_refused() {
    let site = Site::on(Sqlite).await.unwrap();
    let names = Names::of(&pending(&site.host).await);
    let foreign = [
        ("origin", "https://attacker.example"),
        ("origin", "https://evals.example.attacker.example"),
        ("origin", "https://evals.example:8443"),
        ("origin", "null"),
        ("origin", ""),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    let forms = operations().into_iter().filter(|it| it.method == "POST");
    for route in forms {
        let path = filled(route, &names);
        for header in foreign {
            let reply = sent_with(&site, &path, &[header]).await;
            let what = format!("{route:?} {header:?} {reply:?}");
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{what}");
            assert!(reply.text().contains("another site"), "{what}");
            assert_eq!(reply.header("set-cookie"), None, "{what}");
        }
    }
    let run: RunId = names.run.as_str().into();
    assert_eq!(end_of(&site.host, &run).await, "completed");
    let own = [
        ("origin", "https://evals.example"),
        ("sec-fetch-site", "same-origin"),
    ];
    let reply = sent_with(&site, "/console/theme", &own).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
}

#[tokio::test]
async fn no_answer_allows_other_origins_to_read_it() {
    let site = Site::on(Sqlite).await.unwrap();
    let person = site.person().await;
    for path in ["/console/runs", "/console/sign-in", "/console/none"] {
        let request = person.request(Method::GET, path);
        let request = request.header(ORIGIN, "https://attacker.example");
        let reply = answer(&site.host, request.body(Body::empty()).unwrap(), None).await;
        let names = reply.headers.keys().map(|it| it.as_str());
        let shared: Vec<&str> = names
            .filter(|it| it.starts_with("access-control"))
            .collect();
        assert!(shared.is_empty(), "{path} {shared:?}");
    }
}

/// Places outside the console, as attackers write them.
const ELSEWHERE: [&str; 12] = [
    "https://attacker.example/console",
    "//attacker.example/console",
    "/\\attacker.example",
    "/console//attacker.example",
    "/console/\\attacker.example",
    "/console.attacker.example",
    "/console@attacker.example",
    "javascript:alert(1)",
    "/console/\r\nset-cookie: a=b",
    "/v1/runs",
    " /console",
    "/console/\u{e9}",
];

#[tokio::test]
async fn redirects_stay_within_the_console() {
    let site = Site::on(Sqlite).await.unwrap();
    let key = site.host.key.clone();
    for place in ELSEWHERE {
        let mut person = Person::new(&site.host);
        let encoded: String = url::form_urlencoded::byte_serialize(place.as_bytes()).collect();
        let page = person.get(&format!("/console/sign-in?to={encoded}")).await;
        let kept = page.text().contains("name=\"to\" value=\"/console\"");
        assert!(kept, "{place} {}", page.text());
        let refused = [("key", "no"), ("to", place)];
        let reply = person.send("/console/sign-in", &refused).await;
        let back = "/console/sign-in?failed=unknown_key&to=%2Fconsole";
        assert_eq!(reply.header("location"), Some(back), "{place}");
        let fields = [("key", key.as_str()), ("to", place)];
        let reply = person.send("/console/sign-in", &fields).await;
        assert_eq!(reply.header("location"), Some("/console"), "{place}");
        let fields = [("theme", "dark"), ("place", place)];
        let reply = person.send("/console/theme", &fields).await;
        assert_eq!(reply.header("location"), Some("/console"), "{place}");
    }
}

#[tokio::test]
async fn a_link_on_another_site_opens_its_page_once_the_console_itself_leads_there() {
    let site = Site::on(Sqlite).await.unwrap();
    let stranger = Person::new(&site.host);
    let path = "/console/runs?tag=%22%3E%3Cscript%3E";
    let request = stranger
        .request(Method::GET, path)
        .header("sec-fetch-site", "cross-site")
        .header("sec-fetch-mode", "navigate");
    let reply = answer(&site.host, request.body(Body::empty()).unwrap(), None).await;
    assert_eq!(reply.status, StatusCode::OK);
    let page = reply.text();
    let led = format!("<meta http-equiv=\"refresh\" content=\"0;url={path}\">");
    assert!(page.contains(&led), "{page}");
    assert_page(&reply, path);
    assert_eq!(reply.header("set-cookie"), None);
}

/// Shows a text only with its special characters escaped.
fn assert_escaped(reply: &Reply, what: &str) {
    let text = reply.text();
    for raw in ["<img src=x", "<script>window", "\"'><", "<script>alert"] {
        assert!(!text.contains(raw), "{what}: {text}");
    }
    assert_page(reply, what);
}

#[rstest]
#[tokio::test]
async fn stored_markup_is_shown_as_text(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    let host = &site.host;
    let run = ended_run(host).await;
    let mut person = site.person().await;
    let tag = "<script>alert";
    let path = format!("/console/runs/{run}/tags");
    let tagged = person.send(&path, &[("add", tag)]).await;
    let shown = tagged.status == StatusCode::SEE_OTHER;
    let list = person.get("/console/runs").await;
    assert_eq!(
        list.text().contains("&#60;script&#62;alert"),
        shown,
        "{tagged:?}"
    );
    let mut seen = 0;
    for route in operations().into_iter().filter(|it| it.kind == Kind::Page) {
        let names = Names {
            task: "task-3".to_owned(),
            ..Names::reviewed(&site.host, &run).await
        };
        let Some(path) = example(route, &names) else {
            continue;
        };
        let reply = person.get(&path).await;
        if is_html(&reply) {
            assert_escaped(&reply, &path);
            seen += usize::from(reply.text().contains("onerror=window.ran"));
        }
    }
    assert!(seen > 0, "a page shows the text");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn markup_of_tools_cards_and_notes_is_shown_as_text(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(seeded) = seeded(engine, public_place()).await else {
        return;
    };
    let mut with_markup = Vec::new();
    for viewer in &seeded.viewers {
        let person = Visitor::signed_in(seeded.host(), &viewer.key).await;
        for path in viewer.paths() {
            let reply = person.get(&path).await;
            if is_html(&reply) {
                assert_escaped(&reply, &path);
            }
            if reply.text().contains("onerror=window.ran") {
                with_markup.push(path);
            }
        }
    }
    let names = &seeded.names;
    for shown in [
        format!(
            "/console/oasis/{}/evidence/{}",
            names.evaluation, names.scenario
        ),
        format!("/console/runs/{}/tasks/task-5", names.run),
    ] {
        assert!(with_markup.contains(&shown), "{shown}: {with_markup:?}");
    }
}

#[tokio::test]
async fn task_ids_of_markup_are_shown_as_text_or_refused() {
    let site = Site::on(Sqlite).await.unwrap();
    let host = &site.host;
    host.equip(&[json!({"say": "yes"})]).await;
    let mut suite = hostile_suite();
    suite["version"] = json!("2.0.0");
    let imported = host.post("/v1/host/touchstone/suites", &suite).await;
    if imported.status != StatusCode::CREATED {
        assert_eq!(imported.status, StatusCode::BAD_REQUEST, "{imported:?}");
        return;
    }
    let _worker = host.work();
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{}@2.0.0", crate::http::support::host::SUITE));
    let created = host.post("/v1/runs", &body).await.json();
    let run: RunId = created["runId"].as_str().unwrap().into();
    host.ended(&run).await;
    let mut person = site.person().await;
    let page = person.get(&format!("/console/runs/{run}")).await;
    assert!(page.text().contains("onerror=window.ran"), "{page:?}");
    assert_escaped(&page, "the run");
    let id: String = url::form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    let id = id.replace('+', "%20");
    let task = person.get(&format!("/console/runs/{run}/tasks/{id}")).await;
    assert_eq!(task.status, StatusCode::OK, "{task:?}");
    assert_escaped(&task, "the task");
}

#[tokio::test]
async fn texts_of_an_address_are_shown_as_text() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = site.person().await;
    let text: String = url::form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    let names = Names::of(&"run_0".into());
    for route in operations().into_iter().filter(|it| it.method == "GET") {
        let path = filled(route, &names);
        for name in [
            "suiteId", "tag", "q", "to", "done", "failed", "baseline", "url",
        ] {
            let path = format!("{path}?{name}={text}");
            let reply = person.get(&path).await;
            if is_html(&reply) {
                assert_escaped(&reply, &path);
            }
        }
    }
}

#[tokio::test]
async fn keys_and_tokens_appear_in_no_page_and_no_address() {
    let site = Site::on(Sqlite).await.unwrap();
    let run = ended_run(&site.host).await;
    let mut person = site.person().await;
    let token = person.token.clone().unwrap();
    let (_, secret) = token.split_once('.').unwrap();
    for route in operations().into_iter().filter(|it| it.method == "GET") {
        let reply = person.get(&filled(route, &Names::of(&run))).await;
        let seen = format!("{:?}{}", reply.headers, reply.text());
        for hidden in [secret, &site.host.key, &site.host.other_key] {
            assert!(!seen.contains(hidden), "{route:?}");
        }
    }
}
