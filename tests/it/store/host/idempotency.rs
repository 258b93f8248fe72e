//! Idempotency records: the result for a repeated request.

use std::time::Duration;

use rstest::rstest;

use crate::store::{Engine, Engine::*, at, open, record, tenant};
use touchstone_host::ports::idempotency::IdempotencyBegin::*;
use touchstone_host::ports::idempotency::{
    IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion,
};
use touchstone_host::ports::store::StoreError;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::store as run_store;

const LEASE: Duration = Duration::from_secs(10);

fn claim(key: u8, body: u8, owner: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        tenant: "acme".into(),
        endpoint: "POST /v1/runs".to_owned(),
        key_hash: [key; 32],
        digest: [body; 32],
        owner: owner.to_owned(),
    }
}

fn answer(claim: &IdempotencyClaim) -> IdempotencyCompletion {
    IdempotencyCompletion {
        claim: claim.clone(),
        status: 201,
        body: "{\"runId\":\"ž🦀\"}".into(),
    }
}

fn is_in_flight(begin: &IdempotencyBegin) -> bool {
    matches!(begin, InFlight { .. })
}

fn replay() -> IdempotencyBegin {
    Replay {
        status: 201,
        body: "{\"runId\":\"ž🦀\"}".into(),
    }
}

#[rstest]
#[tokio::test]
async fn a_completed_request_is_replayed_for_the_same_body_only(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let first = claim(1, 1, "a");
    assert_eq!(store.begin(&first, at(0), LEASE).await.unwrap(), Fresh);
    store.complete(&answer(&first)).await.unwrap();
    // Long after the lease, too.
    for now in [1, 100_000] {
        let same = store.begin(&claim(1, 1, "b"), at(now), LEASE).await;
        assert_eq!(same.unwrap(), replay());
        let other = store.begin(&claim(1, 2, "b"), at(now), LEASE).await;
        assert_eq!(other.unwrap(), Mismatch);
    }
    // A different key, tenant or endpoint is a different request.
    let mut foreign = claim(1, 1, "b");
    foreign.tenant = tenant("globex");
    let mut elsewhere = claim(1, 1, "b");
    elsewhere.endpoint = "POST /v1/runs/x:cancel".to_owned();
    for other in [claim(2, 1, "b"), foreign, elsewhere] {
        assert_eq!(store.begin(&other, at(1), LEASE).await.unwrap(), Fresh);
    }
}

#[rstest]
#[tokio::test]
async fn one_request_runs_at_a_time(#[values(Sqlite, Postgres)] engine: Engine) {
    // Leases also run while the test works.
    const LEASE: Duration = Duration::from_secs(100);

    open!(engine => database, store);
    let first = claim(1, 1, "a");
    assert_eq!(store.begin(&first, at(0), LEASE).await.unwrap(), Fresh);
    let second = claim(1, 1, "b");
    database.pass(40).await;
    let waiting = store.begin(&second, at(40), LEASE).await.unwrap();
    let InFlight { left } = waiting else {
        panic!("{waiting:?}");
    };
    assert!(
        left <= Duration::from_secs(60) && left > Duration::from_secs(10),
        "{left:?}"
    );
    // The first worker sends a heartbeat.
    store.extend(&first, LEASE).await.unwrap();
    database.pass(60).await;
    assert!(is_in_flight(
        &store.begin(&second, at(100), LEASE).await.unwrap()
    ));
    let other_body = store.begin(&claim(1, 2, "c"), at(100), LEASE).await;
    assert_eq!(other_body.unwrap(), Mismatch);

    // The lease has expired: one process takes it over, the previous owner can no longer answer,
    // and its release frees nothing.
    database.pass(40).await;
    assert_eq!(store.begin(&second, at(140), LEASE).await.unwrap(), Fresh);
    let late = store.extend(&first, LEASE).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    let late = store.complete(&answer(&first)).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    store.abandon(&first).await.unwrap();
    let third = store.begin(&claim(1, 1, "c"), at(150), LEASE).await;
    assert!(is_in_flight(&third.unwrap()));
    store.complete(&answer(&second)).await.unwrap();
    assert_eq!(store.begin(&first, at(160), LEASE).await.unwrap(), replay());
}

