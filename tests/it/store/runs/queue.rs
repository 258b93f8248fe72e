//! The work queue: leases, fences, cancel requests.

use std::time::Instant;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use rstest::rstest;

use crate::store::{Engine, Engine::*, TTL, at, claimed, events, open, record, tenant};
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::queue::{CancelRequest, Claimable, RunClaim, Wait};
use touchstone_runs::rules::run::fork::{Fork, ForkMode};
use touchstone_runs::store as run_store;

async fn claim(store: &Database, owner: &str) -> Option<RunClaim> {
    run_store::queue::claim(store, owner, Claimable::All, TTL)
        .await
        .unwrap()
}

#[rstest]
#[tokio::test]
async fn the_oldest_free_run_is_claimed_first(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    for id in ["run_b", "run_a", "run_c"] {
        run_store::runs::create(&store, &record(id, "acme", 1), None)
            .await
            .unwrap();
    }
    let mut order = Vec::new();
    while let Some(claim) = claim(&store, "worker").await {
        assert_eq!(*claim.run, record(claim.run.run_id.as_str(), "acme", 1));
        order.push(claim.run.run_id.to_string());
    }
    assert_eq!(order, ["run_b", "run_a", "run_c"]);
}

#[rstest]
#[tokio::test]
async fn a_lease_holds_until_it_is_over(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, first) = claimed(&store, "run_1").await;
    database.pass(15).await;
    assert!(claim(&store, "other").await.is_none());
    database.pass(15).await;
    let second = claim(&store, "other").await.unwrap();
    assert_eq!(second.run.run_id, run);
    assert!(second.fence > first, "each claim raises the fence");

    // The first owner has lost it permanently.
    assert!(
        run_store::queue::renew(&store, "worker", &[(run.clone(), first)], TTL)
            .await
            .unwrap()
            .is_empty()
    );
    let release = run_store::queue::release(&store, &run, first).await;
    assert!(matches!(release, Err(StoreError::Fenced)));
    database.pass(15).await;
    assert!(claim(&store, "third").await.is_none());
}

#[rstest]
#[tokio::test]
async fn renewal_extends_what_the_owner_holds(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (held, fence) = claimed(&store, "run_held").await;
    let (ended, ended_fence) = claimed(&store, "run_ended").await;
    let end = events(&ended, 1, 1);
    run_store::runs::append(&store, &ended, ended_fence, &end, true)
        .await
        .unwrap();
    let other = record("run_other", "acme", 1);
    run_store::runs::create(&store, &other, None).await.unwrap();
    claim(&store, "other").await.unwrap();

    database.pass(15).await;
    let both = [(held.clone(), fence), (ended.clone(), ended_fence)];
    let renewed = run_store::queue::renew(&store, "worker", &both, TTL)
        .await
        .unwrap();
    assert_eq!(renewed, [(held.clone(), fence, None)]);
    database.pass(15).await;
    let claimed = claim(&store, "third").await.unwrap();
    assert_eq!(
        claimed.run.run_id, other.run_id,
        "only the lease that was not renewed has expired"
    );
    assert!(claim(&store, "third").await.is_none());
    // An expired lease is not renewed, even if no other worker has claimed the run yet.
    database.pass(15).await;
    assert!(
        run_store::queue::renew(&store, "worker", &both, TTL)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(claim(&store, "third").await.unwrap().run.run_id, held);
}

#[rstest]
#[tokio::test]
async fn an_unused_lease_expires(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (held, fence) = claimed(&store, "run_held").await;
    let (orphan, _) = claimed(&store, "run_orphan").await;
    database.pass(15).await;
    run_store::queue::renew(&store, "worker", &[(held, fence)], TTL)
        .await
        .unwrap();
    database.pass(15).await;
    let claimed = claim(&store, "worker").await.unwrap();
    assert_eq!(
        claimed.run.run_id, orphan,
        "the same replica may claim it again"
    );
}

/// A run whose record is missing or unreadable blocks only itself, and is tried once per lease.
#[rstest]
#[tokio::test]
async fn a_run_that_cannot_be_read_is_passed_over(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(
        "UPDATE run_record SET record = '{\"runId\":'",
        "DELETE FROM run_record"
    )]
    harm: &str,
) {
    open!(engine => database, store);
    for id in ["run_a", "run_b"] {
        run_store::runs::create(&store, &record(id, "acme", 1), None)
            .await
            .unwrap();
    }
    database
        .execute(format!(
            "{harm} WHERE run_number IN (SELECT number FROM run)"
        ))
        .await;
    run_store::runs::create(&store, &record("run_c", "acme", 1), None)
        .await
        .unwrap();
    for lease in 1..=2 {
        let sound = claim(&store, "worker").await.unwrap();
        assert_eq!(sound.run.run_id.as_str(), "run_c");
        assert!(claim(&store, "worker").await.is_none(), "left alone");
        let held = [("run_a".into(), Fence(lease))];
        let renewed = run_store::queue::renew(&store, "worker", &held, TTL)
            .await
            .unwrap();
        assert_eq!(renewed.len(), 1, "claimed once");
        database.pass(30).await;
    }
}

