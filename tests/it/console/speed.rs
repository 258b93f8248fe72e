//! Size and time of pages with 10,000 runs and a run of 5,000 tasks, and the rows that they read.
//!
//! Times here have a wide margin, because tests run without optimization and side by side.
//! `bench/console` measures them.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, StatusCode};
use flate2::read::GzDecoder;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::support::{Person, Site};
use crate::http::support::host::{AGENT, SUITE, create_body, suite};
use crate::store::Engine::{self, Postgres, Sqlite};
use crate::store::TestStore;

const RUNS: usize = 10_000;
const TASKS: usize = 5000;
/// Largest page as transferred, in bytes.
const LARGEST: usize = 200_000;
/// Without optimization, a page takes many times what it takes in a release build.
const SLOWEST: Duration = Duration::from_secs(2);

/// Every tenth answer is wrong. Answers are as long as those of a help desk.
fn inputs(tasks: usize) -> Vec<Value> {
    let say = |n: usize| match n % 10 {
        9 => "wrong".to_owned(),
        _ => format!("answer {n}: {}", "a sentence that says why. ".repeat(8)),
    };
    (0..tasks).map(|n| json!({ "say": say(n) })).collect()
}

/// Imports a suite and evaluates it once.
async fn evaluated(site: &Site, version: &str, tasks: usize) -> RunId {
    let mut document = suite(&inputs(tasks));
    document["version"] = json!(version);
    let imported = site
        .host
        .post("/v1/host/touchstone/suites", &document)
        .await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@{version}"));
    body["configurable"] = json!({"evalConcurrency": 64});
    body["tags"] = json!(["nightly"]);
    let created = site.host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run: RunId = created.json()["runId"].as_str().unwrap().into();
    loop {
        let path = format!("/v1/runs/{run}/events/poll?lastSequence=10000000&timeout=30");
        if site.host.get(&path).await.json()["isComplete"] == true {
            return run;
        }
    }
}

/// Copies a run many times, over fifty versions of its agent.
async fn copy(database: &TestStore, run: &RunId, copies: usize) {
    const VERSION: &str = "'1.0.' || CAST(i % 50 AS TEXT)";
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {copies})"
    );
    // Ids end with hexadecimal digits, of which `z` is none: no copy has the id of the run.
    let id = "substr(run_id, 1, length(run_id) - 6) || 'z' || substr(CAST(100000 + i AS TEXT), 2)";
    let copied = "FROM run r JOIN run o ON o.run_id = ";
    let replaced = format!("REPLACE($column, '{run}', r.run_id)");
    for sql in [
        format!(
            "INSERT INTO run (run_id, tenant, created_at, head, ended, fence, lease_until, eval_agent,
                eval_version, bytes)
            {numbers} SELECT {id}, tenant, created_at - i * 60000000, head, ended, fence, lease_until,
                eval_agent, {VERSION}, bytes
            FROM run CROSS JOIN n WHERE run_id = '{run}'"
        ),
        format!(
            "INSERT INTO run_record SELECT r.number, REPLACE({}, '\"agentVersion\":\"1.0.0\"',
                '\"agentVersion\":\"' || r.eval_version || '\"')
            {copied}'{run}' JOIN run_record c ON c.run_number = o.number WHERE r.number > o.number",
            replaced.replace("$column", "c.record")
        ),
        format!(
            "INSERT INTO run_summary SELECT r.number, r.tenant, r.run_id, r.created_at, c.kind, c.suite_id,
                c.suite_version, c.agent_id, r.eval_version, c.model, c.status, c.verdict, c.subject, c.result,
                COALESCE(c.decided, c.verdict)
            {copied}'{run}' JOIN run_summary c ON c.run_number = o.number WHERE r.number > o.number"
        ),
        format!(
            "INSERT INTO run_tag SELECT r.number, c.tag
            {copied}'{run}' JOIN run_tag c ON c.run_number = o.number WHERE r.number > o.number"
        ),
        format!(
            "INSERT INTO event SELECT r.number, c.sequence, c.kind, {}
            {copied}'{run}' JOIN event c ON c.run_number = o.number WHERE r.number > o.number",
            replaced.replace("$column", "c.body")
        ),
    ] {
        database.execute(sql).await;
    }
}

