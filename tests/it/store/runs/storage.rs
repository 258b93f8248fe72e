//! Usage, deletion and legal holds of runs.

use rstest::rstest;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::store as pack_store;
use touchstone_runs::ports::storage::{Retained, RunDeletion};
use touchstone_runs::storage::{LegalHold, Usage};
use touchstone_runs::store as run_store;

use crate::store::{Engine, Engine::*, at, claimed, events, head, open, record, tenant};

pub(super) fn decision(run: &RunId) -> Decision {
    Decision {
        at: at(9),
        principal: "key_1".to_owned(),
        action: "runs:delete".to_owned(),
        resource: run.to_string(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: Some(run.clone()),
    }
}

async fn ended(store: &Database, id: &str) -> RunId {
    let (run, fence) = claimed(store, id).await;
    let log = events(&run, 1, 3);
    run_store::runs::append(store, &run, fence, &log[..2], false)
        .await
        .unwrap();
    run_store::runs::append(store, &run, fence, &log[2..], true)
        .await
        .unwrap();
    run
}

pub(super) async fn delete(
    store: &Database,
    owner: &str,
    run: &RunId,
    retained: &Retained,
) -> RunDeletion {
    run_store::storage::delete_run(store, &tenant(owner), run, retained, &decision(run))
        .await
        .unwrap()
}

fn record_bytes(run: &RunId) -> usize {
    let record = record(run.as_str(), "acme", 1);
    serde_json::to_string(&record).unwrap().len()
}

#[rstest]
#[tokio::test]
async fn usage_counts_a_run_that_has_not_started(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let mut run = record("run_a", "acme", 1);
    let long = "x".repeat(100_000);
    run.spec.inputs = serde_json::Map::from_iter([("text".to_owned(), long.into())]);
    run_store::runs::create(&store, &run, None).await.unwrap();
    let used = run_store::storage::usage(&store, &tenant("acme"))
        .await
        .unwrap();
    assert_eq!(used.runs, 1);
    assert!(used.bytes > 100_000, "{used:?}");
}

#[rstest]
#[tokio::test]
async fn usage_counts_bytes_of_logs_and_of_what_is_installed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    assert_eq!(
        run_store::storage::usage(&store, &tenant("acme"))
            .await
            .unwrap(),
        Usage::default()
    );
    let run = ended(store.as_ref(), "run_a").await;
    let log: usize = events(&run, 1, 3)
        .iter()
        .map(|event| event.body.len())
        .sum();
    pack_store::blobs::put(&store, "sha256-s", b"0123456789")
        .await
        .unwrap();
    let suite = SuiteRecord {
        tenant: tenant("acme"),
        suite_id: "s".to_owned(),
        version: "1.0.0".to_owned(),
        digest: "sha256-s".to_owned(),
        scoring: None,
        task_count: 1,
        pack: None,
        signed: false,
        added_at: at(0),
        bytes: None,
    };
    pack_store::inventory::add_suite(&store, &suite)
        .await
        .unwrap();
    let expected = Usage {
        packs: 0,
        suites: 1,
        runs: 1,
        bytes: u64::try_from(log + record_bytes(&run)).unwrap() + 10,
    };
    assert_eq!(
        run_store::storage::usage(&store, &tenant("acme"))
            .await
            .unwrap(),
        expected
    );
    assert_eq!(
        run_store::storage::usage(&store, &tenant("globex"))
            .await
            .unwrap(),
        Usage::default()
    );
}

#[rstest]
#[tokio::test]
async fn a_deleted_run_is_gone_with_its_log_and_the_deletion_is_audited(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let run = ended(store.as_ref(), "run_a").await;
    assert_eq!(
        delete(store.as_ref(), "globex", &run, &Retained::Nothing).await,
        RunDeletion::NotFound
    );
    assert_eq!(
        delete(store.as_ref(), "acme", &run, &Retained::Nothing).await,
        RunDeletion::Deleted
    );
    assert_eq!(
        run_store::runs::find(&store, &tenant("acme"), &run)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        []
    );
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        None
    );
    assert!(database.runs("acme").await.is_empty());
    assert_eq!(
        delete(store.as_ref(), "acme", &run, &Retained::Nothing).await,
        RunDeletion::NotFound
    );
    let entries = store.audit_entries(&tenant("acme"), 0, 10).await.unwrap();
    assert_eq!(entries.len(), 1, "refusals are not decisions");
    assert!(entries[0].body.contains("runs:delete"), "{entries:?}");
}

