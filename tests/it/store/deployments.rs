//! Deployments, policies and the audit log.

use std::sync::Arc;

use rstest::rstest;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::{Engine, Engine::*, at, claimed, events, open, record, tenant};
use touchstone_deployments::ports::DeploymentCommit;
use touchstone_deployments::promotion::{PolicyScope, PromotionPolicy, ScopedPolicy};
use touchstone_deployments::rules::Lifecycle;
use touchstone_deployments::store as deployment_store;
use touchstone_host::audit::checkpoint::Checkpoint;
use touchstone_host::audit::{ChainHead, Decision, Outcome, Walk};
use touchstone_host::ports::idempotency::{
    IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion,
};
use touchstone_host::ports::run_log::CompanionRecord;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::audit::Audit;
use touchstone_host::service::audit::checkpointer::Checkpointer;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_kit::keys::SecretKey;
use touchstone_packs::ports::inventory::InstallRecord;
use touchstone_packs::ports::inventory::Revision;
use touchstone_packs::store as pack_store;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::run::record::{RunRecord, Work};
use touchstone_runs::store as run_store;

fn agent() -> AgentId {
    "acme.triage.default".into()
}

fn run(id: &str) -> RunRecord {
    let mut run = record(id, "acme", 1);
    run.spec.work = Work::Journal;
    run
}

fn decision(n: i64) -> Decision {
    Decision {
        at: at(n),
        principal: "key_1".to_owned(),
        action: "deploy:promote".to_owned(),
        resource: format!("acme.triage.default@1.0.{n}"),
        outcome: Outcome::Done,
        reasons: vec!["because, ž🦀".to_owned()],
        decided_on: None,
        run_id: None,
    }
}

/// Adds a decision to the audit log.
async fn decide(store: &Database, tenant: &TenantId, n: i64) {
    let policy = ScopedPolicy {
        scope: PolicyScope {
            agent_id: None,
            channel: None,
        },
        policy: PromotionPolicy::default(),
    };
    let set = deployment_store::set_policy(store, tenant, &policy, &decision(n)).await;
    set.unwrap();
}

/// A lifecycle that differs from others by `version`.
fn lifecycle(version: &str) -> Lifecycle {
    serde_json::from_value(json!({
        "versions": {version: {"state": "active"}},
        "channels": {"stable": [{"version": version, "share": 10}]},
        "activations": [version],
    }))
    .unwrap()
}

async fn commit(
    store: &Database,
    id: &str,
    after: Option<(&Lifecycle, Revision)>,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    serve(store, id, after, None, completes).await
}

/// Like [`commit`], with this pack going into service.
async fn serve(
    store: &Database,
    id: &str,
    after: Option<(&Lifecycle, Revision)>,
    serves: Option<&str>,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    let run = run(id);
    deployment_store::commit_deployment(
        store,
        &DeploymentCommit {
            run: &run,
            events: &events(&run.run_id, 1, 3),
            agent: &agent(),
            after,
            serves,
            opens: &[],
            decision: &decision(1),
            completes,
        },
    )
    .await
}

async fn anomalies(store: &Database, tenant: &TenantId) -> Vec<u64> {
    let mut walk = Walk::behind(None);
    for link in store.audit_entries(tenant, 0, 1000).await.unwrap() {
        walk.step(&link);
    }
    let head = store.audit_head(tenant).await.unwrap();
    walk.end(&head).iter().map(|found| found.at_seq).collect()
}

#[rstest]
#[tokio::test]
async fn a_transition_stores_state_events_and_audit_entry(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    assert_eq!(
        deployment_store::deployments(&store, &acme, &agent())
            .await
            .unwrap(),
        (Lifecycle::default(), Revision(0))
    );
    let one = lifecycle("1.0.0");
    commit(&store, "run_1", Some((&one, Revision(0))), None)
        .await
        .unwrap();
    let (found, revision) = deployment_store::deployments(&store, &acme, &agent())
        .await
        .unwrap();
    assert_eq!((found, revision), (one, Revision(1)));
    let two = lifecycle("2.0.0");
    commit(&store, "run_2", Some((&two, revision)), None)
        .await
        .unwrap();
    commit(&store, "run_3", None, None).await.unwrap();
    assert_eq!(
        deployment_store::deployments(&store, &acme, &agent())
            .await
            .unwrap(),
        (two, Revision(2))
    );
    for id in ["run_1", "run_2", "run_3"] {
        let id = RunId::from(id);
        assert!(
            run_store::runs::find(&store, &acme, &id)
                .await
                .unwrap()
                .is_some()
        );
        let head = head(&store, &id).await.unwrap().unwrap();
        assert_eq!((head.sequence, head.ended), (3, true));
        assert_eq!(
            run_store::runs::read(&store, &id, 0, 10).await.unwrap(),
            events(&id, 1, 3)
        );
    }
    assert_eq!(store.audit_head(&acme).await.unwrap().sequence, 3);
    assert_eq!(anomalies(&store, &acme).await, [] as [u64; 0]);
    let nobody = run_store::queue::claim(&store, "worker", Claimable::All, super::TTL)
        .await
        .unwrap();
    assert!(nobody.is_none(), "no work is queued");
    let globex = tenant("globex");
    assert_eq!(
        deployment_store::deployments(&store, &globex, &agent())
            .await
            .unwrap()
            .1,
        Revision(0)
    );
    assert_eq!(
        store.audit_head(&globex).await.unwrap(),
        ChainHead::default()
    );
}

