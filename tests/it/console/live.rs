//! The page of a run while it runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::BytesMut;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::{ModelReply, ModelRequest};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;

use super::visitor::{Visitor, ended};
use crate::http::support::host::{Echo, Lab, TestHost, id_of, says};

/// An event of a stream: id, name, data.
#[derive(Debug)]
struct Event {
    id: Option<u64>,
    name: String,
    data: Value,
}

/// A stream of events; comments are skipped.
struct Events {
    response: Response,
    buffer: BytesMut,
}

impl Events {
    async fn of(visitor: &Visitor<'_>, path: &str, headers: &[(&str, &str)]) -> Self {
        let response = visitor.open(path, headers).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self {
            response,
            buffer: BytesMut::new(),
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let block = self.buffer.split_to(end + 2);
                let block = String::from_utf8(block.to_vec()).unwrap();
                if !block.starts_with(':') {
                    return Some(parse(&block));
                }
            }
            let frame = self.response.body_mut().frame();
            let frame = tokio::time::timeout(Duration::from_secs(30), frame);
            let chunk = frame.await.unwrap()?.unwrap().into_data().unwrap();
            self.buffer.extend_from_slice(&chunk);
        }
    }
}

fn parse(block: &str) -> Event {
    let field = |name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    };
    Event {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event").unwrap().to_owned(),
        data: serde_json::from_str(field("data").unwrap()).unwrap(),
    }
}

/// A host with a worker, and a run whose tasks take a while.
async fn slow_host(tasks: usize) -> TestHost {
    let tasks: Vec<Value> = (0..tasks)
        .map(|n| json!({"say": format!("answer {n}"), "delayMs": 200 * (n + 1)}))
        .collect();
    TestHost::working(&tasks).await
}

/// Answers the first task at once, and each other one when the test permits it.
struct Gated {
    echo: Echo,
    others: Arc<Semaphore>,
}

#[async_trait]
impl Model for Gated {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        if !format!("{:?}", request.messages).contains("answer 0") {
            self.others.acquire().await.unwrap().forget();
        }
        self.echo.complete(request).await
    }

    fn info(&self) -> &ModelInfo {
        self.echo.info()
    }
}

#[tokio::test]
async fn the_page_of_an_open_run_follows_it_to_its_verdict() {
    let agent = Gated {
        echo: Echo::default(),
        others: Arc::new(Semaphore::new(0)),
    };
    let others = agent.others.clone();
    let lab = Lab {
        agent: Some(Arc::new(agent)),
        ..Lab::default()
    };
    let host = TestHost::with_lab(HttpSettings::default(), lab).await;
    let texts = ["answer 0", "answer 1", "answer 2", "answer 3"];
    host.equip(&says(&texts)).await;
    host.work();
    let ada = Visitor::ada(&host).await;
    let run = host.create().await;
    let page = ada.page(&format!("/console/runs/{run}")).await;
    assert!(page.contains(&format!("data-live=\"/console/runs/{run}/live\"")));
    assert!(
        page.contains("<noscript><p class=\"notice info\">This page does not update by itself.")
    );
    assert!(page.contains("Not finished"));
    let mut events = Events::of(&ada, &format!("/console/runs/{run}/live"), &[]).await;
    let first = events.next().await.unwrap();
    let names: Vec<&String> = first.data.as_object().unwrap().keys().collect();
    let all = ["distributions", "latest", "progress", "tiles", "verdict"];
    assert_eq!(names, all, "the first frame has every region");
    let (mut last, mut seen) = (first.id.unwrap(), first.data);
    let mut is_listed = false;
    loop {
        // The last frame has no list: the page of an ended run shows its tasks.
        if !is_listed && seen["latest"].as_str().unwrap().contains("task-0") {
            is_listed = true;
            others.add_permits(3);
        }
        let event = tokio::time::timeout(Duration::from_secs(60), events.next());
        let event = event.await.expect("the first task is listed").unwrap();
        if event.name == "end" {
            break;
        }
        assert_eq!(event.name, "frame");
        assert!(event.id.unwrap() >= last);
        last = event.id.unwrap();
        for (name, html) in event.data.as_object().unwrap() {
            seen[name] = html.clone();
        }
    }
    assert!(events.next().await.is_none(), "the stream ends");
    for part in ["Inconclusive", "reaches the pass score 1.000, but not with"] {
        assert!(
            seen["verdict"].as_str().unwrap().contains(part),
            "{part}: {seen}"
        );
    }
    assert!(seen["progress"].as_str().unwrap().contains("4 of 4 tasks"));
    assert!(is_listed, "the list of tasks has the first one");
    let page = ada.page(&format!("/console/runs/{run}")).await;
    assert!(!page.contains("data-live") && !page.contains("http-equiv"));
}