#[rstest]
#[tokio::test]
async fn what_remains_of_an_attempt_is_masked_in_pages(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let run = ended(store.as_ref(), "run_a").await;
    let retained = Retained::Attempt(Box::new(record("run_a", "acme", 1)));
    assert_eq!(
        delete(store.as_ref(), "acme", &run, &retained).await,
        RunDeletion::Deleted
    );
    assert_eq!(
        run_store::runs::find(&store, &tenant("acme"), &run)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        run_store::storage::usage(&store, &tenant("acme"))
            .await
            .unwrap()
            .runs,
        0
    );
    let unmasked = run_store::storage::next_unmasked(&store)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&unmasked.record.run_id, unmasked.masked_to), (&run, 0));
    let mut log = run_store::runs::read(&store, &run, 0, 10).await.unwrap();
    log[1].body = "{}".into();
    run_store::storage::mask_events(&store, &run, &log[1..2], 2, false)
        .await
        .unwrap();
    assert_eq!(
        run_store::storage::next_unmasked(&store)
            .await
            .unwrap()
            .unwrap()
            .masked_to,
        2
    );
    run_store::storage::mask_events(&store, &run, &[], 3, true)
        .await
        .unwrap();
    assert!(
        run_store::storage::next_unmasked(&store)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        log
    );
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(3, true))
    );
    assert_eq!(database.runs("acme").await.len(), 1);
    let bytes: usize = log.iter().map(|event| event.body.len()).sum();
    let used = run_store::storage::usage(&store, &tenant("acme"))
        .await
        .unwrap();
    assert_eq!(used.bytes, u64::try_from(bytes).unwrap());
}

#[rstest]
#[tokio::test]
async fn a_run_in_progress_or_under_a_hold_is_not_deleted(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let run = ended(store.as_ref(), "run_a").await;
    let (open, _) = claimed(store.as_ref(), "run_b").await;
    let nothing = Retained::Nothing;
    assert_eq!(
        delete(store.as_ref(), "acme", &open, &nothing).await,
        RunDeletion::InProgress
    );
    let hold = LegalHold {
        placed_by: "key_1".to_owned(),
        placed_at: at(5),
        reason: "case 17".to_owned(),
    };
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let place = |owner, hold| {
        let (store, run) = (store.clone(), run.clone());
        async move {
            let decided = decision(&run);
            run_store::storage::hold_run(&store, owner, &run, hold, &decided)
                .await
                .unwrap()
        }
    };
    assert!(!place(&globex, Some(&hold)).await);
    assert!(place(&acme, Some(&hold)).await);
    assert_eq!(
        run_store::storage::legal_hold(&store, &acme, &run)
            .await
            .unwrap()
            .as_ref(),
        Some(&hold)
    );
    assert_eq!(
        run_store::storage::legal_hold(&store, &globex, &run)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        delete(store.as_ref(), "acme", &run, &nothing).await,
        RunDeletion::Held
    );
    assert!(
        run_store::storage::deletable_runs(&store, at(9), 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(place(&acme, None).await);
    let due = run_store::storage::deletable_runs(&store, at(9), 0, 10)
        .await
        .unwrap();
    assert_eq!(due.len(), 1, "only the run that has ended");
    assert!(
        run_store::storage::deletable_runs(&store, at(9), due[0].0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        run_store::storage::deletable_runs(&store, at(0), 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        delete(store.as_ref(), "acme", &run, &nothing).await,
        RunDeletion::Deleted
    );
}

#[rstest]
#[tokio::test]
async fn unreferenced_blobs_are_deleted(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    for digest in ["sha256-suite", "sha256-alone"] {
        pack_store::blobs::put(&store, digest, b"x").await.unwrap();
    }
    // The record of this run names `sha256-suite`.
    ended(store.as_ref(), "run_a").await;
    for digest in ["sha256-suite", "sha256-alone", "sha256-never-there"] {
        run_store::storage::drop_unreferenced(&store, digest)
            .await
            .unwrap();
    }
    assert!(
        pack_store::blobs::get(&store, "sha256-suite")
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        pack_store::blobs::get(&store, "sha256-alone")
            .await
            .unwrap()
            .is_none()
    );
}
