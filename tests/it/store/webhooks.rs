//! Webhook subscriptions: selected runs, delivery leases, and cleanup.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::{Engine, Engine::*, TTL, at, events, open, record, tenant};
use touchstone_host::ports::run_log::{Fence, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TenantId, WebhookId};
use touchstone_kit::webhook::{Circuit, Secret, Secrets};
use touchstone_openwop::wire::Major;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::ports::webhooks::{
    DeadLetter, Followed, GivenUp, NextStep, Retry, WebhookClaim, WebhookRecord, Window,
};
use touchstone_runs::rules::run::fork::{Fork, ForkMode};
use touchstone_runs::store as run_store;

pub fn webhook(id: &str, tenant: &str) -> WebhookRecord {
    WebhookRecord {
        id: id.into(),
        tenant: tenant.into(),
        url: "https://hooks.example/h?x=1".parse().unwrap(),
        events: vec!["eval.scored".to_owned(), "run.completed".to_owned()],
        tags: vec!["nightly".to_owned()],
        standard: true,
        contract: Major::V1,
        secrets: Secrets::of(Secret::minted([7; 32])),
        created_by: "key_1".to_owned(),
        created_at: at(1),
        circuit: Circuit::default().failed_at(at(0)),
    }
}

/// Creates a run with this many events, under a separate lease.
async fn run_of(store: &Database, id: &str, owner: &str, count: u64, ends: bool) -> (RunId, Fence) {
    run_store::runs::create(store, &record(id, owner, 1), None)
        .await
        .unwrap();
    let run = RunId::from(id);
    let claim = loop {
        let claim = run_store::queue::claim(store, id, Claimable::All, TTL)
            .await
            .unwrap()
            .unwrap();
        if claim.run.run_id == run {
            break claim;
        }
    };
    run_store::runs::append(store, &run, claim.fence, &events(&run, 1, count), ends)
        .await
        .unwrap();
    (run, claim.fence)
}

async fn claim(store: &Database) -> Option<WebhookClaim> {
    claim_at(store, 0).await
}

/// A claim this many seconds after the tests' epoch.
async fn claim_at(store: &Database, seconds: i64) -> Option<WebhookClaim> {
    run_store::webhooks::claim(store, "replica", TTL, at(seconds))
        .await
        .unwrap()
}

fn followed(run: &str, after: u64, head: u64) -> Followed {
    Followed {
        run: run.into(),
        after,
        head,
    }
}

