//! Stored states of runs: they equal a fold of the log, and go with the content of their run.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::storage::{ContentKept, Retained, RunDeletion};
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::fold::stored::{Encoded, FORMAT, Tasks, Unusable};
use touchstone_runs::store as run_store;
use touchstone_runs::store::projection::{self, Refused};

use crate::store::{Engine, Engine::*, at, claimed, open, record, tenant};

/// Type and payload of an event, and its task.
fn event() -> impl Strategy<Value = (&'static str, Value, usize)> {
    (0..8_u8, 0..6_usize, 0.0..=1.0, any::<bool>()).prop_map(|(kind, task, score, yes)| {
        let id = format!("task-{task}");
        let (kind, payload) = match kind {
            0 => (
                "agent.invocation.started",
                json!({"invocationId": id, "agentId": "a", "source": "run-api",
                    "toolSurfaceCount": 0, "memoryBound": yes}),
            ),
            1 => (
                "touchstone.task.unjudged",
                json!({"taskId": id, "reason": "timeout"}),
            ),
            2 => ("touchstone.unknown", json!({"score": score})),
            3 | 4 => (
                "provider.usage",
                json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": task,
                    "totalTokens": 1 + task, "currency": "USD", "costEstimateUsd": score}),
            ),
            _ => (
                "eval.scored",
                json!({"taskId": id, "score": score, "passed": yes}),
            ),
        };
        (kind, payload, task)
    })
}

fn log(run: &RunId, steps: Vec<(&'static str, Value, usize)>) -> Vec<StoredEvent> {
    let document = |(sequence, (kind, payload, task)): (u64, (&str, Value, usize))| {
        let body = json!({"eventId": format!("evt_{run}_{sequence}"), "runId": run,
            "sequence": sequence, "type": kind, "nodeId": format!("task-{task}"),
            "timestamp": "2026-01-01T00:00:00Z", "payload": payload});
        StoredEvent {
            sequence,
            kind: kind.into(),
            body: body.to_string().into(),
        }
    };
    (1..).zip(steps).map(document).collect()
}

fn fold(state: &mut RunState, log: &[StoredEvent]) {
    for event in log {
        state.apply_stored(event.sequence, &event.body);
    }
}

fn encoded(run: &RunId, state: &mut RunState) -> Encoded {
    let snapshot = state.snapshot(Tasks::All).unwrap();
    snapshot.encode(run, Vec::new()).unwrap()
}

async fn store_as(store: &Database, run: &RunId, kept: ContentKept, state: &mut RunState) -> bool {
    let encoded = encoded(run, state);
    projection::store(store, run, kept, &encoded, None)
        .await
        .unwrap()
}

async fn load(store: &Database, run: &RunId) -> Option<Result<RunState, Refused>> {
    projection::load(store, run).await.unwrap()?.state
}

async fn count(store: &Database, sql: &'static str) -> i64 {
    query(sql).fetch_one(store.readers()).await.unwrap()
}

async fn parts(store: &Database) -> (i64, i64) {
    (
        count(store, "SELECT COUNT(*) FROM run_projection").await,
        count(store, "SELECT COUNT(*) FROM run_projection_part").await,
    )
}

/// Four scores of the same task.
fn scores(run: &RunId) -> Vec<StoredEvent> {
    let scored = |n: u32| json!({"taskId": "task-0", "score": f64::from(n) / 8.0, "passed": true});
    log(run, (0..4).map(|n| ("eval.scored", scored(n), 0)).collect())
}

/// A run with a log of three scores, which has ended if `ends`, and its state.
async fn logged(store: &Database, id: &str, ends: bool) -> (RunId, RunState) {
    let (run, fence) = claimed(store, id).await;
    let log = &scores(&run)[..3];
    run_store::runs::append(store, &run, fence, log, ends)
        .await
        .unwrap();
    let mut state = RunState::default();
    fold(&mut state, log);
    (run, state)
}

fn decision(run: &RunId) -> Decision {
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

#[rstest]
#[tokio::test]
async fn any_stored_prefix_and_the_rest_of_the_log_are_the_fold_of_the_log(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let mut runner = TestRunner::deterministic();
    for case in 0..4 {
        let steps = prop::collection::vec(event(), 1..20);
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let (run, fence) = claimed(&store, &format!("run_{case}")).await;
        let log = log(&run, steps);
        let mut whole = RunState::default();
        fold(&mut whole, &log);
        let mut state = RunState::default();
        for n in 1..=log.len() {
            let event = &log[n - 1..n];
            run_store::runs::append(&store, &run, fence, event, false)
                .await
                .unwrap();
            fold(&mut state, event);
            assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
            let mut read = load(&store, &run).await.unwrap().unwrap();
            assert_eq!(read, state);
            fold(&mut read, &log[n..]);
            assert_eq!(read, whole);
        }
    }
}

#[rstest]
#[tokio::test]
async fn a_state_is_replaced_only_by_a_later_one(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, mut state) = logged(&store, "run_a", false).await;
    let mut earlier = RunState::default();
    fold(&mut earlier, &scores(&run)[..2]);
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    assert!(!store_as(&store, &run, ContentKept::All, &mut earlier).await);
    assert_eq!(load(&store, &run).await.unwrap().unwrap(), state);
    // The same again, as after damage.
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    // The events of a state must be in the log.
    let mut later = state.clone();
    fold(&mut later, &scores(&run)[3..]);
    assert!(!store_as(&store, &run, ContentKept::All, &mut later).await);
    // A replica of a newer version has stored one.
    let newer = FORMAT + 1;
    let sql = format!("UPDATE run_projection SET format = {newer}, sequence = 1");
    database.execute(sql).await;
    let refused = load(&store, &run).await.unwrap().unwrap_err();
    assert!(matches!(refused.reason, Unusable::Format(format) if format == i64::from(newer)));
    projection::discard(&store, &run, &refused).await.unwrap();
    assert!(!store_as(&store, &run, ContentKept::All, &mut state).await);
    // An older one does not keep it.
    let sql = format!(
        "UPDATE run_projection SET format = {}, sequence = 3",
        FORMAT - 1
    );
    database.execute(sql).await;
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    assert_eq!(load(&store, &run).await.unwrap().unwrap(), state);
}

#[rstest]
#[tokio::test]
async fn a_change_is_stored_only_on_top_of_the_state_that_it_continues(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, mut state) = logged(&store, "run_a", false).await;
    let mut before = RunState::default();
    fold(&mut before, &scores(&run)[..2]);
    let first = encoded(&run, &mut before);
    let change = encoded(&run, &mut state);
    let store_after = |encoded: Encoded, after| {
        let (store, run) = (store.clone(), run.clone());
        async move {
            projection::store(&store, &run, ContentKept::All, &encoded, after)
                .await
                .unwrap()
        }
    };
    assert!(
        !store_after(change.clone(), Some(2)).await,
        "nothing is stored"
    );
    assert!(store_after(first, None).await);
    assert!(!store_after(change.clone(), Some(1)).await);
    assert!(store_after(change.clone(), Some(2)).await);
    assert_eq!(load(&store, &run).await.unwrap().unwrap(), state);
    // Deleting everything loses nothing.
    for table in ["run_projection_part", "run_projection"] {
        database.execute(format!("DELETE FROM {table}")).await;
    }
    assert!(load(&store, &run).await.is_none());
    assert!(!store_after(change, Some(3)).await);
}