#[rstest]
#[tokio::test]
async fn a_decision_on_a_stale_state_changes_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let one = lifecycle("1.0.0");
    commit(&store, "run_1", Some((&one, Revision(0))), None)
        .await
        .unwrap();
    let other = lifecycle("2.0.0");
    for stale in [Revision(0), Revision(2)] {
        let refused = commit(&store, "run_2", Some((&other, stale)), None).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
    }
    assert_eq!(
        deployment_store::deployments(&store, &acme, &agent())
            .await
            .unwrap(),
        (one, Revision(1))
    );
    assert!(
        run_store::runs::find(&store, &acme, &"run_2".into())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(store.audit_head(&acme).await.unwrap().sequence, 1);
}

#[rstest]
#[tokio::test]
async fn concurrent_transitions_are_serialized(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let other = database.open().await;
    let acme = tenant("acme");
    // Each client retries until its number is next; two replicas take part.
    let moves = (0..12).map(|n| {
        let store = if n % 2 == 0 { &store } else { &other };
        let acme = &acme;
        async move {
            loop {
                let (_, seen) = deployment_store::deployments(store, acme, &agent())
                    .await
                    .unwrap();
                let next = lifecycle(&format!("1.0.{}", seen.0));
                match commit(store, &format!("run_{n}"), Some((&next, seen)), None).await {
                    Ok(()) => return seen.0,
                    Err(StoreError::Stale) => {}
                    Err(cause) => panic!("{cause:?}"),
                }
            }
        }
    });
    let mut seen = futures_util::future::join_all(moves).await;
    seen.sort_unstable();
    assert_eq!(seen, (0..12).collect::<Vec<i64>>());
    let (last, revision) = deployment_store::deployments(&store, &acme, &agent())
        .await
        .unwrap();
    assert_eq!((last, revision), (lifecycle("1.0.11"), Revision(12)));
    assert_eq!(store.audit_head(&acme).await.unwrap().sequence, 12);
    assert_eq!(anomalies(&store, &acme).await, [] as [u64; 0]);
}