#[rstest]
#[tokio::test]
async fn a_subscription_is_kept_as_it_is_and_seen_by_its_tenant_only(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let kept = webhook("wh_1", "acme");
    assert!(run_store::webhooks::create(&store, &kept, 2).await.unwrap());
    assert!(
        run_store::webhooks::create(&store, &webhook("wh_2", "acme"), 2)
            .await
            .unwrap()
    );
    assert!(
        !run_store::webhooks::create(&store, &webhook("wh_3", "acme"), 2)
            .await
            .unwrap(),
        "no more than it may have"
    );
    assert!(
        run_store::webhooks::create(&store, &webhook("wh_4", "globex"), 2)
            .await
            .unwrap()
    );
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let found = run_store::webhooks::find(&store, &acme, &"wh_1".into())
        .await
        .unwrap();
    assert_eq!(found.as_ref(), Some(&kept));
    assert_eq!(
        run_store::webhooks::find(&store, &globex, &"wh_1".into())
            .await
            .unwrap(),
        None
    );
    let listed = run_store::webhooks::list(&store, &acme).await.unwrap();
    assert_eq!(listed, [kept, webhook("wh_2", "acme")]);
    assert!(
        !run_store::webhooks::remove(&store, &globex, &"wh_1".into())
            .await
            .unwrap()
    );
    assert!(
        run_store::webhooks::remove(&store, &acme, &"wh_1".into())
            .await
            .unwrap()
    );
    assert!(
        !run_store::webhooks::remove(&store, &acme, &"wh_1".into())
            .await
            .unwrap()
    );
    assert_eq!(
        run_store::webhooks::list(&store, &acme)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[rstest]
#[tokio::test]
async fn secrets_are_replaced_only_if_they_are_the_known_ones(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (acme, id) = (tenant("acme"), "wh_1".into());
    let first = webhook("wh_1", "acme").secrets;
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let second = first.clone().rotated(Secret::minted([8; 32]), at(60));
    let third = second.clone().rotated(Secret::minted([9; 32]), at(90));
    for (known, new, done) in [
        (&second, &third, false),
        (&first, &second, true),
        (&first, &third, false),
    ] {
        let rotated = run_store::webhooks::replace_secrets(&store, &acme, &id, known, new)
            .await
            .unwrap();
        assert_eq!(rotated, done);
    }
    let kept = run_store::webhooks::find(&store, &acme, &id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.secrets, second);
    let foreign =
        run_store::webhooks::replace_secrets(&store, &tenant("globex"), &id, &second, &third).await;
    assert!(!foreign.unwrap());
}

#[rstest]
#[tokio::test]
async fn a_subscription_follows_running_runs_from_now_and_new_runs_from_the_start(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    run_of(&store, "run_over", "acme", 3, true).await;
    let (running, fence) = run_of(&store, "run_running", "acme", 3, false).await;
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    run_of(&store, "run_foreign", "globex", 3, true).await;
    assert_eq!(claim(&store).await, None, "no event since");
    let id = "wh_1".into();
    run_store::runs::append(&store, &running, fence, &events(&running, 4, 2), true)
        .await
        .unwrap();
    run_of(&store, "run_later", "acme", 2, false).await;
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 9)
            .await
            .unwrap(),
        [followed("run_running", 3, 5), followed("run_later", 0, 2)]
    );
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 1)
            .await
            .unwrap()
            .len(),
        1
    );

    let held = claim(&store).await.unwrap();
    assert_eq!(held.webhook, webhook("wh_1", "acme"));
    let circuit = Circuit::default();
    for (run, upto) in [("run_running", 4), ("run_running", 5), ("run_later", 2)] {
        run_store::webhooks::record_progress(&store, &held, &run.into(), upto, &circuit, TTL)
            .await
            .unwrap();
    }
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 9)
            .await
            .unwrap(),
        []
    );
    run_store::webhooks::release(&store, &held, &mut [])
        .await
        .unwrap();
    assert_eq!(claim(&store).await, None, "nothing is left");
    let kept = run_store::webhooks::find(&store, &tenant("acme"), &id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.circuit, circuit);
}

#[rstest]
#[tokio::test]
async fn a_subscription_is_served_by_one_replica_and_the_longest_waiting_first(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    for id in ["wh_1", "wh_2"] {
        run_store::webhooks::create(&store, &webhook(id, "acme"), 9)
            .await
            .unwrap();
    }
    let (run, _) = run_of(&store, "run_1", "acme", 2, false).await;
    let first = claim(&store).await.unwrap();
    let second = claim(&store).await.unwrap();
    assert_eq!(
        [first.webhook.id.as_str(), second.webhook.id.as_str()],
        ["wh_1", "wh_2"]
    );
    database.pass(20).await;
    assert_eq!(claim(&store).await, None, "both are leased");
    run_store::webhooks::release(&store, &second, &mut [])
        .await
        .unwrap();
    database.pass(1).await;
    run_store::webhooks::release(&store, &first, &mut [])
        .await
        .unwrap();
    let again = claim(&store).await.unwrap();
    assert_eq!(again.webhook.id.as_str(), "wh_2", "it was given back first");

    // An expired lease is taken over, and its former owner's progress is ignored.
    let taken = claim(&store).await.unwrap();
    assert_eq!(taken.webhook.id.as_str(), "wh_1");
    let circuit = Circuit::default();
    run_store::webhooks::record_progress(&store, &taken, &run, 1, &circuit, 2 * TTL)
        .await
        .unwrap();
    // Recording an attempt extended the lease.
    database.pass(31).await;
    let other = claim(&store).await.unwrap();
    assert_eq!(other.webhook.id.as_str(), "wh_2");
    assert_eq!(claim(&store).await, None);
    database.pass(30).await;
    // The other subscription has waited longer by now.
    let other = claim(&store).await.unwrap();
    assert_eq!(other.webhook.id.as_str(), "wh_2");
    let other = claim(&store).await.unwrap();
    assert_eq!(other.webhook.id.as_str(), "wh_1");
    assert!(other.fence > taken.fence);
    let late = run_store::webhooks::record_progress(&store, &taken, &run, 2, &circuit, TTL).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
    let late = run_store::webhooks::pause(&store, &taken, at(9)).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
    let late = run_store::webhooks::unfollow(&store, &taken, &run).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
    let late = run_store::webhooks::end(&store, &taken, Vec::new(), dead).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
    let this = (&run, 2);
    let next = NextStep::Done;
    let late =
        run_store::webhooks::record_attempt(&store, &taken, this, false, &next, &circuit, TTL);
    assert!(matches!(late.await, Err(StoreError::Fenced)));
    let released = run_store::webhooks::release(&store, &taken, &mut []).await;
    assert!(!released.unwrap());
    assert_eq!(claim(&store).await, None, "and it cannot release the lease");
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
            .await
            .unwrap(),
        [followed("run_1", 1, 2)]
    );
    run_store::webhooks::remove(&store, &tenant("acme"), &"wh_1".into())
        .await
        .unwrap();
    let gone = run_store::webhooks::record_progress(&store, &other, &run, 2, &circuit, TTL).await;
    assert!(matches!(gone, Err(StoreError::Fenced)));
}

