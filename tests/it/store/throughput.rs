//! Cost of an event on both engines. A measurement, not a test:
//! `cargo test --release --test it -- --ignored --nocapture throughput`

use std::time::Instant;

use rstest::rstest;
use serde_json::json;

use super::{Engine, Engine::*, claimed, head, open};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_runs::store as run_store;

/// CPU time of this process so far, in microseconds, without PostgreSQL's.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11..13]
        .iter()
        .map(|f| f.parse::<f64>().unwrap())
        .sum();
    ticks * 10_000.0
}

fn realistic(run: &str, first: u64, count: u64) -> Vec<StoredEvent> {
    let event = |sequence: u64| {
        let body = json!({"eventId": format!("evt_0192f7a0a0007abc8def{sequence:012}"), "runId": run,
            "type": "eval.scored", "timestamp": "2026-06-01T12:00:03.120Z", "sequence": sequence, "schemaVersion": 1,
            "engineVersion": "1", "nodeId": format!("task-{sequence}"),
            "causationId": format!("evt_0192f7a0a0007abc8def{:012}", sequence - 1), "payload": {"score": 1,
            "taskId": format!("task-{sequence}"), "passed": true, "costUsd": 0.0021, "latencyMs": 840,
            "schemaValid": true, "safetyFindingCount": 0}});
        StoredEvent {
            sequence,
            kind: "eval.scored".into(),
            body: body.to_string().into(),
        }
    };
    (first..first + count).map(event).collect()
}

#[rstest]
#[ignore = "a measurement; see docs/performance.md"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throughput(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(1, 6, 60, 600, 3_000)] batch: u64,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_0192f7a0a0007abc8def001122334455").await;
    let mut sequence = 0;
    let goals = if batch < 60 {
        vec![60, 6_000]
    } else {
        vec![60, 30_000, 300_000, 600_000]
    };
    for goal in goals {
        let (mut wall, mut cpu, start_at) = (0.0, 0.0, sequence);
        while sequence < goal {
            let count = batch.min(goal - sequence);
            let next = realistic(run.as_str(), sequence + 1, count);
            let (start, before) = (Instant::now(), cpu_us());
            run_store::runs::append(&store, &run, fence, &next, false)
                .await
                .unwrap();
            wall += start.elapsed().as_secs_f64();
            cpu += cpu_us() - before;
            sequence += count;
        }
        let appended = (sequence - start_at) as f64;
        println!(
            "{engine:?} append, batches of {batch}, up to {goal}: {:.0} events/s, {:.2} µs of CPU an event",
            appended / wall,
            cpu / appended
        );
    }
    let (start, before) = (Instant::now(), cpu_us());
    let mut read = 0;
    while read < sequence {
        read += run_store::runs::read(&store, &run, read, 1_000)
            .await
            .unwrap()
            .len() as u64;
    }
    println!(
        "{engine:?} read: {:.0} events/s, {:.2} µs of CPU an event",
        read as f64 / start.elapsed().as_secs_f64(),
        (cpu_us() - before) / read as f64
    );
    let start = Instant::now();
    let last = format!("evt_0192f7a0a0007abc8def{sequence:012}");
    let found = run_store::runs::sequence_of(&store, &run, &last)
        .await
        .unwrap();
    assert_eq!(found, Some(sequence));
    println!(
        "{engine:?} sequence_of the last of {sequence}: {:?}",
        start.elapsed()
    );
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(sequence, false))
    );
}
