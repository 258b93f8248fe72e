//! Annotations, which are stored outside the log.

use std::sync::Arc;

use rstest::rstest;
use tokio::time::timeout;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::annotation::{
    Actor, Annotation, AnnotationSignal, AnnotationTarget, SignalKind,
};
use touchstone_runs::ports::annotations::{Annotated, AnnotationLimits};
use touchstone_runs::store as run_store;

use crate::store::{Engine, Engine::*, TOO_LONG, at, open, record, tenant};

fn annotation(run: &RunId, id: &str) -> Annotation {
    Annotation {
        annotation_id: id.to_owned(),
        target: AnnotationTarget {
            run_id: run.clone(),
            event_id: None,
            node_id: None,
        },
        signal: AnnotationSignal {
            kind: SignalKind::Flag,
            rating: None,
            correction: None,
            label: None,
        },
        actor: Actor {
            principal_ref: "key_1".to_owned(),
        },
        note: Some("ž🦀".to_owned()),
        created_at: at(1),
    }
}

const AMPLE: AnnotationLimits = AnnotationLimits {
    count: 100,
    bytes: 100_000,
};

/// Size of these annotations in bytes, not characters.
fn bytes_of(run: &RunId, ids: &[&str]) -> u32 {
    let written = |id: &&str| serde_json::to_string(&annotation(run, id)).unwrap().len();
    u32::try_from(ids.iter().map(written).sum::<usize>()).unwrap()
}

async fn add(
    store: &Database,
    owner: &str,
    run: &RunId,
    id: &str,
    limits: AnnotationLimits,
) -> Result<Annotated, StoreError> {
    let decision = Decision {
        at: at(1),
        principal: "key_1".to_owned(),
        action: "runs:annotate".to_owned(),
        resource: id.to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: Some(run.clone()),
    };
    let task = TaskId::from("task-0");
    run_store::annotations::add(
        store,
        &tenant(owner),
        Some(&task),
        &annotation(run, id),
        &decision,
        limits,
        None,
    )
    .await
}

#[rstest]
#[tokio::test]
async fn annotations_are_numbered_per_run_and_listed_after_a_number(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    for run in ["run_1", "run_2"] {
        run_store::runs::create(&store, &record(run, "acme", 1), None)
            .await
            .unwrap();
    }
    let (first, second) = (RunId::from("run_1"), RunId::from("run_2"));
    for (run, id) in [(&first, "a"), (&second, "b"), (&first, "c")] {
        let added = add(store.as_ref(), "acme", run, id, AMPLE).await.unwrap();
        assert_eq!(added, Annotated::Recorded);
    }
    let found = run_store::annotations::list(&store, &first, 0)
        .await
        .unwrap();
    let numbers: Vec<u64> = found.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(found[0].annotation, annotation(&first, "a"));
    assert_eq!(found[0].task, Some("task-0".into()));
    assert_eq!(
        run_store::annotations::list(&store, &first, 1)
            .await
            .unwrap(),
        found[1..]
    );
    let unknown = TaskId::from("task-9");
    for (tasks, expected) in [
        (vec![&"task-0".into(), &unknown], &found[..]),
        (vec![&unknown], &[]),
        (vec![], &[]),
    ] {
        let of_tasks = run_store::annotations::of_tasks(&store, &first, &tasks).await;
        assert_eq!(of_tasks.unwrap(), expected);
    }
    assert_eq!(
        run_store::annotations::last_number(&store, &first)
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        run_store::annotations::last_number(&store, &"run_3".into())
            .await
            .unwrap(),
        0
    );
    assert_eq!(store.audit_head(&tenant("acme")).await.unwrap().sequence, 3);

    // An annotation beyond the count limit, one beyond the size limit, and another tenant's leave
    // no trace, not even in the audit log.
    let two = AnnotationLimits { count: 2, ..AMPLE };
    let added = add(store.as_ref(), "acme", &first, "d", two).await.unwrap();
    assert_eq!(added, Annotated::TooMany);
    let bytes = bytes_of(&first, &["a", "c", "d"]);
    let short = AnnotationLimits {
        bytes: bytes - 1,
        ..AMPLE
    };
    let added = add(store.as_ref(), "acme", &first, "d", short).await;
    assert_eq!(added.unwrap(), Annotated::TooLong);
    assert!(
        add(store.as_ref(), "globex", &first, "e", AMPLE)
            .await
            .is_err()
    );
    assert_eq!(
        run_store::annotations::list(&store, &first, 0)
            .await
            .unwrap(),
        found
    );
    assert_eq!(store.audit_head(&tenant("acme")).await.unwrap().sequence, 3);
    assert_eq!(
        store.audit_head(&tenant("globex")).await.unwrap().sequence,
        0
    );
    let just = AnnotationLimits { bytes, ..AMPLE };
    let added = add(store.as_ref(), "acme", &first, "d", just).await;
    assert_eq!(added.unwrap(), Annotated::Recorded);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_annotations_are_kept_with_distinct_numbers(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    run_store::runs::create(&store, &record("run_1", "acme", 1), None)
        .await
        .unwrap();
    let replicas = [store, database.open().await];
    let many = (0..16).map(|n| {
        let store = Arc::clone(&replicas[n % 2]);
        tokio::spawn(async move {
            add(
                store.as_ref(),
                "acme",
                &"run_1".into(),
                &format!("a{n}"),
                AMPLE,
            )
            .await
            .unwrap()
        })
    });
    for one in many.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), Annotated::Recorded);
    }
    let found = run_store::annotations::list(&replicas[0], &"run_1".into(), 0)
        .await
        .unwrap();
    let numbers: Vec<u64> = found.iter().map(|record| record.number).collect();
    assert_eq!(numbers, (1..=16).collect::<Vec<_>>());
}

#[rstest]
#[tokio::test]
async fn annotation_subscribers_are_notified_on_every_replica(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let mut listeners = vec![run_store::annotations::subscribe(&store)];
    let other = database.open().await;
    if engine == Postgres {
        listeners.push(run_store::annotations::subscribe(&other));
    }
    run_store::annotations::notify(&store, &"run_1".into()).await;
    for listener in &mut listeners {
        let told = timeout(TOO_LONG, listener.recv()).await.unwrap().unwrap();
        assert_eq!(told, Some("run_1".into()));
    }
}
