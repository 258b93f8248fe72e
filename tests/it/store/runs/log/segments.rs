//! Compressed logs.

use rstest::rstest;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::storage::{ContentKept, Retained};
use touchstone_runs::store as run_store;

use crate::store::runs::storage::{decision, delete};
use crate::store::{Engine, Engine::*, TestStore, at, claimed, events, open, record, tenant};

/// More than two segments.
const EVENTS: u64 = 600;

/// A run with a long log, and its number.
async fn ended(store: &Database, id: &str) -> (RunId, i64, Vec<StoredEvent>) {
    let (run, fence) = claimed(store, id).await;
    let mut log = events(&run, 1, EVENTS);
    for event in log.iter_mut().step_by(7) {
        event.kind = "agent.decided".into();
    }
    run_store::runs::append(store, &run, fence, &log, true)
        .await
        .unwrap();
    let due = run_store::segments::compressible(store, at(1_000), 0, 100);
    let number = *due.await.unwrap().last().unwrap();
    (run, number, log)
}

async fn compress(store: &Database, number: i64) -> usize {
    let mut segments = 0;
    while run_store::segments::compress_next(store, number)
        .await
        .unwrap()
    {
        segments += 1;
    }
    segments
}

async fn read(store: &Database, run: &RunId, after: u64, limit: u32) -> Vec<StoredEvent> {
    run_store::runs::read(store, run, after, limit)
        .await
        .unwrap()
}

async fn rows(database: &TestStore) -> Vec<u8> {
    database
        .bytes(match database {
            TestStore::Sqlite(_) => "SELECT CAST(COUNT(*) AS BLOB) FROM event",
            TestStore::Postgres(_) => "SELECT CAST(CAST(COUNT(*) AS TEXT) AS BYTEA) FROM event",
        })
        .await
}

#[rstest]
#[tokio::test]
async fn a_compressed_log_reads_as_before(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, number, log) = ended(&store, "run_a").await;
    let used = async || {
        let usage = run_store::storage::usage(&store, &tenant("acme")).await;
        usage.unwrap().bytes
    };
    let verdicts = async |after, limit| {
        run_store::attempts::verdicts(&store, &run, after, limit)
            .await
            .unwrap()
    };
    let (before, judged) = (used().await, verdicts(0, 1_000).await);
    assert!(!judged.is_empty() && judged.len() < log.len());
    assert!(
        run_store::segments::compress_next(&store, number)
            .await
            .unwrap()
    );
    // The first part is compressed, then all of it.
    for segments in [2, 0] {
        assert_eq!(read(&store, &run, 0, 1_000).await, log);
        for (after, limit) in [(0, 1), (0, 300), (255, 2), (256, 10), (300, 250), (599, 5)] {
            let from = usize::try_from(after).unwrap();
            let upto = log.len().min(from + usize::try_from(limit).unwrap());
            assert_eq!(read(&store, &run, after, limit).await, log[from..upto]);
        }
        assert_eq!(read(&store, &run, EVENTS, 10).await, []);
        assert_eq!(verdicts(0, 1_000).await, judged);
        assert_eq!(verdicts(judged[4].sequence, 3).await, judged[5..8]);
        assert_eq!(verdicts(EVENTS, 3).await, []);
        for sequence in [1, 256, 257, EVENTS] {
            let id = format!("evt_{run}_{sequence}");
            let found = run_store::runs::sequence_of(&store, &run, &id).await;
            assert_eq!(found.unwrap(), Some(sequence));
        }
        let other = run_store::runs::sequence_of(&store, &run, "evt_other_1").await;
        assert_eq!(other.unwrap(), None);
        assert_eq!(compress(&store, number).await, segments);
    }
    assert_eq!(rows(&database).await, b"0");
    assert!(used().await * 3 < before, "{} of {before}", used().await);
    let due = run_store::segments::compressible(&store, at(1_000), 0, 100).await;
    assert_eq!(due.unwrap(), Vec::<i64>::new());
}

#[rstest]
#[tokio::test]
async fn an_event_of_another_place_is_found_in_a_compressed_log(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_a").await;
    let mut log = events(&run, 1, 400);
    // Copied from another log.
    log[299].body = r#"{"eventId":"evt_source_7"}"#.into();
    run_store::runs::append(&store, &run, fence, &log, true)
        .await
        .unwrap();
    let due = run_store::segments::compressible(&store, at(1_000), 0, 100).await;
    assert_eq!(compress(&store, due.unwrap()[0]).await, 2);
    let found = run_store::runs::sequence_of(&store, &run, "evt_source_7").await;
    assert_eq!(found.unwrap(), Some(300));
}

