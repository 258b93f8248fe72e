//! A person watches a live run in a browser, loses the connection, and sees the verdict.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::{Message, ModelReply, ModelRequest, RetryPolicy};
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::browser::{Browser, TOO_LONG, with_browser};
use crate::http::support::host::{Lab, TestHost};
use crate::store::{Engine, Engine::*, TestStore};

const TASKS: usize = 12;

/// Answers a task only when the test permits one more answer.
struct Patient {
    info: ModelInfo,
    answers: Arc<Semaphore>,
}

#[async_trait]
impl Model for Patient {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.answers.acquire().await.unwrap().forget();
        let text = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(text.to_string()),
            _ => None,
        });
        let input: Value = serde_json::from_str(&text.unwrap()).unwrap();
        Ok(ModelReply {
            text: Some(input["say"].as_str().unwrap().to_owned()),
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// A host without TLS whose agent waits for the test, and a run that has started.
struct Waiting {
    host: TestHost,
    run: RunId,
    /// The answers that the agent may still give.
    answers: Arc<Semaphore>,
    _database: TestStore,
}

async fn waiting(engine: Engine) -> Option<Waiting> {
    let database = engine.database().await?;
    let answers = Arc::new(Semaphore::new(0));
    let info = ModelInfo {
        provider: "bench".to_owned(),
        model: "patient".to_owned(),
        price: None,
        max_concurrency: 48,
        timeout: Duration::from_secs(60),
        retry: RetryPolicy::default(),
    };
    let agent = Patient {
        info,
        answers: answers.clone(),
    };
    let lab = Lab {
        agent: Some(Arc::new(agent)),
        ..Lab::default()
    };
    let place = HostUrl::listening("127.0.0.1:0");
    let host = TestHost::lab(database.open().await, HttpSettings::default(), place, lab).await;
    let tasks: Vec<Value> = (0..TASKS)
        .map(|n| json!({"say": format!("answer {n}")}))
        .collect();
    host.equip(&tasks).await;
    host.work();
    let run = host.create().await;
    Some(Waiting {
        host,
        run,
        answers,
        _database: database,
    })
}

/// A network between the browser and the host that can fail.
struct Network {
    address: SocketAddr,
    is_up: watch::Sender<bool>,
}

impl Network {
    async fn to(host: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_up, state) = watch::channel(true);
        tokio::spawn(async move {
            loop {
                let (mut browser, _) = listener.accept().await.unwrap();
                let mut state = state.clone();
                if !*state.borrow_and_update() {
                    continue;
                }
                tokio::spawn(async move {
                    let mut host = TcpStream::connect(host).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut browser, &mut host) => {}
                        _ = state.wait_for(|is_up| !is_up) => {}
                    }
                });
            }
        });
        Self { address, is_up }
    }
}

/// Waits until a text of the page contains this.
async fn shows(browser: &Browser, selector: &str, text: &str) {
    let found = format!("document.querySelector({selector:?})?.textContent.includes({text:?})");
    let shown = async {
        while browser.value(&found).await != true {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    // After a lost connection, the page waits longer before each further attempt.
    if tokio::time::timeout(2 * TOO_LONG, shown).await.is_err() {
        let seen = browser.text("main").await;
        panic!("{selector} does not show {text:?}: {seen}");
    }
}

/// Waits until the host has scored this many tasks.
async fn scored(host: &TestHost, run: &RunId, tasks: usize) {
    loop {
        let report = host
            .get(&format!("/v1/host/touchstone/runs/{run}/report"))
            .await;
        if report.json()["tasks"].as_array().unwrap().len() >= tasks {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_through_a_lost_connection_to_its_verdict(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(waiting) = waiting(engine).await else {
        return;
    };
    let Waiting {
        host, run, answers, ..
    } = &waiting;
    let network = Network::to(host.listen().await).await;
    with_browser(network.address, async |browser| {
        browser.sign_in(&host.key).await;
        browser.open(&format!("/console/runs/{run}")).await;
        shows(browser, "#stream", "Live").await;
        shows(browser, ".verdict h2", "Not finished").await;
        answers.add_permits(3);
        shows(browser, "[data-region=progress]", "3 of 12 tasks").await;
        // The page is the same one: a script's mark stays until it is loaded again.
        browser
            .client
            .execute("window.mark = 1", Vec::new())
            .await
            .unwrap();

        network.is_up.send_replace(false);
        shows(browser, "#stream", "Connection lost").await;
        answers.add_permits(4);
        scored(host, run, 7).await;
        shows(browser, "[data-region=progress]", "3 of 12 tasks").await;
        network.is_up.send_replace(true);
        shows(browser, "[data-region=progress]", "7 of 12 tasks").await;
        shows(browser, "#stream", "Live").await;
        let links = "document.querySelectorAll('[data-region=latest] a').length";
        assert_eq!(browser.value(links).await, 7, "no task is missing");
        assert_eq!(browser.value("window.mark").await, 1);

        answers.add_permits(TASKS);
        // The page of an ended run has no stream.
        shows(browser, "#tasks .pager", "1 to 12 of 12").await;
        shows(browser, ".verdict h2", "Inconclusive").await;
        assert_eq!(browser.value("window.mark === undefined").await, true);
        let rows = browser.value("document.querySelectorAll('#tasks tbody tr').length");
        assert_eq!(rows.await, 12);
        let is_live = browser.value("document.getElementById('stream') !== null");
        assert_eq!(is_live.await, false);
    })
    .await;
}