#[rstest]
#[tokio::test]
async fn damaged_and_foreign_rows_are_refused_and_deleted(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, mut state) = logged(&store, "run_a", true).await;
    let (other, mut foreign) = logged(&store, "run_b", true).await;
    let bytes = match engine {
        Sqlite => "x'00ff'",
        Postgres => "'\\x00ff'",
    };
    let number = "(SELECT number FROM run WHERE run_id = 'run_a')";
    let theirs = "(SELECT number FROM run WHERE run_id = 'run_b')";
    for damage in [
        format!(
            "UPDATE run_projection_part SET octets = {bytes} WHERE part = 0 AND run_number = {number}"
        ),
        format!(
            "UPDATE run_projection_part SET octets = {bytes} WHERE part = 1 AND run_number = {number}"
        ),
        format!("DELETE FROM run_projection_part WHERE part = 0 AND run_number = {number}"),
        format!("DELETE FROM run_projection_part WHERE part = 1 AND run_number = {number}"),
        format!(
            "INSERT INTO run_projection_part (run_number, part, octets) VALUES ({number}, 2, {bytes})"
        ),
        format!(
            "UPDATE run_projection_part SET part = -9 WHERE part = 1 AND run_number = {number}"
        ),
        format!("UPDATE run_projection SET sequence = 2 WHERE run_number = {number}"),
        format!("UPDATE run_projection SET sequence = 4 WHERE run_number = {number}"),
        format!("UPDATE run_projection SET sequence = -1 WHERE run_number = {number}"),
        format!(
            "UPDATE run_projection_part SET octets = (SELECT octets FROM run_projection_part
            WHERE part = 0 AND run_number = {theirs}) WHERE part = 0 AND run_number = {number}"
        ),
    ] {
        assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
        assert!(store_as(&store, &other, ContentKept::All, &mut foreign).await);
        database.execute(damage.clone()).await;
        let refused = load(&store, &run).await.unwrap().unwrap_err();
        assert!(matches!(refused.reason, Unusable::Damaged(_)), "{damage}");
        projection::discard(&store, &run, &refused).await.unwrap();
        assert!(load(&store, &run).await.is_none(), "{damage}");
        assert!(load(&store, &other).await.unwrap().is_ok());
    }
}

/// The results of a run and where it ends, as they are stored.
async fn results(store: &Database, run: &RunId) -> (Option<Vec<u8>>, Option<u64>) {
    let found = projection::results::load(store, run).await.unwrap();
    let ended_at = projection::results::ended_at(store, run).await.unwrap();
    (found.map(|it| it.results), ended_at)
}

