//! The work queue: leases, fences, cancel requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rstest::rstest;

use super::{Engine, Engine::*, TTL, at, claimed, events, open, record};
use touchstone::domain::ids::RunId;
use touchstone::ports::{CancelRequest, Claimable, Fence, StoreError};

#[rstest]
#[tokio::test]
async fn the_oldest_free_run_is_claimed_first(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    for id in ["run_b", "run_a", "run_c"] {
        store.create(&record(id, "acme", 1), None).await.unwrap();
    }
    let mut order = Vec::new();
    while let Some(claim) = store
        .claim("worker", Claimable::All, at(0), TTL)
        .await
        .unwrap()
    {
        assert_eq!(*claim.run, record(claim.run.run_id.as_str(), "acme", 1));
        order.push(claim.run.run_id.to_string());
    }
    assert_eq!(order, ["run_b", "run_a", "run_c"]);
}

#[rstest]
#[tokio::test]
async fn a_lease_holds_until_it_is_over(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, first) = claimed(&*store, "run_1").await;
    assert!(
        store
            .claim("other", Claimable::All, at(29), TTL)
            .await
            .unwrap()
            .is_none()
    );
    let second = store
        .claim("other", Claimable::All, at(30), TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(second.run.run_id, run);
    assert!(second.fence > first, "each claim raises the fence");

    // The first owner has lost it for good.
    assert!(
        store
            .renew("worker", &[(run.clone(), first)], at(31), TTL)
            .await
            .unwrap()
            .is_empty()
    );
    let release = store.release(&run, first).await;
    assert!(matches!(release, Err(StoreError::Fenced)));
    assert!(
        store
            .claim("third", Claimable::All, at(59), TTL)
            .await
            .unwrap()
            .is_none()
    );
}

#[rstest]
#[tokio::test]
async fn renewal_extends_what_the_owner_holds(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (held, fence) = claimed(&*store, "run_held").await;
    let (ended, ended_fence) = claimed(&*store, "run_ended").await;
    let end = events(&ended, 1, 1);
    store.append(&ended, ended_fence, &end, true).await.unwrap();
    let other = record("run_other", "acme", 1);
    store.create(&other, None).await.unwrap();
    store
        .claim("other", Claimable::All, at(0), TTL)
        .await
        .unwrap()
        .unwrap();

    let both = [(held.clone(), fence), (ended.clone(), ended_fence)];
    let renewed = store.renew("worker", &both, at(20), TTL).await.unwrap();
    assert_eq!(renewed, [(held.clone(), fence, None)]);
    let claim = store
        .claim("third", Claimable::All, at(49), TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        claim.run.run_id, other.run_id,
        "only the lease that was not renewed is over"
    );
    assert!(
        store
            .claim("third", Claimable::All, at(49), TTL)
            .await
            .unwrap()
            .is_none()
    );
    // A lease that is over is not renewed, even if nobody has taken it yet.
    assert!(
        store
            .renew("worker", &both, at(50), TTL)
            .await
            .unwrap()
            .is_empty()
    );
    let claim = store
        .claim("third", Claimable::All, at(50), TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.run.run_id, held);
}

#[rstest]
#[tokio::test]
async fn a_lease_nobody_works_under_runs_out(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (held, fence) = claimed(&*store, "run_held").await;
    let (orphan, _) = claimed(&*store, "run_orphan").await;
    store
        .renew("worker", &[(held, fence)], at(20), TTL)
        .await
        .unwrap();
    let claim = store
        .claim("worker", Claimable::All, at(31), TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        claim.run.run_id, orphan,
        "the same replica may claim it again"
    );
}

#[rstest]
#[tokio::test]
async fn a_run_to_be_cancelled_can_be_claimed_apart(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    for id in ["run_a", "run_b"] {
        store.create(&record(id, "acme", 1), None).await.unwrap();
    }
    let none = store
        .claim("worker", Claimable::Cancelled, at(0), TTL)
        .await
        .unwrap();
    assert!(none.is_none());
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    assert!(
        store
            .request_cancel(&"run_b".into(), &request)
            .await
            .unwrap()
    );
    let claim = store
        .claim("worker", Claimable::Cancelled, at(0), TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.run.run_id.as_str(), "run_b");
}