/// The other runs keep their leases.
#[rstest]
#[tokio::test]
async fn a_cancel_request_that_cannot_be_read_costs_no_lease(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (one, first) = claimed(&store, "run_1").await;
    database
        .execute("UPDATE run SET cancel = '?'".to_owned())
        .await;
    let (two, second) = claimed(&store, "run_2").await;
    let both = [(one.clone(), first), (two.clone(), second)];
    let renewed = run_store::queue::renew(&store, "worker", &both, TTL)
        .await
        .unwrap();
    assert_eq!(renewed, [(one, first, None), (two, second, None)]);
}

/// Replicas whose clocks differ agree on leases: PostgreSQL's clock counts, or the machine's
/// monotonic clock, which cannot be set.
#[rstest]
#[tokio::test]
async fn replicas_tell_leases_by_one_clock(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    claimed(&store, "run_1").await;
    let now = match engine {
        Sqlite => {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            now.tv_sec.to_string()
        }
        Postgres => "extract(epoch from now())".to_owned(),
    };
    let within = |least: u64, most: u64| {
        format!(
            "UPDATE run SET lease_until = 0 WHERE lease_until / 1000000 - {now} BETWEEN {least} AND {most}"
        )
    };
    let ttl = TTL.as_secs();
    database.execute(within(0, ttl - 20)).await;
    assert!(claim(&store, "other").await.is_none(), "it ends later");
    database.execute(within(ttl - 20, ttl + 1)).await;
    assert!(claim(&store, "other").await.is_some(), "it ends then");
}

/// Checks for how long a run was active before this claim. The clock of the database also advances
/// by the time that the test takes.
fn assert_active(claim: &RunClaim, seconds: u64, began: Instant) {
    let most = seconds + began.elapsed().as_secs() + 1;
    let active = claim.active.as_secs();
    assert!((seconds..=most).contains(&active), "{active} s");
}

#[rstest]
#[tokio::test]
async fn time_without_a_lease_does_not_count(#[values(Sqlite, Postgres)] engine: Engine) {
    let began = Instant::now();
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    database.pass(10).await;
    let held = [(run.clone(), fence)];
    assert_eq!(
        run_store::queue::renew(&store, "worker", &held, TTL)
            .await
            .unwrap()
            .len(),
        1
    );
    database.pass(5).await;
    run_store::queue::release(&store, &run, fence)
        .await
        .unwrap();
    // The host is down for a day.
    database.pass(86_400).await;
    let second = claim(&store, "worker").await.unwrap();
    assert_active(&second, 15, began);

    // Waiting counts.
    let forever = Wait::default();
    run_store::queue::park(&store, &run, second.fence, forever)
        .await
        .unwrap();
    database.pass(20).await;
    let acme = tenant("acme");
    let third = run_store::queue::claim_run(&store, &acme, &run, "service", TTL).await;
    let third = third.unwrap().unwrap();
    assert_active(&third, 35, began);

    // A dead worker sends nothing more: only the time since its last heartbeat counts.
    database.pass(86_400).await;
    assert_active(&claim(&store, "worker").await.unwrap(), 35, began);
}

#[rstest]
#[tokio::test]
async fn runs_with_a_cancel_request_can_be_claimed_separately(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    for id in ["run_a", "run_b"] {
        run_store::runs::create(&store, &record(id, "acme", 1), None)
            .await
            .unwrap();
    }
    let none = run_store::queue::claim(&store, "worker", Claimable::Cancelled, TTL)
        .await
        .unwrap();
    assert!(none.is_none());
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    assert!(
        run_store::queue::request_cancel(&store, &"run_b".into(), &request)
            .await
            .unwrap()
    );
    let claim = run_store::queue::claim(&store, "worker", Claimable::Cancelled, TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.run.run_id.as_str(), "run_b");
}

