//! `GET /runs`: the tenant's runs, newest first, in pages.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_openwop::wire::v2::MAX_PAGE;

use crate::http::majors::{both, foreign_run, under_v2};
use crate::http::runs::workflows::start;
use crate::http::support::host::{Reply, SUITE, TestHost, says};

async fn read(host: &TestHost, query: &str) -> Reply {
    under_v2(host, "GET", &format!("/runs{query}")).send().await
}

async fn page(host: &TestHost, query: &str) -> Value {
    let reply = read(host, query).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    reply.json()
}

fn ids(page: &Value) -> Vec<&str> {
    let runs = page["runs"].as_array().unwrap().iter();
    runs.map(|run| run["runId"].as_str().unwrap()).collect()
}

/// A host with three pending runs of fixtures, and their ids, oldest first.
async fn with_runs() -> (TestHost, [String; 3]) {
    let host = both().await;
    let mut runs = Vec::new();
    for workflow in ["conformance-noop", "conformance-delay", "conformance-noop"] {
        let run = start(&host, &json!({"workflowId": workflow})).await;
        runs.push(format!("acme/{run}"));
    }
    (host, runs.try_into().unwrap())
}

#[tokio::test]
async fn pages_have_the_snapshots_of_the_newest_runs_first() {
    let (host, [first, second, third]) = with_runs().await;
    foreign_run(&host).await;
    let all = page(&host, "").await;
    assert_eq!(ids(&all), [&third, &second, &first]);
    assert_eq!(all.get("nextCursor"), None);
    for (run, listed) in [&third, &second, &first].iter().zip(0..) {
        let path = format!("/runs/{}", run.replace('/', "~2F"));
        let read = under_v2(&host, "GET", &path).send().await.json();
        assert_eq!(all["runs"][listed], read);
    }
    let mut query = "?limit=2".to_owned();
    let newest = page(&host, &query).await;
    assert_eq!(ids(&newest), [&third, &second]);
    query = format!("{query}&cursor={}", newest["nextCursor"].as_str().unwrap());
    let rest = page(&host, &query).await;
    assert_eq!(ids(&rest), [&first]);
    assert_eq!(rest.get("nextCursor"), None);
    // A newer run does not move the rest.
    start(&host, &json!({"workflowId": "conformance-noop"})).await;
    assert_eq!(page(&host, &query).await, rest);
    let theirs = under_v2(&host, "GET", "/runs").key(&host.other_key);
    let theirs = theirs.send().await.json();
    assert_eq!(theirs["runs"].as_array().unwrap().len(), 1);
    assert!(ids(&theirs)[0].starts_with("globex/"));
}

#[tokio::test]
async fn filters_are_exact_and_unknown_ones_are_ignored() {
    let (host, [first, second, third]) = with_runs().await;
    host.equip(&says(&["a"])).await;
    let eval = format!("acme/{}", host.create().await);
    let of_suite = format!("?workflowId=eval:{SUITE}:1.0.0");
    let cases: [(&str, &[&String]); 8] = [
        ("?workflowId=conformance-noop", &[&third, &first]),
        ("?workflowId=conformance-delay", &[&second]),
        ("?workflowId=conformance", &[]),
        ("?workflowId=conformance-noop-2", &[]),
        (&of_suite, &[&eval]),
        ("?status=pending&workflowId=conformance-delay", &[&second]),
        ("?status=completed", &[]),
        ("?kind=eval&limit=1", &[&eval]),
    ];
    for (query, expected) in cases {
        assert_eq!(ids(&page(&host, query).await), expected, "{query}");
    }
    host.work();
    host.ended_of(&second.trim_start_matches("acme/").into())
        .await;
    let ended = page(&host, "?status=completed&workflowId=conformance-delay").await;
    assert_eq!(ids(&ended), [&second]);
}

#[tokio::test]
async fn a_larger_limit_than_advertised_is_reduced_to_it() {
    let host = both().await;
    let most = usize::try_from(MAX_PAGE).unwrap();
    for _ in 0..=most {
        start(&host, &json!({"workflowId": "conformance-noop"})).await;
    }
    for query in ["?limit=100000", "?limit=99999999999999999999"] {
        let page = page(&host, query).await;
        assert_eq!(ids(&page).len(), most, "{query}");
        assert!(page.get("nextCursor").is_some());
    }
}

#[rstest]
#[case("?status=done", "status")]
#[case("?status=", "status")]
#[case("?limit=0", "limit")]
#[case("?limit=-1", "limit")]
#[case("?limit=x", "limit")]
#[case("?cursor=not-a-cursor", "cursor")]
#[case("?cursor=", "cursor")]
#[tokio::test]
async fn an_invalid_parameter_is_refused_by_name(#[case] query: &str, #[case] field: &str) {
    let host = both().await;
    let reply = read(&host, query).await;
    assert_eq!(reply.code(), "validation_error", "{}", reply.text());
    assert_eq!(reply.json()["details"]["field"], field);
}

#[tokio::test]
async fn a_cursor_continues_the_list_it_is_from() {
    let (host, _) = with_runs().await;
    let page = page(&host, "?limit=1&workflowId=conformance-noop").await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let own = format!("?workflowId=conformance-noop&cursor={cursor}");
    assert_eq!(read(&host, &own).await.status, StatusCode::OK);
    let last = if cursor.ends_with('A') { "Q" } else { "A" };
    let changed = format!("{}{last}", &cursor[..cursor.len() - 1]);
    for query in [
        format!("?cursor={cursor}"),
        format!("?workflowId=conformance-delay&cursor={cursor}"),
        format!("?workflowId=conformance-noop&status=pending&cursor={cursor}"),
        format!("?workflowId=conformance-noop&cursor={changed}"),
    ] {
        assert_eq!(
            read(&host, &query).await.code(),
            "validation_error",
            "{query}"
        );
    }
    let theirs = under_v2(&host, "GET", &format!("/runs{own}")).key(&host.other_key);
    let theirs = theirs.send().await;
    assert_eq!(theirs.code(), "validation_error");
    assert_eq!(theirs.json()["details"]["field"], "cursor");
}

#[tokio::test]
async fn the_list_needs_its_scope_and_does_not_exist_under_major_1() {
    let host = both().await;
    let unable = host.key_with(&[Scope::RunsCreate]).await;
    let refused = under_v2(&host, "GET", "/runs").key(&unable).send().await;
    assert_eq!(refused.code(), "forbidden");
    assert_eq!(refused.json()["details"]["scopeRequired"], "runs:read");
    for path in ["/v1/runs", "/runs"] {
        let reply = host.request(Method::GET, path);
        let reply = reply.header("openwop-version", "1.0").send().await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        let reply = host.request(Method::GET, path).anonymous();
        let reply = reply.header("openwop-version", "1.0").send().await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
    }
}