#[rstest]
#[tokio::test]
async fn results_are_read_with_the_state_that_has_the_same_end(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, mut state) = logged(&store, "run_a", true).await;
    let put = |at: u64, octets: &'static [u8]| {
        let (store, run) = (store.clone(), run.clone());
        async move {
            let stored = projection::results::store(&store, &run, at, octets);
            stored.await.unwrap();
        }
    };
    put(3, b"without a state").await;
    assert_eq!(results(&store, &run).await, (None, None));
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    put(2, b"of another end").await;
    assert_eq!(results(&store, &run).await, (None, None));
    put(3, b"first").await;
    put(3, b"second").await;
    let stored = (Some(b"second".to_vec()), Some(3));
    assert_eq!(results(&store, &run).await, stored);
    let parts = projection::results::chunks(&store, &run, &[0, 9]).await;
    let parts: Vec<i64> = parts.unwrap().iter().map(|it| it.part).collect();
    assert_eq!(parts, [0, 1]);
    // A state with another end has replaced the one that they belong to.
    database
        .execute("UPDATE run_projection SET sequence = 2".to_owned())
        .await;
    assert_eq!(results(&store, &run).await, (None, None));
    database
        .execute("UPDATE run_projection SET sequence = 3".to_owned())
        .await;
    assert_eq!(results(&store, &run).await, stored);
    // They go with the state.
    let (whole, decided) = (record("run_a", "acme", 1), decision(&run));
    let dropped = run_store::storage::drop_content(&store, &whole, ContentKept::None, &decided);
    assert!(dropped.await.unwrap());
    assert_eq!(results(&store, &run).await, (None, None));
    let left = count(&store, "SELECT COUNT(*) FROM run_task_results").await;
    assert_eq!(left, 0);
}

#[rstest]
#[tokio::test]
async fn a_deleted_run_has_no_stored_state(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(true, false)] is_attempt: bool,
) {
    open!(engine => _database, store);
    let (run, mut state) = logged(&store, "run_a", true).await;
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    assert_eq!(parts(&store).await, (1, 2));
    let retained = match is_attempt {
        true => Retained::Attempt(Box::new(record("run_a", "acme", 1))),
        false => Retained::Nothing,
    };
    let (acme, decided) = (tenant("acme"), decision(&run));
    let deleted = run_store::storage::delete_run(&store, &acme, &run, &retained, &decided);
    assert_eq!(deleted.await.unwrap(), RunDeletion::Deleted);
    assert_eq!(parts(&store).await, (0, 0));
    // By a reader that folded the log before.
    for kept in [ContentKept::All, ContentKept::None] {
        assert!(!store_as(&store, &run, kept, &mut state).await);
    }
    run_store::storage::mask_events(&store, &run, &[], 3, true)
        .await
        .unwrap();
    assert!(!store_as(&store, &run, ContentKept::None, &mut state).await);
    assert_eq!(parts(&store).await, (0, 0));
}

#[rstest]
#[tokio::test]
async fn content_that_is_deleted_is_not_kept_in_a_stored_state(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, mut state) = logged(&store, "run_a", true).await;
    let whole = record("run_a", "acme", 1);
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    let decided = decision(&run);
    let dropped = run_store::storage::drop_content(&store, &whole, ContentKept::None, &decided);
    assert!(dropped.await.unwrap());
    assert_eq!(parts(&store).await, (0, 0));
    // While the log is masked, nothing is stored; afterwards, nothing that was folded before.
    assert!(projection::load(&store, &run).await.unwrap().is_none());
    assert!(!store_as(&store, &run, ContentKept::None, &mut state).await);
    run_store::storage::mask_events(&store, &run, &[], 3, true)
        .await
        .unwrap();
    assert!(!store_as(&store, &run, ContentKept::All, &mut state).await);
    let stored = projection::load(&store, &run).await.unwrap().unwrap();
    assert_eq!(stored.content, ContentKept::None);
    assert!(store_as(&store, &run, ContentKept::None, &mut state).await);
    assert_eq!(load(&store, &run).await.unwrap().unwrap(), state);
}

/// A replica of an earlier version has deleted content without knowing of stored states.
#[rstest]
#[tokio::test]
async fn a_state_with_other_content_is_not_read(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, mut state) = logged(&store, "run_a", true).await;
    let (other, mut kept) = logged(&store, "run_b", true).await;
    assert!(store_as(&store, &run, ContentKept::All, &mut state).await);
    assert!(store_as(&store, &other, ContentKept::All, &mut kept).await);
    let masked = "UPDATE run SET content = 'none' WHERE run_id = 'run_a'";
    database.execute(masked.to_owned()).await;
    assert!(load(&store, &run).await.is_none());
    projection::forget_outdated(&store).await.unwrap();
    assert_eq!(parts(&store).await, (1, 2));
    let deleted = "UPDATE run SET deleted_at = 1 WHERE run_id = 'run_b'";
    database.execute(deleted.to_owned()).await;
    assert!(load(&store, &other).await.is_none());
    projection::forget_outdated(&store).await.unwrap();
    assert_eq!(parts(&store).await, (0, 0));
}