/// An event that was recorded this many seconds after the tests' epoch.
fn recorded(sequence: u64, seconds: i64) -> StoredEvent {
    let timestamp = format!("{:.6}", at(seconds));
    StoredEvent {
        sequence,
        kind: "eval.scored".into(),
        body: json!({"sequence": sequence, "timestamp": timestamp})
            .to_string()
            .into(),
    }
}

#[rstest]
#[tokio::test]
async fn the_lag_is_that_of_the_oldest_undelivered_event(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let oldest = async || {
        run_store::webhooks::oldest_undelivered(&store, at(60))
            .await
            .unwrap()
    };
    assert_eq!(oldest().await, None);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let (first, first_fence) = run_of(&store, "run_1", "acme", 0, false).await;
    let (second, second_fence) = run_of(&store, "run_2", "acme", 0, false).await;
    assert_eq!(oldest().await, None);
    let log = [recorded(1, 30), recorded(2, 50)];
    run_store::runs::append(&store, &first, first_fence, &log, false)
        .await
        .unwrap();
    let log = [recorded(1, 20)];
    run_store::runs::append(&store, &second, second_fence, &log, false)
        .await
        .unwrap();
    assert_eq!(oldest().await, Some(at(20)));
    let held = claim(&store).await.unwrap();
    let served = async |run: &RunId, upto| {
        let circuit = Circuit::default();
        run_store::webhooks::record_progress(&store, &held, run, upto, &circuit, TTL)
            .await
            .unwrap();
    };
    served(&second, 1).await;
    assert_eq!(oldest().await, Some(at(30)));
    served(&first, 1).await;
    assert_eq!(oldest().await, Some(at(50)));
    run_store::webhooks::pause(&store, &held, at(61))
        .await
        .unwrap();
    assert_eq!(oldest().await, None, "the endpoint fails");
    run_store::webhooks::pause(&store, &held, at(60))
        .await
        .unwrap();
    assert_eq!(oldest().await, Some(at(50)));
    served(&first, 2).await;
    assert_eq!(oldest().await, None);
}

#[rstest]
#[tokio::test]
async fn events_of_unfollowed_runs_and_ended_subscriptions_are_not_delivered_later(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let (running, _) = run_of(&store, "run_1", "acme", 2, false).await;
    let id = "wh_1".into();
    let held = claim(&store).await.unwrap();
    run_store::webhooks::unfollow(&store, &held, &running)
        .await
        .unwrap();
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 9)
            .await
            .unwrap(),
        []
    );
    run_of(&store, "run_3", "acme", 1, false).await;
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 9)
            .await
            .unwrap(),
        [followed("run_3", 0, 1)]
    );
    run_store::webhooks::end(&store, &held, Vec::new(), dead)
        .await
        .unwrap();
    run_of(&store, "run_4", "acme", 1, false).await;
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &id, 9)
            .await
            .unwrap(),
        []
    );
    database.pass(60).await;
    assert_eq!(claim(&store).await, None);
    assert_eq!(
        run_store::webhooks::list(&store, &tenant("acme"))
            .await
            .unwrap()
            .len(),
        1
    );
}

/// The dead letter of a retry, 40 seconds after the tests' epoch.
fn dead(retry: Retry) -> DeadLetter {
    retry.given_up(&"wh_1".into(), GivenUp::RetriesExhausted, at(40))
}