/// Transferred size and text of a page, as a browser asks for it.
async fn transferred(person: &mut Person<'_>, path: &str) -> (usize, String) {
    let request = person.request(Method::GET, path);
    let request = request.header("accept-encoding", "gzip");
    let reply = person.ask(request.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
    let mut text = String::new();
    match reply.header("content-encoding") {
        Some("gzip") => GzDecoder::new(&*reply.body)
            .read_to_string(&mut text)
            .unwrap(),
        _ => (&*reply.body).read_to_string(&mut text).unwrap(),
    };
    (reply.body.len(), text)
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_stay_small_and_fast_with_many_runs_and_tasks(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = Site::on(engine).await else {
        return;
    };
    site.host.equip(&inputs(2)).await;
    let worker = site.host.work();
    let small = evaluated(&site, "2.0.0", 1).await;
    // The copies have numbers after that of the first run.
    copy(&site.database, &small, RUNS).await;
    let (large, again) = (
        evaluated(&site, "3.0.0", TASKS).await,
        evaluated(&site, "3.0.1", 10).await,
    );
    worker.cancel();
    let mut person = site.person().await;
    let task = "task-4999";
    let pages = [
        "/console/runs".to_owned(),
        "/console/runs?tag=none".to_owned(),
        "/console/runs?agentVersion=1.0.7&verdict=pass".to_owned(),
        format!("/console/runs/{small}"),
        format!("/console/runs/{large}"),
        format!("/console/runs/{large}?outcome=failed&sort=latency&from=400"),
        format!("/console/runs/{large}?baseline={again}"),
        format!("/console/runs/{large}/tasks/{task}"),
        format!("/console/compare?runs={large}%2C{again}"),
        format!("/console/history?suiteId={SUITE}"),
        "/console/history".to_owned(),
        format!("/console/suites/{SUITE}/flaky"),
        "/console/judges".to_owned(),
        "/console/review".to_owned(),
        format!("/console/suites/{SUITE}/3.0.0"),
        format!("/console/deployments/{AGENT}"),
        "/console/deployments".to_owned(),
        "/console/audit".to_owned(),
        "/console/host".to_owned(),
        "/console/packs".to_owned(),
    ];
    let mut found = Vec::new();
    for path in pages {
        let started = Instant::now();
        transferred(&mut person, &path).await;
        let first = started.elapsed();
        let started = Instant::now();
        let (bytes, text) = transferred(&mut person, &path).await;
        let mut then = started.elapsed();
        // Another test may have had the processor.
        for _ in 0..9 {
            if then <= SLOWEST {
                break;
            }
            let started = Instant::now();
            transferred(&mut person, &path).await;
            then = then.min(started.elapsed());
        }
        let has_chart = text.contains("<figure class=\"history\">");
        assert_eq!(has_chart, path.contains("history?suiteId="), "{path}");
        found.push((path, bytes, text.len(), first, then));
    }
    for (path, bytes, plain, first, then) in &found {
        println!("{path}: {bytes} bytes ({plain}), {first:?}, then {then:?}");
    }
    for (path, bytes, _, _, then) in found {
        assert!(bytes <= LARGEST, "{path} has {bytes} bytes");
        assert!(then <= SLOWEST, "{path} took {then:?}");
    }
}

/// Counts the statements of this thread and the rows they return.
#[derive(Clone, Default)]
struct Statements {
    count: Arc<AtomicU64>,
    rows: Arc<AtomicU64>,
}

impl Visit for &Statements {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "rows_returned" {
            self.count.fetch_add(1, Relaxed);
            self.rows.fetch_add(value, Relaxed);
        }
    }
}

impl<S: Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut &*self);
    }
}

impl Statements {
    /// The statements and rows since the last time.
    fn taken(&self) -> (u64, u64) {
        (self.count.swap(0, Relaxed), self.rows.swap(0, Relaxed))
    }
}

/// Only the driver of PostgreSQL reports its statements on the thread that asks.
#[tokio::test]
async fn pages_of_a_large_run_read_few_rows_once_it_is_folded() {
    let Some(site) = Site::on(Postgres).await else {
        return;
    };
    site.host.equip(&inputs(2)).await;
    let worker = site.host.work();
    let run = evaluated(&site, "2.0.0", 300).await;
    worker.cancel();
    let mut person = site.person().await;
    let statements = Statements::default();
    // While a process has one subscriber alone, a thread without it may switch its events off.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::registry().with(statements.clone());
    let _counting = tracing::subscriber::set_default(subscriber);
    let task = format!("/console/runs/{run}/tasks/task-250");
    // The first page of a run may fold its log.
    transferred(&mut person, &format!("/console/runs/{run}")).await;
    statements.taken();
    for path in [
        format!("/console/runs/{run}"),
        format!("/console/runs/{run}?outcome=failed&sort=score"),
    ] {
        transferred(&mut person, &path).await;
        let (count, rows) = statements.taken();
        println!("{path}: {count} statements, {rows} rows");
        assert!(count > 0, "statements are counted");
        assert!(
            count <= 30 && rows <= 60,
            "{path}: {count} statements, {rows} rows"
        );
    }
    let (_, text) = transferred(&mut person, &task).await;
    assert!(text.contains("answer 250"), "the transcript is there");
    let (count, rows) = statements.taken();
    println!("{task}: {count} statements, {rows} rows");
    // 64 tasks at a time share the log, with about nine events each.
    assert!(
        count <= 30 && rows <= 64 * 9 * 2,
        "{task}: {count} statements, {rows} rows"
    );
}
