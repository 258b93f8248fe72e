//! The eval runs of a version as attempts, and those voided.

use rstest::rstest;
use serde_json::json;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::AgentId;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::eval::attempts::Voided;
use touchstone_runs::store as run_store;

use crate::store::{Engine, Engine::*, TTL, at, claimed, open, record, tenant};

fn event(sequence: u64, kind: &str) -> StoredEvent {
    StoredEvent {
        sequence,
        kind: kind.into(),
        body: json!({"eventId": format!("evt_run_1_{sequence}"), "sequence": sequence})
            .to_string()
            .into(),
    }
}

async fn created(store: &Database, id: &str, owner: &str, version: &str) {
    let mut run = record(id, owner, 1);
    run.spec.eval_mut().unwrap().agent_version = version.to_owned();
    run_store::runs::create(store, &run, None).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn every_eval_of_a_version_is_listed_whether_it_has_ended_or_not(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &[event(1, "run.failed")], true)
        .await
        .unwrap();
    created(&store, "run_2", "acme", "1.0.0").await;
    created(&store, "run_other", "acme", "1.1.0").await;
    created(&store, "run_theirs", "globex", "1.0.0").await;
    created(&store, "run_3", "acme", "1.0.0").await;
    let (acme, agent) = (tenant("acme"), AgentId::from("pack.agent"));
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let page = run_store::attempts::eval_runs(&store, &acme, &agent, "1.0.0", after, 2);
        let page = page.await.unwrap();
        found.extend(page.iter().map(|(_, run)| run.run_id.to_string()));
        match page.last() {
            Some((number, _)) => after = *number,
            None => break,
        }
    }
    assert_eq!(found, ["run_1", "run_2", "run_3"]);
}

#[rstest]
#[tokio::test]
async fn verdict_events_are_read_without_the_rest_of_the_log(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let log = [
        event(1, "run.started"),
        event(2, "provider.usage"),
        event(3, "eval.scored"),
        event(4, "agent.reasoned"),
        event(5, "touchstone.task.unjudged"),
        event(6, "run.completed"),
    ];
    run_store::runs::append(&store, &run, fence, &log, true)
        .await
        .unwrap();
    let sequences = async |after, limit| {
        let events = run_store::attempts::verdicts(&store, &run, after, limit)
            .await
            .unwrap();
        events.iter().map(|it| it.sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(0, 10).await, [1, 3, 5, 6]);
    assert_eq!(sequences(3, 1).await, [5]);
}

#[rstest]
#[tokio::test]
async fn a_run_is_declared_void_once_and_on_record(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (acme, agent) = (tenant("acme"), AgentId::from("pack.agent"));
    for id in ["run_1", "run_2"] {
        created(&store, id, "acme", "1.0.0").await;
        let claim = run_store::queue::claim(&store, "worker", Claimable::All, TTL)
            .await
            .unwrap()
            .unwrap();
        let end = [event(1, "run.completed")];
        run_store::runs::append(&store, &claim.run.run_id, claim.fence, &end, true)
            .await
            .unwrap();
    }
    let voided = Voided {
        at: at(1),
        principal: "key_1".to_owned(),
        reason: "wrong endpoint".to_owned(),
    };
    let decision = Decision {
        at: at(1),
        principal: "key_1".to_owned(),
        action: "runs:void".to_owned(),
        resource: "run_2".to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: None,
    };
    let run = "run_2".into();
    run_store::attempts::void(&store, &acme, &run, &voided, &decision, None)
        .await
        .unwrap();
    let again = run_store::attempts::void(&store, &acme, &run, &voided, &decision, None).await;
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
    let theirs = tenant("globex");
    let foreign =
        run_store::attempts::void(&store, &theirs, &"run_1".into(), &voided, &decision, None).await;
    assert!(foreign.is_err());
    let found = run_store::attempts::voided(&store, &acme, &agent, "1.0.0")
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[&run], voided);
    assert!(
        run_store::attempts::voided(&store, &acme, &agent, "1.1.0")
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        run_store::attempts::voided(&store, &theirs, &agent, "1.0.0")
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.audit_entries(&acme, 0, 10).await.unwrap().len(), 1);
    // No version has it as its newest evidence any more.
    let newest = run_store::runs::newest_eval(&store, &acme, &agent, "1.0.0")
        .await
        .unwrap();
    assert_eq!(newest.unwrap().as_str(), "run_1");
}