#[tokio::test]
async fn a_browser_resumes_where_it_was() {
    let host = slow_host(2).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let path = format!("/console/runs/{run}/live");
    let mut events = Events::of(&ada, &path, &[]).await;
    let newest = events.next().await.unwrap();
    assert_eq!(newest.name, "frame");
    assert_eq!(events.next().await.unwrap().name, "end");
    let last = newest.id.unwrap().to_string();
    let mut events = Events::of(&ada, &path, &[("last-event-id", &last)]).await;
    assert_eq!(events.next().await.unwrap().name, "end", "nothing is new");
    let mut events = Events::of(&ada, &format!("{path}?from=1"), &[]).await;
    assert_eq!(events.next().await.unwrap().name, "frame");
    let mut events = Events::of(&ada, &path, &[("last-event-id", "x")]).await;
    assert_eq!(events.next().await.unwrap().name, "frame");
}

/// Number of people who watch one run.
const WATCHERS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_is_rendered_once_for_everybody_who_watches() {
    let tasks: Vec<Value> = (0..40)
        .map(|n| json!({"say": format!("answer {n}"), "delayMs": 40 * n}))
        .collect();
    let host = TestHost::idle().await;
    host.equip(&tasks).await;
    let ada = Visitor::ada(&host).await;
    let run = host.create().await;
    let path = format!("/console/runs/{run}/live");
    let started = std::time::Instant::now();
    let opened = join_all((0..WATCHERS).map(|_| Events::of(&ada, &path, &[]))).await;
    host.work();
    let reading = opened.into_iter().map(|mut events| {
        tokio::spawn(async move {
            let (mut ids, mut progress, mut last) = (Vec::new(), Value::Null, String::new());
            while let Some(event) = events.next().await {
                ids.extend(event.id);
                if let Some(shown) = event.data.get("progress") {
                    progress = shown.clone();
                }
                last = event.name;
            }
            (ids, progress, last)
        })
    });
    let seen = join_all(reading).await;
    let took = started.elapsed();
    let events = host.ended(&run).await.len() as u64;
    let mut frames = BTreeSet::new();
    for watcher in seen {
        let (ids, progress, last) = watcher.unwrap();
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(last, "end", "everybody sees the end");
        let progress = progress.as_str().unwrap();
        assert!(progress.contains("40 of 40 tasks"), "{progress}");
        // A frame shows at least the log up to its position.
        assert!(ids.last().is_some_and(|it| *it <= events), "{ids:?}");
        frames.extend(ids);
    }
    // If each stream rendered for itself, there would be as many positions as streams.
    let most = took.as_millis() / 250 + 2;
    assert!(
        (frames.len() as u128) <= most && frames.len() > 2,
        "{frames:?} in {took:?}"
    );
}

#[tokio::test]
async fn streams_of_other_tenants_and_of_unknown_runs_do_not_exist() {
    let host = slow_host(1).await;
    let run = ended(&host).await;
    let other = Visitor::signed_in(&host, &host.other_key).await;
    for path in [
        format!("/console/runs/{run}/live"),
        "/console/runs/run_unknown/live".to_owned(),
        format!("/console/runs/{run}"),
        format!("/console/runs/{run}/download/report.html"),
    ] {
        assert_eq!(
            other.get(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams() {
    let settings = HttpSettings {
        keepalive: Duration::from_millis(100),
        ..HttpSettings::default()
    };
    let host = TestHost::with(settings).await;
    host.equip(&says(&["yes"])).await;
    let key = host.key_with(&[Scope::RunsRead]).await;
    let visitor = Visitor::signed_in(&host, &key).await;
    // Without a worker, the run stays open.
    let run = host.create().await;
    let mut events = Events::of(&visitor, &format!("/console/runs/{run}/live"), &[]).await;
    assert_eq!(events.next().await.unwrap().name, "frame");
    host.keys.revoke(&id_of(&key)).await.unwrap();
    assert_eq!(events.next().await.unwrap().name, "signed-out");
    assert!(events.next().await.is_none());
}
