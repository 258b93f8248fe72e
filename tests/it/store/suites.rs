//! Suites that are stored as chunks of tasks.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Engine, Engine::*, at, open, tenant};
use touchstone::kinds::{KINDS, PACK_FORMAT};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::TaskId;
use touchstone_kit::json::canonical_text;
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::rules::suite_stream::chunk::Chunk;
use touchstone_packs::rules::suite_stream::reader::SuiteReader;
use touchstone_packs::store::suites::{self, SuiteStream, WholeSuite};
use touchstone_packs::store::{blobs, inventory};
use touchstone_runs::service::library::{Error, Library};
use touchstone_runs::store::storage::{drop_unreferenced, usage};

/// Tasks that fill several chunks.
const TASKS: usize = 1_200;

fn header() -> Value {
    json!({"suiteId": "a.b.evals.c", "version": "1.0.0", "modes": ["golden"],
           "thresholds": {"passScore": 0.25}})
}

fn task(at: usize) -> Value {
    json!({"taskId": format!("item-{at}"), "input": {"text": format!("text {at}")},
           "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "refund"}}})
}

/// Stores the chunks of a suite as an upload, which has not ended.
async fn upload(store: &Database, name: &str) -> (SuiteStream, SuiteRecord) {
    suites::begin(store, name, &tenant("acme"), at(0))
        .await
        .unwrap();
    let mut reader = SuiteReader::new(PACK_FORMAT.read_streamed);
    let mut chunks = Vec::new();
    chunks.extend(reader.line(header().to_string().as_bytes()).unwrap());
    for at in 0..TASKS {
        chunks.extend(reader.line(task(at).to_string().as_bytes()).unwrap());
    }
    let read = reader.finish().unwrap();
    chunks.extend(read.last);
    let mut bytes = 0;
    for (number, chunk) in (0..).zip(&chunks) {
        bytes += chunk.octets.len() as u64;
        suites::add_chunk(store, name, number, chunk).await.unwrap();
    }
    let stream = SuiteStream {
        digest: read.digest.clone(),
        upload: name.to_owned(),
        header: read.text,
        task_count: read.task_count,
        text_bytes: read.bytes,
        bytes,
    };
    let record = SuiteRecord {
        tenant: tenant("acme"),
        suite_id: "a.b.evals.c".to_owned(),
        version: "1.0.0".to_owned(),
        digest: read.digest,
        scoring: None,
        task_count: 1_200,
        pack: None,
        signed: false,
        added_at: at(0),
        bytes: Some(bytes),
    };
    (stream, record)
}

#[rstest]
#[tokio::test]
async fn an_upload_becomes_a_suite_in_one_step(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (stream, record) = upload(&store, "first").await;
    let digest = stream.digest.clone();
    assert_eq!(suites::stream(&store, &digest).await.unwrap(), None);
    let used = usage(&store, &tenant("acme")).await.unwrap();
    assert_eq!((used.suites, used.bytes), (0, stream.bytes));
    suites::finish(&store, &stream, &record).await.unwrap();
    assert_eq!(
        suites::stream(&store, &digest).await.unwrap(),
        Some(stream.clone())
    );
    let used = usage(&store, &tenant("acme")).await.unwrap();
    assert_eq!((used.suites, used.bytes), (1, stream.bytes));
    let mut document = header();
    document["tasks"] = (0..TASKS).map(task).collect();
    let whole = suites::whole(&store, &digest).await.unwrap();
    let WholeSuite::Document(bytes) = whole else {
        panic!("{whole:?}")
    };
    assert_eq!(bytes, canonical_text(&document).as_bytes());

    // The same suite again keeps the first chunks only.
    let (again, record) = upload(&store, "second").await;
    suites::finish(&store, &again, &record).await.unwrap();
    let kept = suites::stream(&store, &digest).await.unwrap().unwrap();
    assert_eq!(kept.upload, "first");
    let of = async |upload| suites::chunk_of(&store, upload, 0).await.unwrap();
    assert_eq!(of("second").await, None);
    // An upload that has ended cannot be discarded.
    suites::discard(&store, "first").await.unwrap();
    assert_eq!(suites::sweep(&store, at(100)).await.unwrap(), 0);
    assert!(of("first").await.is_some());

    drop_unreferenced(&store, &digest).await.unwrap();
    assert!(of("first").await.is_some(), "a tenant has the suite");
    let removed = inventory::remove_suite(&store, &record.tenant, "a.b.evals.c", "1.0.0").await;
    assert!(removed.unwrap());
    drop_unreferenced(&store, &digest).await.unwrap();
    assert_eq!(suites::stream(&store, &digest).await.unwrap(), None);
    assert_eq!(of("first").await, None);
}

#[rstest]
#[tokio::test]
async fn uploads_that_do_not_end_are_swept(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (stream, record) = upload(&store, "first").await;
    let other = SuiteRecord {
        digest: "sha256-other".to_owned(),
        ..record.clone()
    };
    inventory::add_suite(&store, &other).await.unwrap();
    let refused = suites::finish(&store, &stream, &record).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    assert_eq!(suites::sweep(&store, at(0)).await.unwrap(), 0);
    assert_eq!(suites::sweep(&store, at(1)).await.unwrap(), 1);
    assert_eq!(suites::chunk_of(&store, "first", 0).await.unwrap(), None);
    assert_eq!(suites::stream(&store, &stream.digest).await.unwrap(), None);
}

#[rstest]
#[tokio::test]
async fn tasks_are_read_from_chunks_that_were_not_changed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (stream, record) = upload(&store, "first").await;
    suites::finish(&store, &stream, &record).await.unwrap();
    let library = Library::new(store.clone(), KINDS);
    let suite = library.suite_index(&stream.digest).await.unwrap().unwrap();
    assert_eq!(suite.task_count, TASKS);
    assert_eq!(suite.thresholds().pass_score, Some(0.25));
    for at in [0, 1, 400, 700, TASKS - 1] {
        let expected = task(at);
        let id = TaskId::from(expected["taskId"].as_str().unwrap());
        let found = library.task(&suite, &id).await.unwrap().unwrap();
        assert_eq!(json!(found), expected);
        let found = library.task_at(&suite, at).await.unwrap().unwrap();
        assert_eq!(json!(found), expected);
    }
    let none = library.task(&suite, &TaskId::from("item-9999")).await;
    assert_eq!(none.unwrap(), None);
    assert_eq!(library.task_at(&suite, TASKS).await.unwrap(), None);

    // Another valid chunk in the place of the last one.
    let last = suite.chunk_count() - 1;
    query("UPDATE suite_chunk SET octets = (SELECT octets FROM suite_chunk WHERE upload = 'first' AND chunk = 0)
        WHERE upload = 'first' AND chunk = $1")
        .bind(i64::try_from(last).unwrap())
        .execute(store.writer().unwrap())
        .await
        .unwrap();
    let changed = library.chunk(&suite, last).await;
    assert!(matches!(changed, Err(Error::Damaged { .. })), "{changed:?}");
    let opened = Library::new(store, KINDS).suite_index(&stream.digest).await;
    assert!(matches!(opened, Err(Error::Damaged { .. })), "{opened:?}");
}

/// Removes the suite from its tenant, with its tasks.
async fn remove(store: &Database, record: &SuiteRecord) {
    let (id, version) = (&record.suite_id, &record.version);
    let removed = inventory::remove_suite(store, &record.tenant, id, version).await;
    assert!(removed.unwrap());
    drop_unreferenced(store, &record.digest).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn an_upload_that_was_swept_does_not_become_a_suite(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (stream, record) = upload(&store, "first").await;
    assert_eq!(suites::sweep(&store, at(1)).await.unwrap(), 1);
    let chunk = Chunk {
        tasks: 1,
        digest: [0; 32],
        octets: vec![1],
    };
    let added = suites::add_chunk(&store, "first", 9, &chunk).await;
    assert!(matches!(added, Err(StoreError::Stale)), "{added:?}");
    let finished = suites::finish(&store, &stream, &record).await;
    assert!(matches!(finished, Err(StoreError::Stale)), "{finished:?}");
    let listed = inventory::suites(&store, &record.tenant).await.unwrap();
    assert_eq!(listed, []);
    assert_eq!(suites::stream(&store, &stream.digest).await.unwrap(), None);
    assert_eq!(suites::chunk_of(&store, "first", 9).await.unwrap(), None);
}

#[rstest]
#[tokio::test]
async fn a_suite_counts_with_what_its_tenant_stored(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let used = async |name| usage(&store, &tenant(name)).await.unwrap().bytes;
    let (stream, record) = upload(&store, "first").await;
    suites::finish(&store, &stream, &record).await.unwrap();
    // Another tenant imports the same suite as one document, and a third one with an earlier version.
    let document = vec![b'x'; 5_000];
    blobs::put(&store, &stream.digest, &document).await.unwrap();
    for (name, bytes) in [("globex", Some(5_000)), ("initech", None)] {
        let record = SuiteRecord {
            tenant: tenant(name),
            bytes,
            ..record.clone()
        };
        inventory::add_suite(&store, &record).await.unwrap();
    }
    assert_eq!(used("acme").await, stream.bytes);
    assert_eq!(used("globex").await, 5_000);
    assert_eq!(used("initech").await, 5_000);
    // The same document in a pack counts once.
    let of_pack = SuiteRecord {
        tenant: tenant("globex"),
        pack: Some("acme.triage@1.0.0".to_owned()),
        bytes: Some(5_000),
        ..record
    };
    inventory::add_suite(&store, &of_pack).await.unwrap();
    assert_eq!(used("globex").await, 5_000);
}

#[rstest]
#[tokio::test]
async fn a_suite_that_is_imported_again_is_read_again(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let library = Library::new(store.clone(), KINDS);
    let (stream, record) = upload(&store, "first").await;
    suites::finish(&store, &stream, &record).await.unwrap();
    let first = library.suite_index(&stream.digest).await.unwrap().unwrap();
    let id = TaskId::from("item-700");

    // As lines again.
    remove(&store, &record).await;
    let (again, record) = upload(&store, "second").await;
    suites::finish(&store, &again, &record).await.unwrap();
    for suite in [
        first.clone(),
        library.suite_index(&stream.digest).await.unwrap().unwrap(),
    ] {
        let chunk = library.chunk(&suite, 1).await.unwrap();
        assert!(!chunk.is_empty());
    }
    let second = library.suite_index(&stream.digest).await.unwrap().unwrap();

    // As one document.
    remove(&store, &record).await;
    let mut document = header();
    document["tasks"] = (0..TASKS).map(task).collect();
    let text = canonical_text(&document);
    blobs::put(&store, &stream.digest, text.as_bytes())
        .await
        .unwrap();
    inventory::add_suite(&store, &record).await.unwrap();
    for suite in [first, second.clone()] {
        let found = library.task(&suite, &id).await.unwrap().unwrap();
        assert_eq!(json!(found), task(700));
        library.chunk(&suite, 2).await.unwrap();
    }

    // A suite that is gone is not found in the cache.
    let other = Library::new(store.clone(), KINDS);
    remove(&store, &record).await;
    assert!(other.suite_index(&stream.digest).await.unwrap().is_none());
}

#[rstest]
#[tokio::test]
async fn an_import_that_races_with_a_removal_keeps_its_tasks(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (first, record) = upload(&store, "upload-0").await;
    suites::finish(&store, &first, &record).await.unwrap();
    for round in 1..10 {
        let name = format!("upload-{round}");
        let (stream, record) = upload(&store, &name).await;
        let (id, version) = (&record.suite_id, &record.version);
        let removed = inventory::remove_suite(&store, &record.tenant, id, version).await;
        assert!(removed.unwrap());
        let finishing = suites::finish(&store, &stream, &record);
        let releasing = drop_unreferenced(&store, &record.digest);
        let (finished, released) = tokio::join!(finishing, releasing);
        finished.unwrap();
        released.unwrap();
        // Everything of the suite is there, from one of the uploads.
        let whole = suites::whole(&store, &record.digest).await.unwrap();
        assert!(matches!(whole, WholeSuite::Document(_)), "{whole:?}");
    }
}
