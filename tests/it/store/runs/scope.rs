//! One active run per scope, on both engines and across replicas.

use rstest::rstest;

use crate::store::{Engine, Engine::*, events, open, record, tenant};
use touchstone_host::ports::store::StoreError;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::run::record::{RunRecord, RunScope};
use touchstone_runs::store as run_store;

fn about(id: &str, owner: &str, scope: &str, exclusive: bool) -> RunRecord {
    let mut record = record(id, owner, 1);
    record.spec.scope = Some(RunScope {
        id: scope.to_owned(),
        exclusive,
    });
    record
}

#[rstest]
#[tokio::test]
async fn a_scope_is_free_again_when_its_run_has_ended(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    run_store::runs::create(&store, &about("r1", "acme", "s", false), None)
        .await
        .unwrap();
    let taken = run_store::runs::create(&store, &about("r2", "acme", "s", true), None).await;
    assert!(matches!(taken, Err(StoreError::ScopeTaken(run)) if run.as_str() == "r1"));
    assert!(
        run_store::runs::find(&store, &tenant("acme"), &"r2".into())
            .await
            .unwrap()
            .is_none()
    );
    for (id, owner, scope, exclusive) in [
        ("r3", "globex", "s", true),
        ("r4", "acme", "t", true),
        ("r5", "acme", "s", false),
    ] {
        let created =
            run_store::runs::create(&store, &about(id, owner, scope, exclusive), None).await;
        assert!(created.is_ok(), "{id}");
    }
    for run in ["r1", "r3", "r4", "r5"] {
        let claim = run_store::queue::claim(&store, "w", Claimable::All, crate::store::TTL)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(claim.run.run_id.as_str(), run);
        let id = &claim.run.run_id;
        run_store::runs::append(&store, id, claim.fence, &events(id, 1, 1), true)
            .await
            .unwrap();
    }
    run_store::runs::create(&store, &about("r6", "acme", "s", true), None)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn of_two_replicas_one_creates_the_run(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let replicas = [database.open().await, database.open().await];
    let creating = (0..20).map(|n| {
        let (store, run) = (
            replicas[n % 2].clone(),
            about(&format!("r{n}"), "acme", "s", true),
        );
        tokio::spawn(async move { run_store::runs::create(&store, &run, None).await })
    });
    let mut created = 0;
    for done in futures_util::future::join_all(creating).await {
        match done.unwrap() {
            Ok(()) => created += 1,
            Err(StoreError::ScopeTaken(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(created, 1);
}