#[rstest]
#[tokio::test]
async fn a_transition_is_rolled_back_if_its_response_cannot_be_stored(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let claim = |owner: &str| IdempotencyClaim {
        tenant: acme.clone(),
        endpoint: "POST /v1/agents/a/deployments".to_owned(),
        key_hash: [1; 32],
        digest: [2; 32],
        owner: owner.to_owned(),
    };
    let answer = |owner: &str| IdempotencyCompletion {
        claim: claim(owner),
        status: 200,
        body: "{}".into(),
    };
    let begun = store.begin(&claim("a"), at(0), super::TTL).await.unwrap();
    assert_eq!(begun, IdempotencyBegin::Fresh);
    let one = lifecycle("1.0.0");
    let lost = commit(
        &store,
        "run_1",
        Some((&one, Revision(0))),
        Some(&answer("somebody else")),
    )
    .await;
    assert!(matches!(lost, Err(StoreError::Fenced)), "{lost:?}");
    assert_eq!(
        deployment_store::deployments(&store, &acme, &agent())
            .await
            .unwrap()
            .1,
        Revision(0)
    );
    assert!(
        run_store::runs::find(&store, &acme, &"run_1".into())
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        run_store::runs::read(&store, &"run_1".into(), 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.audit_head(&acme).await.unwrap(), ChainHead::default());

    commit(
        &store,
        "run_1",
        Some((&one, Revision(0))),
        Some(&answer("a")),
    )
    .await
    .unwrap();
    let again = store.begin(&claim("b"), at(1), super::TTL).await.unwrap();
    assert!(matches!(
        again,
        IdempotencyBegin::Replay { status: 200, .. }
    ));
}

#[rstest]
#[tokio::test]
async fn the_audit_log_is_read_in_pages_and_survives_a_restart(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let acme = tenant("acme");
    for n in 0..5 {
        decide(&store, &acme, n).await;
    }
    decide(&store, &tenant("globex"), 9).await;
    let reopened = database.open().await;
    let mut sequences = Vec::new();
    let mut after = 0;
    loop {
        let page = reopened.audit_entries(&acme, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.sequence;
        sequences.extend(page.iter().map(|link| link.sequence));
    }
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
    assert_eq!(anomalies(&reopened, &acme).await, [] as [u64; 0]);
    let globex = reopened
        .audit_entries(&tenant("globex"), 0, 10)
        .await
        .unwrap();
    assert_eq!(globex.len(), 1, "each tenant has a separate chain");
    assert_eq!(globex[0].sequence, 1);
}

#[rstest]
#[tokio::test]
async fn setting_and_removing_policies_is_audited_with_the_principal(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let scope = |agent: Option<&str>, channel: Option<&str>| PolicyScope {
        agent_id: agent.map(str::to_owned),
        channel: channel.map(str::to_owned),
    };
    let policy = |scope: PolicyScope, tasks: usize| ScopedPolicy {
        scope,
        policy: serde_json::from_value(json!({"eval": {"minTasks": tasks}})).unwrap(),
    };
    let any = policy(scope(None, None), 1);
    let stable = policy(scope(None, Some("stable")), 2);
    let own = policy(scope(Some("acme.triage.default"), Some("stable")), 3);
    for set in [&own, &stable, &any] {
        deployment_store::set_policy(&store, &acme, set, &decision(1))
            .await
            .unwrap();
    }
    assert_eq!(
        deployment_store::policies(&store, &acme).await.unwrap(),
        [any.clone(), stable.clone(), own.clone()]
    );
    assert_eq!(
        deployment_store::policies(&store, &tenant("globex"))
            .await
            .unwrap(),
        []
    );
    let stricter = policy(stable.scope.clone(), 20);
    deployment_store::set_policy(&store, &acme, &stricter, &decision(2))
        .await
        .unwrap();
    let removed = deployment_store::remove_policy(&store, &acme, &own.scope, &decision(3))
        .await
        .unwrap();
    assert!(removed);
    assert_eq!(
        deployment_store::policies(&store, &acme).await.unwrap(),
        [any, stricter]
    );
    let absent = scope(Some("x"), None);
    let removed = deployment_store::remove_policy(&store, &acme, &absent, &decision(4))
        .await
        .unwrap();
    assert!(!removed);
    assert_eq!(store.audit_head(&acme).await.unwrap().sequence, 5);
}

/// Changes the database directly.
async fn meddle(database: &super::TestStore, sql: &'static str) {
    match database {
        super::TestStore::Sqlite(_) => {
            let path = database.location().replace("sqlite:", "");
            let options = SqliteConnectOptions::new().filename(path);
            let mut raw = options.connect().await.unwrap();
            sqlx::query(sql).execute(&mut raw).await.unwrap();
        }
        super::TestStore::Postgres(_) => {
            let mut raw = PgConnection::connect(&database.location()).await.unwrap();
            sqlx::query(sql).execute(&mut raw).await.unwrap();
        }
    }
}

#[rstest]
#[case::entry_changed(
    "UPDATE audit_entry SET body = REPLACE(body, '@1.0.2', '@6.6.6') WHERE sequence = 3",
    &[4]
)]
#[case::last_entry_changed(
    "UPDATE audit_entry SET body = REPLACE(body, '@1.0.4', '@6.6.6') WHERE sequence = 5",
    &[6]
)]
#[case::entry_deleted("DELETE FROM audit_entry WHERE sequence = 2", &[3])]
#[case::end_cut_off("DELETE FROM audit_entry WHERE sequence > 3", &[4])]
#[case::end_cut_off_with_its_mark(
    "UPDATE audit_head SET sequence = 4 WHERE tenant = 'acme'",
    &[6]
)]
#[case::another_tenants("UPDATE audit_entry SET body = REPLACE(body, 'acme\"}', 'globex\"}')", &[2, 3, 4, 5, 6])]
#[tokio::test]
async fn tampering_is_found_at_the_right_entry(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] sql: &'static str,
    #[case] expected: &[u64],
) {
    open!(engine => database, store);
    let acme = tenant("acme");
    for n in 0..5 {
        decide(&store, &acme, n).await;
    }
    let audit = Audit::new(store.clone(), audit_key().public());
    let sound = audit.verify(&acme, None, None).await.unwrap();
    assert!(sound.chain_valid && sound.to_seq == 5, "{sound:?}");
    database.let_audit_entries_change().await;
    meddle(&database, sql).await;
    let found = audit.verify(&acme, None, None).await.unwrap();
    let at: Vec<u64> = found
        .anomalies
        .iter()
        .map(|anomaly| anomaly.at_seq)
        .collect();
    assert_eq!(at, expected);
    assert!(!found.chain_valid);
}