#[rstest]
#[tokio::test]
async fn an_abandoned_idempotency_key_is_released_and_a_completed_one_is_kept(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let first = claim(1, 1, "a");
    store.begin(&first, at(0), LEASE).await.unwrap();
    store.abandon(&first).await.unwrap();
    let second = claim(1, 2, "b");
    assert_eq!(store.begin(&second, at(1), LEASE).await.unwrap(), Fresh);
    store.complete(&answer(&second)).await.unwrap();
    store.abandon(&second).await.unwrap();
    assert_eq!(store.begin(&second, at(2), LEASE).await.unwrap(), replay());
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_idempotency_claims_one_wins(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let replicas = [store, database.open().await];
    // First for a new key, then for an expired lease.
    for now in [0, 100] {
        database.pass(now).await;
        let racers = (0..16).map(|n| {
            let store = std::sync::Arc::clone(&replicas[n % 2]);
            tokio::spawn(async move {
                let claim = claim(1, 1, &format!("{now}_{n}"));
                store.begin(&claim, at(now), LEASE).await.unwrap()
            })
        });
        let mut found = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            found.push(racer.await.unwrap());
        }
        let fresh = found.iter().filter(|begin| **begin == Fresh).count();
        let in_flight = found.iter().filter(|begin| is_in_flight(begin)).count();
        assert_eq!((fresh, in_flight), (1, 15));
    }
}

#[rstest]
#[tokio::test]
async fn a_run_and_its_answer_are_recorded_together(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let first = claim(1, 1, "a");
    store.begin(&first, at(0), LEASE).await.unwrap();
    let (acme, id) = (tenant("acme"), RunId::from("run_1"));

    // A process that lost the key in the meantime must not create a second run.
    let second = claim(1, 1, "b");
    database.pass(10).await;
    store.begin(&second, at(10), LEASE).await.unwrap();
    let run = record("run_1", "acme", 1);
    let late = run_store::runs::create(&store, &run, Some(&answer(&first))).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(
        run_store::runs::find(&store, &acme, &id).await.unwrap(),
        None
    );
    assert!(
        run_store::queue::claim(&store, "worker", Claimable::All, LEASE)
            .await
            .unwrap()
            .is_none()
    );

    run_store::runs::create(&store, &run, Some(&answer(&second)))
        .await
        .unwrap();
    assert_eq!(
        run_store::runs::find(&store, &acme, &id).await.unwrap(),
        Some(run.clone())
    );
    assert_eq!(store.begin(&first, at(12), LEASE).await.unwrap(), replay());

    // An existing run leaves the key unchanged.
    let third = claim(3, 1, "a");
    store.begin(&third, at(0), LEASE).await.unwrap();
    let exists = run_store::runs::create(&store, &run, Some(&answer(&third))).await;
    assert!(matches!(exists, Err(StoreError::Exists(_))));
    let waiting = store.begin(&claim(3, 1, "b"), at(1), LEASE).await;
    assert!(is_in_flight(&waiting.unwrap()));
}

#[rstest]
#[tokio::test]
async fn old_records_expire(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (old, new) = (claim(1, 1, "a"), claim(2, 1, "a"));
    store.begin(&old, at(0), LEASE).await.unwrap();
    store.complete(&answer(&old)).await.unwrap();
    store.begin(&new, at(100), LEASE).await.unwrap();
    store.complete(&answer(&new)).await.unwrap();
    assert_eq!(store.expire(at(0)).await.unwrap(), 0);
    assert_eq!(store.expire(at(50)).await.unwrap(), 1);
    assert_eq!(store.begin(&old, at(101), LEASE).await.unwrap(), Fresh);
    assert_eq!(store.begin(&new, at(101), LEASE).await.unwrap(), replay());
}