#[rstest]
#[tokio::test]
async fn tenants_at_their_limit_are_skipped_except_for_cancels(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    for (id, of) in [("run_a", "acme"), ("run_b", "acme"), ("run_c", "other")] {
        run_store::runs::create(&store, &record(id, of, 1), None)
            .await
            .unwrap();
    }
    let sated = [tenant("acme")];
    let next = async || {
        let claim = run_store::queue::claim(&store, "worker", Claimable::Except(&sated), TTL).await;
        claim.unwrap().map(|claim| claim.run.run_id.to_string())
    };
    assert_eq!(next().await.as_deref(), Some("run_c"));
    assert_eq!(next().await, None);
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    let asked = run_store::queue::request_cancel(&store, &"run_b".into(), &request).await;
    assert!(asked.unwrap());
    assert_eq!(next().await.as_deref(), Some("run_b"));
    let all = run_store::queue::claim(&store, "worker", Claimable::All, TTL)
        .await
        .unwrap();
    assert_eq!(all.unwrap().run.run_id.as_str(), "run_a");
}

#[rstest]
#[tokio::test]
async fn a_run_of_a_command_is_claimed_by_name_only(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let of_command = |id: &str| {
        let mut run = record(id, "acme", 1);
        run.spec.eval_mut().unwrap().execution.command = Some("command_1".to_owned());
        run
    };
    run_store::runs::create(&store, &of_command("run_a"), None)
        .await
        .unwrap();
    run_store::runs::create(&store, &record("run_b", "other", 1), None)
        .await
        .unwrap();
    run_store::runs::create(&store, &of_command("run_c"), None)
        .await
        .unwrap();

    let none: [RunId; 0] = [];
    let named = run_store::queue::claim(&store, "it", Claimable::Named(&none), TTL).await;
    assert!(named.unwrap().is_none(), "a command that executes nothing");
    assert_eq!(
        claim(&store, "host").await.unwrap().run.run_id.as_str(),
        "run_b"
    );
    assert!(
        claim(&store, "host").await.is_none(),
        "hosts do not claim them"
    );
    let except = run_store::queue::claim(&store, "host", Claimable::Except(&[]), TTL).await;
    assert!(except.unwrap().is_none());

    let own: [RunId; 3] = ["run_c".into(), "run_b".into(), "run_z".into()];
    let named = run_store::queue::claim(&store, "it", Claimable::Named(&own), TTL).await;
    assert_eq!(*named.unwrap().unwrap().run, of_command("run_c"));
    let held = run_store::queue::claim(&store, "it", Claimable::Named(&own), TTL).await;
    assert!(held.unwrap().is_none(), "run_b is leased by the host");

    // Cancelling a run needs none of its models.
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    let asked = run_store::queue::request_cancel(&store, &"run_a".into(), &request).await;
    assert!(asked.unwrap());
    let cancelled = claim(&store, "host").await.unwrap();
    assert_eq!(cancelled.run.run_id.as_str(), "run_a");
}

#[rstest]
#[tokio::test]
async fn each_retry_of_a_run_has_a_number_of_its_own(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let root: RunId = "run_0".into();
    let retry = |id: &str, tenant: &str, number: u32| {
        let mut run = record(id, tenant, 1);
        let eval = run.spec.eval_mut().unwrap();
        eval.execution.retry_root = Some("run_0".into());
        eval.execution.retries = number;
        run
    };
    let made = async |of: &str| {
        run_store::runs::last_retry_number(&store, &tenant(of), &root)
            .await
            .unwrap()
    };
    assert_eq!(made("acme").await, 0);
    run_store::runs::create(&store, &retry("run_1", "acme", 1), None)
        .await
        .unwrap();
    run_store::runs::create(&store, &retry("run_2", "acme", 2), None)
        .await
        .unwrap();
    let taken = run_store::runs::create(&store, &retry("run_3", "acme", 2), None).await;
    assert!(matches!(taken, Err(StoreError::Exists(_))), "{taken:?}");
    assert_eq!((made("acme").await, made("other").await), (2, 0));
    run_store::runs::create(&store, &retry("run_4", "other", 2), None)
        .await
        .unwrap();
    // A fork shows its source's retry number and is not a retry itself.
    let mut fork = retry("run_5", "acme", 2);
    fork.fork = Some(Fork {
        source_run_id: "run_2".into(),
        from_seq: 0,
        mode: ForkMode::Replay,
        history: 1,
        origin: "run_2".into(),
        forked_by: "key".to_owned(),
    });
    run_store::runs::create(&store, &fork, None).await.unwrap();
    assert_eq!(made("acme").await, 2);
}

#[rstest]
#[tokio::test]
async fn a_released_run_is_free_at_once(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::queue::release(&store, &run, fence)
        .await
        .unwrap();
    let held = [(run.clone(), fence)];
    assert!(
        run_store::queue::renew(&store, "worker", &held, TTL)
            .await
            .unwrap()
            .is_empty()
    );
    let claim = run_store::queue::claim(&store, "other", Claimable::All, TTL)
        .await
        .unwrap()
        .unwrap();
    assert!(claim.fence > fence);
    let late = run_store::runs::append(&store, &run, fence, &events(&run, 1, 1), false).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
}