fn audit_key() -> SecretKey {
    SecretKey::from_random([3; 32])
}

fn checkpointer(store: &Arc<Database>) -> Checkpointer {
    Checkpointer::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
        audit_key(),
    )
}

#[rstest]
#[case("UPDATE audit_entry SET body = '{}' WHERE sequence = 2")]
#[case("DELETE FROM audit_entry WHERE sequence = 2")]
#[tokio::test]
async fn the_database_refuses_to_change_an_entry(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] sql: &'static str,
) {
    open!(engine => database, store);
    let acme = tenant("acme");
    for n in 0..3 {
        decide(&store, &acme, n).await;
    }
    let before = store.audit_entries(&acme, 0, 9).await.unwrap();
    let refused = match &database {
        super::TestStore::Sqlite(_) => {
            let path = database.location().replace("sqlite:", "");
            let options = SqliteConnectOptions::new().filename(path);
            let mut raw = options.connect().await.unwrap();
            sqlx::query(sql).execute(&mut raw).await.map(drop)
        }
        super::TestStore::Postgres(_) => {
            let mut raw = PgConnection::connect(&database.location()).await.unwrap();
            sqlx::query(sql).execute(&mut raw).await.map(drop)
        }
    };
    let cause = refused.unwrap_err().to_string();
    assert!(
        cause.contains("entries of the audit log are never"),
        "{cause}"
    );
    assert_eq!(store.audit_entries(&acme, 0, 9).await.unwrap(), before);
}

#[rstest]
#[tokio::test]
async fn checkpoints_cover_every_entry_once(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let (one, other) = (checkpointer(&store), checkpointer(&store));
    assert_eq!(one.sign_all().await.unwrap(), 0);
    for n in 0..3 {
        decide(&store, &acme, n).await;
    }
    decide(&store, &globex, 0).await;
    let (first, second) = tokio::join!(one.sign_all(), other.sign_all());
    assert_eq!(first.unwrap() + second.unwrap(), 2, "one for each tenant");
    assert_eq!(one.sign_all().await.unwrap(), 0, "nothing is new");
    for n in 3..5 {
        decide(&store, &acme, n).await;
    }
    assert_eq!(other.sign_all().await.unwrap(), 1);
    let audit = Audit::new(store.clone(), audit_key().public());
    let found = audit.verify(&acme, None, None).await.unwrap();
    assert!(found.chain_valid, "{found:?}");
    assert_eq!(found.checkpoints_valid, Some(true));
    let covered = |found: &[Checkpoint]| -> Vec<(u64, u64)> {
        let spans = found.iter().map(|it| (it.after, it.at_sequence));
        spans.collect()
    };
    assert_eq!(covered(&found.checkpoints), [(0, 3), (3, 5)]);
    assert_ne!(found.checkpoints[0].id, found.checkpoints[1].id);
    let part = audit.verify(&acme, Some(4), Some(5)).await.unwrap();
    assert_eq!(covered(&part.checkpoints), [(3, 5)]);
    assert!(part.chain_valid);
    let none = audit.verify(&acme, Some(1), Some(2)).await.unwrap();
    assert_eq!((none.checkpoints.len(), none.checkpoints_valid), (0, None));
    let stranger = Audit::new(store.clone(), SecretKey::from_random([4; 32]).public());
    let found = stranger.verify(&acme, None, None).await.unwrap();
    assert!(!found.chain_valid && found.anomalies.is_empty());
}