#[rstest]
#[tokio::test]
async fn a_released_run_is_free_at_once(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&*store, "run_1").await;
    store.release(&run, fence).await.unwrap();
    let held = [(run.clone(), fence)];
    assert!(
        store
            .renew("worker", &held, at(1), TTL)
            .await
            .unwrap()
            .is_empty()
    );
    let claim = store
        .claim("other", Claimable::All, at(1), TTL)
        .await
        .unwrap()
        .unwrap();
    assert!(claim.fence > fence);
    let late = store.append(&run, fence, &events(&run, 1, 1), false).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
}

#[rstest]
#[tokio::test]
async fn the_first_cancel_request_stands(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&*store, "run_1").await;
    let request = |by: &str| CancelRequest {
        cancelled_by: by.to_owned(),
        reason: Some("už dost 🦀".to_owned()),
    };
    assert_eq!(store.cancel_requested(&run).await.unwrap(), None);
    assert!(store.request_cancel(&run, &request("key_1")).await.unwrap());
    assert!(store.request_cancel(&run, &request("key_2")).await.unwrap());
    let stands = Some(request("key_1"));
    assert_eq!(store.cancel_requested(&run).await.unwrap(), stands);
    let renewed = store
        .renew("worker", &[(run.clone(), fence)], at(1), TTL)
        .await
        .unwrap();
    assert_eq!(renewed, [(run.clone(), fence, stands.clone())]);

    store
        .append(&run, fence, &events(&run, 1, 1), true)
        .await
        .unwrap();
    assert!(!store.request_cancel(&run, &request("key_3")).await.unwrap());
    let unknown = RunId::from("run_unknown");
    assert!(
        !store
            .request_cancel(&unknown, &request("key_1"))
            .await
            .unwrap()
    );
    assert_eq!(store.cancel_requested(&unknown).await.unwrap(), None);
}

/// Two replicas with four workers each race for 200 runs. Each run is claimed, worked on, given back or lost, and claimed
/// again, until it has five events.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_replicas_never_hold_the_same_run(#[values(Sqlite, Postgres)] engine: Engine) {
    const RUNS: usize = 200;
    const LENGTH: u64 = 5;

    open!(engine => database, store);
    for n in 0..RUNS {
        let run = record(&format!("run_{n}"), "acme", 1);
        store.create(&run, None).await.unwrap();
    }
    let replicas = [store, database.open().await];
    let held: Arc<Mutex<HashMap<RunId, Fence>>> = Arc::default();
    let mut workers = Vec::new();
    for n in 0..8 {
        let store = Arc::clone(&replicas[n % 2]);
        let held = Arc::clone(&held);
        workers.push(tokio::spawn(async move {
            let owner = format!("worker_{n}");
            let mut claims = 0;
            while let Some(claim) = store
                .claim(&owner, Claimable::All, at(0), TTL)
                .await
                .unwrap()
            {
                claims += 1;
                let run = claim.run.run_id.clone();
                let other = held.lock().unwrap().insert(run.clone(), claim.fence);
                assert_eq!(other, None, "{run} is held by two at a time");
                let next = claim.head.sequence + 1;
                let ends = next == LENGTH;
                store
                    .append(&run, claim.fence, &events(&run, next, 1), ends)
                    .await
                    .unwrap();
                held.lock().unwrap().remove(&run);
                if !ends {
                    store.release(&run, claim.fence).await.unwrap();
                }
            }
            claims
        }));
    }
    let mut claims = 0;
    for worker in workers {
        claims += worker.await.unwrap();
    }
    // A worker may leave while the last runs are held by others, who finish them.
    assert_eq!(claims, RUNS as u64 * LENGTH);
    for n in 0..RUNS {
        let run = RunId::from(format!("run_{n}"));
        let log = replicas[0].read(&run, 0, 100).await.unwrap();
        assert_eq!(log, events(&run, 1, LENGTH));
    }
}