#[rstest]
#[tokio::test]
async fn the_first_cancel_request_stands(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let request = |by: &str| CancelRequest {
        cancelled_by: by.to_owned(),
        reason: Some("už dost 🦀".to_owned()),
    };
    assert_eq!(
        run_store::queue::cancel_requested(&store, &run)
            .await
            .unwrap(),
        None
    );
    assert!(
        run_store::queue::request_cancel(&store, &run, &request("key_1"))
            .await
            .unwrap()
    );
    assert!(
        run_store::queue::request_cancel(&store, &run, &request("key_2"))
            .await
            .unwrap()
    );
    let stands = Some(request("key_1"));
    assert_eq!(
        run_store::queue::cancel_requested(&store, &run)
            .await
            .unwrap(),
        stands
    );
    let renewed = run_store::queue::renew(&store, "worker", &[(run.clone(), fence)], TTL)
        .await
        .unwrap();
    assert_eq!(renewed, [(run.clone(), fence, stands.clone())]);

    run_store::runs::append(&store, &run, fence, &events(&run, 1, 1), true)
        .await
        .unwrap();
    assert!(
        !run_store::queue::request_cancel(&store, &run, &request("key_3"))
            .await
            .unwrap()
    );
    let unknown = RunId::from("run_unknown");
    assert!(
        !run_store::queue::request_cancel(&store, &unknown, &request("key_1"))
            .await
            .unwrap()
    );
    assert_eq!(
        run_store::queue::cancel_requested(&store, &unknown)
            .await
            .unwrap(),
        None
    );
}

/// Two replicas with four workers each compete for 200 runs. Each run is claimed, worked on,
/// released or lost, and claimed again, until it has five events.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_replicas_never_hold_the_same_run(#[values(Sqlite, Postgres)] engine: Engine) {
    const RUNS: usize = 200;
    const LENGTH: u64 = 5;

    open!(engine => database, store);
    for n in 0..RUNS {
        let run = record(&format!("run_{n}"), "acme", 1);
        run_store::runs::create(&store, &run, None).await.unwrap();
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
            while let Some(claim) = run_store::queue::claim(&store, &owner, Claimable::All, TTL)
                .await
                .unwrap()
            {
                claims += 1;
                let run = claim.run.run_id.clone();
                let other = held.lock().unwrap().insert(run.clone(), claim.fence);
                assert_eq!(other, None, "{run} has two owners");
                let next = claim.head.sequence + 1;
                let ends = next == LENGTH;
                run_store::runs::append(&store, &run, claim.fence, &events(&run, next, 1), ends)
                    .await
                    .unwrap();
                held.lock().unwrap().remove(&run);
                if !ends {
                    run_store::queue::release(&store, &run, claim.fence)
                        .await
                        .unwrap();
                }
            }
            claims
        }));
    }
    let mut claims = 0;
    for worker in workers {
        claims += worker.await.unwrap();
    }
    // A worker may stop while others hold the last runs and finish them.
    assert_eq!(claims, RUNS as u64 * LENGTH);
    for n in 0..RUNS {
        let run = RunId::from(format!("run_{n}"));
        let log = run_store::runs::read(&replicas[0], &run, 0, 100)
            .await
            .unwrap();
        assert_eq!(log, events(&run, 1, LENGTH));
    }
}

#[rstest]
#[tokio::test]
async fn the_queue_is_as_old_as_the_run_that_has_waited_longest_without_interruption(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let run = RunId::from("run_1");
    let queue = async || run_store::work::queue(&store, None).await.unwrap();
    assert_eq!((queue().await.queued, queue().await.ready_since), (0, None));
    run_store::runs::create(&store, &record("run_1", "acme", 1), None)
        .await
        .unwrap();
    let found = queue().await;
    assert_eq!((found.queued, found.ready_since), (1, Some(at(0))));
    let held = claim(&store, "worker").await.unwrap();
    let found = queue().await;
    assert_eq!(
        (found.running, found.queued, found.ready_since),
        (1, 0, None)
    );
    let woken = Timestamp::from_second(1_700_000_000).unwrap();
    let wait = Wait {
        until: Some(woken),
        pause_known: false,
    };
    run_store::queue::park(&store, &run, held.fence, wait)
        .await
        .unwrap();
    let found = queue().await;
    assert_eq!((found.queued, found.ready_since), (1, Some(woken)));
    // Since when a run that was given back waits is not stored, and its creation would be too long
    // ago.
    let held = claim(&store, "worker").await.unwrap();
    run_store::queue::release(&store, &run, held.fence)
        .await
        .unwrap();
    let found = queue().await;
    assert_eq!((found.queued, found.ready_since), (1, None));
}