#[rstest]
#[tokio::test]
async fn large_events_are_compressed_a_few_at_a_time(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_a").await;
    let mut log = events(&run, 1, 40);
    for event in &mut log {
        event.body = format!("\"{}\"", "x".repeat(400_000)).into();
    }
    for (part, ends) in [(&log[..20], false), (&log[20..], true)] {
        run_store::runs::append(&store, &run, fence, part, ends)
            .await
            .unwrap();
    }
    let plain = read(&store, &run, 3, 100).await;
    let due = run_store::segments::compressible(&store, at(1_000), 0, 100).await;
    assert_eq!(compress(&store, due.unwrap()[0]).await, 14);
    let page = read(&store, &run, 3, 100).await;
    assert_eq!(page, plain, "a page ends at the same number of bytes");
    assert!(page.len() < 20);
}

#[rstest]
#[tokio::test]
async fn runs_in_progress_and_those_that_webhooks_follow_are_not_compressed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_a").await;
    let log = events(&run, 1, 3);
    run_store::runs::append(&store, &run, fence, &log[..2], false)
        .await
        .unwrap();
    let due = async || {
        run_store::segments::compressible(&store, at(1_000), 0, 100)
            .await
            .unwrap()
    };
    assert_eq!(due().await, Vec::<i64>::new());
    run_store::runs::append(&store, &run, fence, &log[2..], true)
        .await
        .unwrap();
    let number = due().await[0];
    assert_eq!(
        run_store::segments::compressible(&store, at(-1_000), 0, 100)
            .await
            .unwrap(),
        Vec::<i64>::new(),
        "it is too young"
    );
    database
        .execute(
            "INSERT INTO webhook (id, tenant, settings, secret, created_at, circuit, sealed)
             VALUES ('wh_1', 'acme', '{}', 's', 0, '{}', TRUE)"
                .to_owned(),
        )
        .await;
    database
        .execute(format!(
            "INSERT INTO webhook_run (webhook_number, run_number, sequence)
             SELECT number, {number}, 0 FROM webhook"
        ))
        .await;
    assert_eq!(due().await, Vec::<i64>::new());
    assert_eq!(compress(&store, number).await, 0);
    database.execute("DELETE FROM webhook_run".to_owned()).await;
    assert_eq!(compress(&store, number).await, 1);
}

#[rstest]
#[tokio::test]
async fn compressed_content_is_masked(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(1, 3)] segments: usize,
) {
    open!(engine => _database, store);
    let (run, number, mut log) = ended(&store, "run_a").await;
    for _ in 0..segments {
        run_store::segments::compress_next(&store, number)
            .await
            .unwrap();
    }
    let record = record("run_a", "acme", 1);
    let decision = decision(&run);
    let marked = run_store::storage::drop_content(&store, &record, ContentKept::None, &decision);
    assert!(marked.await.unwrap());
    assert_eq!(
        compress(&store, number).await,
        0,
        "not while it is being masked"
    );
    let masked: Vec<StoredEvent> = [2, 100, 255, 256, 400, 599]
        .into_iter()
        .map(|at: usize| {
            log[at].body = "{}".into();
            log[at].clone()
        })
        .collect();
    let (first, second) = masked.split_at(4);
    run_store::storage::mask_events(&store, &run, first, 257, false)
        .await
        .unwrap();
    run_store::storage::mask_events(&store, &run, second, EVENTS, true)
        .await
        .unwrap();
    assert_eq!(read(&store, &run, 0, 1_000).await, log);
    assert_eq!(compress(&store, number).await, 3 - segments);
    assert_eq!(read(&store, &run, 0, 1_000).await, log);
}

#[rstest]
#[tokio::test]
async fn a_deleted_run_leaves_no_segment(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, number, _) = ended(&store, "run_a").await;
    assert_eq!(compress(&store, number).await, 3);
    delete(&store, "acme", &run, &Retained::Nothing).await;
    assert_eq!(read(&store, &run, 0, 10).await, []);
    let usage = run_store::storage::usage(&store, &tenant("acme")).await;
    assert_eq!(usage.unwrap().bytes, 0);
}

#[rstest]
#[tokio::test]
async fn a_damaged_segment_loses_its_own_events_and_no_verdict_unnoticed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, number, mut log) = ended(&store, "run_a").await;
    assert_eq!(compress(&store, number).await, 3);
    let damaged = match database {
        TestStore::Sqlite(_) => "X'00'",
        TestStore::Postgres(_) => "'\\x00'",
    };
    database
        .execute(format!(
            "UPDATE log_segment SET octets = {damaged} WHERE last_sequence = 512"
        ))
        .await;
    for event in &mut log[256..512] {
        event.kind = "unreadable".into();
        event.body = "{}".into();
    }
    assert_eq!(read(&store, &run, 0, 1_000).await, log);
    let verdicts = run_store::attempts::verdicts(&store, &run, 0, 1_000).await;
    assert!(verdicts.is_err());
}