fn retry(run: &RunId, sequence: u64, attempts: u32, due: i64) -> Retry {
    Retry {
        run: run.clone(),
        sequence,
        kind: "eval.scored".to_owned(),
        event_id: format!("evt_{sequence}"),
        attempts,
        due_at: at(due),
        last_status: Some(503),
    }
}

/// Records what becomes of an event under a claim.
async fn attempted(store: &Database, claim: &WebhookClaim, retry: &Retry, next: &NextStep) {
    let event = (&retry.run, retry.sequence);
    let circuit = Circuit::default();
    let is_retry = retry.attempts > 1;
    run_store::webhooks::record_attempt(store, claim, event, is_retry, next, &circuit, TTL)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn an_event_is_due_again_until_it_is_delivered_or_given_up(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (acme, id) = (tenant("acme"), WebhookId::from("wh_1"));
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let (run, _) = run_of(&store, "run_1", "acme", 3, true).await;
    let held = claim(&store).await.unwrap();
    for (sequence, due) in [(1, 30), (2, 20), (3, 10)] {
        let first = retry(&run, sequence, 1, due);
        attempted(&store, &held, &first, &NextStep::Retry(first.clone())).await;
    }
    let released = run_store::webhooks::release(&store, &held, &mut []).await;
    assert!(released.unwrap());
    let due = async |seconds| {
        let due = run_store::webhooks::retries::due(&store, &id, at(seconds), 9).await;
        let due = due.unwrap().into_iter().map(|it| it.sequence);
        due.collect::<Vec<_>>()
    };
    assert_eq!(claim_at(&store, 9).await, None, "the run is served");
    assert_eq!(due(9).await, Vec::<u64>::new());
    assert_eq!((due(10).await, due(30).await), (vec![3], vec![3, 2, 1]));
    let pending = run_store::webhooks::retries::pending(&store, &id).await;
    assert_eq!(pending.unwrap(), (3, Some(at(10))));

    let held = claim_at(&store, 10).await.unwrap();
    let (second, again) = (retry(&run, 3, 2, 10), retry(&run, 3, 2, 25));
    attempted(&store, &held, &second, &NextStep::Retry(again)).await;
    assert_eq!((due(24).await, due(30).await), (vec![2], vec![2, 3, 1]));
    let done = retry(&run, 2, 2, 20);
    attempted(&store, &held, &done, &NextStep::Done).await;
    let given_up = dead(retry(&run, 3, 5, 25));
    let last = retry(&run, 3, 5, 25);
    for _ in 0..2 {
        // A killed process may have recorded it.
        attempted(&store, &held, &last, &NextStep::GiveUp(given_up.clone())).await;
    }
    assert_eq!(due(99).await, [1]);
    run_store::webhooks::release(&store, &held, &mut [])
        .await
        .unwrap();
    assert_eq!(claim_at(&store, 29).await, None);
    let letters = async |now, before| {
        let letters = run_store::webhooks::dead_letters::list(&store, &acme, &id, now, before, 9);
        letters.await.unwrap()
    };
    assert_eq!(
        letters(at(40), i64::MAX).await,
        std::slice::from_ref(&given_up)
    );
    let number = async |tenant: &str, delivery: &str| {
        let tenant = TenantId::from(tenant);
        let number = run_store::webhooks::dead_letters::number(&store, &tenant, &id, delivery);
        number.await.unwrap()
    };
    assert_eq!(number("acme", &given_up.delivery_id).await, Some(1));
    assert_eq!(number("globex", &given_up.delivery_id).await, None);
    assert_eq!(number("acme", "dlv_0").await, None);

    // What waits when a subscription fails is given up with it.
    let held = claim_at(&store, 30).await.unwrap();
    run_store::webhooks::end(&store, &held, Vec::new(), dead)
        .await
        .unwrap();
    assert_eq!(due(99).await, Vec::<u64>::new());
    let ended = letters(at(40), i64::MAX).await;
    let ended: Vec<u32> = ended.iter().map(|it| it.attempts).collect();
    assert_eq!(ended, [1, 5], "newest first");
    assert_eq!(letters(at(40), 2).await.len(), 1);

    let month = 30 * 24 * 3600;
    assert_eq!(letters(at(40 + month), i64::MAX).await, []);
    let expire = async |seconds| {
        let expired = run_store::webhooks::dead_letters::expire(&store, at(seconds)).await;
        expired.unwrap()
    };
    assert_eq!((expire(39 + month).await, expire(40 + month).await), (0, 2));
    database.pass(60).await;
    assert_eq!(claim_at(&store, 99).await, None);
}

#[rstest]
#[tokio::test]
async fn a_paused_subscription_is_claimed_later(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    run_of(&store, "run_1", "acme", 3, true).await;
    let held = claim(&store).await.unwrap();
    run_store::webhooks::pause(&store, &held, at(60))
        .await
        .unwrap();
    run_store::webhooks::release(&store, &held, &mut [])
        .await
        .unwrap();
    database.pass(60).await;
    assert_eq!(claim_at(&store, 59).await, None);
    assert!(claim_at(&store, 60).await.is_some());
}

#[rstest]
#[tokio::test]
async fn retries_are_deleted_with_their_run_and_keep_its_log_as_it_is(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let (run, _) = run_of(&store, "run_1", "acme", 1, true).await;
    let held = claim(&store).await.unwrap();
    let first = retry(&run, 1, 1, 10);
    attempted(&store, &held, &first, &NextStep::Retry(first.clone())).await;
    let compressible = async || {
        let found = run_store::segments::compressible(&store, at(1_000), 0, 9).await;
        found.unwrap().len()
    };
    assert_eq!(compressible().await, 0);
    database
        .execute("DELETE FROM webhook_retry".to_owned())
        .await;
    assert_eq!(compressible().await, 1);
    attempted(&store, &held, &first, &NextStep::Retry(first.clone())).await;
    for table in ["run_record", "run_summary", "event", "webhook_run"] {
        database.execute(format!("DELETE FROM {table}")).await;
    }
    database.execute("DELETE FROM run".to_owned()).await;
    let due = run_store::webhooks::retries::due(&store, &"wh_1".into(), at(99), 9).await;
    assert_eq!(due.unwrap(), []);
    // One of a deleted run is not recorded.
    attempted(&store, &held, &first, &NextStep::Retry(first.clone())).await;
    run_store::webhooks::release(&store, &held, &mut [])
        .await
        .unwrap();
    database.pass(60).await;
    assert_eq!(claim_at(&store, 99).await, None);
}

#[rstest]
#[tokio::test]
async fn whoever_removes_a_subscription_learns_when_it_is_not_served_any_more(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (acme, id) = (tenant("acme"), WebhookId::from("wh_1"));
    let stop = async |tenant: &str| {
        let tenant = TenantId::from(tenant);
        run_store::webhooks::stop(&store, &tenant, &id)
            .await
            .unwrap()
    };
    assert_eq!(stop("acme").await, None);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    assert_eq!(stop("globex").await, None);
    let (run, _) = run_of(&store, "run_1", "acme", 3, false).await;
    let held = claim(&store).await.unwrap();
    assert_eq!(stop("acme").await, Some(true));
    let found = run_store::webhooks::find(&store, &acme, &id).await;
    assert!(found.unwrap().is_none(), "it is being removed");
    let cleaned = run_store::webhooks::remove_stopped(&store).await;
    assert_eq!(cleaned.unwrap(), 0, "a replica still serves it");
    let circuit = Circuit::default();
    let late = run_store::webhooks::record_progress(&store, &held, &run, 1, &circuit, TTL).await;
    assert!(matches!(late, Err(StoreError::Fenced)));
    let is_served = async || {
        let served = run_store::webhooks::is_served(&store, &acme, &id).await;
        served.unwrap()
    };
    run_store::webhooks::leave(&store, &id, "another")
        .await
        .unwrap();
    assert!(is_served().await);
    run_store::webhooks::leave(&store, &id, "replica")
        .await
        .unwrap();
    assert!(!is_served().await);
    assert_eq!(claim(&store).await, None, "it gets no more deliveries");
    assert_eq!(stop("acme").await, Some(false));
}

#[rstest]
#[tokio::test]
async fn a_subscription_keeps_its_contract(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let mut second = webhook("wh_2", "acme");
    second.contract = Major::V2;
    for made in [&webhook("wh_1", "acme"), &second] {
        run_store::webhooks::create(&store, made, 9).await.unwrap();
    }
    let listed = run_store::webhooks::list(&store, &tenant("acme")).await;
    assert_eq!(listed.unwrap(), [webhook("wh_1", "acme"), second]);
    // Subscriptions of earlier versions have no contract in their settings.
    database
        .execute(
            "UPDATE webhook SET settings = REPLACE(settings, ',\"contract\":2', '')".to_owned(),
        )
        .await;
    let listed = run_store::webhooks::list(&store, &tenant("acme")).await;
    let contracts = listed.unwrap().into_iter().map(|it| it.contract);
    assert_eq!(contracts.collect::<Vec<_>>(), [Major::V1, Major::V1]);
}

#[rstest]
#[tokio::test]
async fn events_are_found_by_type_within_a_stretch(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = run_of(&store, "run_1", "acme", 4, false).await;
    let mut more = events(&run, 5, 4);
    for (event, kind) in more
        .iter_mut()
        .zip(["a.b", "run.completed", "a'\"b", "eval.scored"])
    {
        event.kind = kind.into();
    }
    run_store::runs::append(&store, &run, fence, &more, false)
        .await
        .unwrap();
    let found = async |after, upto, kinds: &[&str], limit| {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let events =
            run_store::webhooks::events_of(&store, &run, Window { after, upto }, &kinds, limit)
                .await
                .unwrap();
        events
            .iter()
            .map(|event| event.sequence)
            .collect::<Vec<_>>()
    };
    assert_eq!(found(0, 99, &["eval.scored"], 9).await, [1, 2, 3, 4, 8]);
    assert_eq!(found(1, 3, &["eval.scored"], 9).await, [2, 3]);
    assert_eq!(found(0, 99, &["eval.scored"], 2).await, [1, 2]);
    assert_eq!(
        found(3, 7, &["eval.scored", "run.completed"], 9).await,
        [4, 6]
    );
    assert_eq!(found(0, 99, &["a'\"b"], 9).await, [7]);
    assert_eq!(found(0, 99, &[], 9).await, Vec::<u64>::new());
}

/// Each run is created either before the subscription, and then followed from its current position,
/// or after it.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_created_at_the_same_moment_is_followed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let other = database.open().await;
    let creating = tokio::spawn(async move {
        for n in 0..60 {
            run_store::runs::create(&other, &record(&format!("run_{n}"), "acme", 1), None)
                .await
                .unwrap();
        }
    });
    for n in 0..10 {
        let added =
            run_store::webhooks::create(&store, &webhook(&format!("wh_{n}"), "acme"), 99).await;
        assert!(added.unwrap());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    creating.await.unwrap();
    let mut runs = 0;
    while let Some(claim) = run_store::queue::claim(&store, "worker", Claimable::All, TTL)
        .await
        .unwrap()
    {
        let run = &claim.run.run_id;
        run_store::runs::append(&store, run, claim.fence, &events(run, 1, 1), false)
            .await
            .unwrap();
        runs += 1;
    }
    assert_eq!(runs, 60);
    for n in 0..10 {
        let id = format!("wh_{n}").into();
        assert_eq!(
            run_store::webhooks::grown_runs(&store, &id, 99)
                .await
                .unwrap()
                .len(),
            60,
            "wh_{n}"
        );
    }
}

#[rstest]
#[case::replay(ForkMode::Replay, None)]
#[case::branch(ForkMode::Branch, Some(3))]
#[tokio::test]
async fn events_copied_by_a_fork_are_not_delivered_again(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] mode: ForkMode,
    #[case] after: Option<u64>,
) {
    open!(engine => _database, store);
    run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
        .await
        .unwrap();
    let mut fork = record("run_fork", "acme", 1);
    fork.fork = Some(Fork {
        source_run_id: "run_source".into(),
        from_seq: 4,
        mode,
        history: 3,
        origin: "run_source".into(),
        forked_by: "key_1".to_owned(),
    });
    run_store::runs::create(&store, &fork, None).await.unwrap();
    let claim = run_store::queue::claim(&store, "worker", Claimable::All, TTL)
        .await
        .unwrap()
        .unwrap();
    let run = claim.run.run_id.clone();
    run_store::runs::append(&store, &run, claim.fence, &events(&run, 1, 5), true)
        .await
        .unwrap();
    let expected: Vec<Followed> = after
        .into_iter()
        .map(|after| followed("run_fork", after, 5))
        .collect();
    assert_eq!(
        run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
            .await
            .unwrap(),
        expected
    );
}