#[rstest]
#[case::signature(
    "UPDATE audit_checkpoint SET signature = (SELECT signature FROM audit_checkpoint WHERE at_sequence = 2)"
)]
#[case::root(
    "UPDATE audit_checkpoint SET merkle_root = (SELECT merkle_root FROM audit_checkpoint WHERE at_sequence = 2)"
)]
#[case::missing("DELETE FROM audit_checkpoint WHERE at_sequence = 2")]
#[case::widened("UPDATE audit_checkpoint SET after_sequence = 0 WHERE at_sequence = 4")]
#[tokio::test]
async fn a_forged_checkpoint_is_found(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] sql: &'static str,
) {
    open!(engine => database, store);
    let acme = tenant("acme");
    for n in 0..4 {
        decide(&store, &acme, n).await;
        if n % 2 == 1 {
            assert_eq!(checkpointer(&store).sign_all().await.unwrap(), 1);
        }
    }
    meddle(&database, sql).await;
    let audit = Audit::new(store.clone(), audit_key().public());
    let found = audit.verify(&acme, None, None).await.unwrap();
    assert_eq!(found.checkpoints_valid, Some(false), "{found:?}");
    assert!(!found.chain_valid && found.anomalies.is_empty());
}

#[rstest]
#[tokio::test]
async fn no_checkpoint_is_signed_for_a_changed_audit_chain(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let acme = tenant("acme");
    for n in 0..4 {
        decide(&store, &acme, n).await;
    }
    database.let_audit_entries_change().await;
    meddle(
        &database,
        "UPDATE audit_entry SET body = REPLACE(body, '@1.0.1', '@6.6.6') WHERE sequence = 2",
    )
    .await;
    decide(&store, &tenant("globex"), 0).await;
    assert_eq!(checkpointer(&store).sign_all().await.unwrap(), 1, "globex");
    let found = store.audit_checkpoints(&acme, 0, 9).await.unwrap();
    assert_eq!(found, []);
}

#[rstest]
#[tokio::test]
async fn a_decision_is_on_record_with_its_events_or_not_at_all(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let (record, companion) = (
        record("run_1", "acme", 1),
        CompanionRecord::Decision(Box::new(decision(1))),
    );
    let (log, more) = (events(&run, 1, 2), events(&run, 3, 1));
    let stale = Fence(fence.0 - 1);
    let late = run_store::runs::append_with(&store, &record, stale, &log, false, &companion);
    assert!(matches!(late.await, Err(StoreError::Fenced)));
    let acme = tenant("acme");
    let none = store.audit_entries(&acme, 0, 10).await.unwrap();
    assert_eq!(none, [], "an unrecorded decision is not audited");
    let appended = run_store::runs::append_with(&store, &record, fence, &log, true, &companion);
    appended.await.unwrap();
    let found = store.audit_entries(&acme, 0, 10).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].body.contains("deploy:promote"));
    assert_eq!(
        head(&store, &run).await.unwrap(),
        Some(super::head(2, true))
    );
    let again = run_store::runs::append_with(&store, &record, fence, &more, false, &companion);
    assert!(matches!(again.await, Err(StoreError::Fenced)), "it ended");
    assert_eq!(store.audit_head(&acme).await.unwrap().sequence, 1);
}

#[rstest]
#[tokio::test]
async fn activation_and_removal_of_a_version_exclude_each_other(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let pack = InstallRecord {
        tenant: acme.clone(),
        name: "acme.triage".to_owned(),
        version: "1.0.0".to_owned(),
        integrity: "sha256-pack".to_owned(),
        installed_at: at(0),
        facts: json!({}),
    };
    let other = InstallRecord {
        tenant: tenant("globex"),
        ..pack.clone()
    };
    pack_store::inventory::install(&store, &other, &[])
        .await
        .unwrap();
    let one = lifecycle("1.0.0");
    let goes = async |id: &str| {
        let after = Some((&one, Revision(0)));
        serve(&store, id, after, Some("sha256-pack"), None).await
    };
    assert!(
        matches!(goes("run_1").await, Err(StoreError::Stale)),
        "another tenant's entries are not visible"
    );
    pack_store::inventory::install(&store, &pack, &[])
        .await
        .unwrap();
    let remove = async |seen: i64| {
        let seen = [(agent(), Revision(seen))];
        pack_store::inventory::remove(&store, &acme, "acme.triage", "1.0.0", &seen).await
    };
    assert!(remove(0).await.unwrap());
    assert!(matches!(goes("run_1").await, Err(StoreError::Stale)));
    let (found, _) = deployment_store::deployments(&store, &acme, &agent())
        .await
        .unwrap();
    assert_eq!(found, Lifecycle::default());

    pack_store::inventory::install(&store, &pack, &[])
        .await
        .unwrap();
    goes("run_1").await.unwrap();
    assert!(matches!(remove(0).await, Err(StoreError::Stale)));
    assert_eq!(
        pack_store::inventory::installs(&store, &acme)
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(remove(1).await.unwrap());
}
