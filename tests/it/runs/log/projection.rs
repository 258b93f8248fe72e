//! The stored state of a long run: readers and the next owner continue it instead of folding the
//! whole log, and fold the log if it is gone or damaged.

use rstest::rstest;
use touchstone::kinds::KINDS;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::storage::ContentKept;
use touchstone_runs::rules::eval::statistics::ended::EndedResults;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::fold::stored::Tasks;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::library::Library;
use touchstone_runs::service::projections::Projections;
use touchstone_runs::service::projections::stored::{LONG_LOG, compare};
use touchstone_runs::store::projection;

use crate::runs::bench::{Bench, echo, eval};
use crate::store::Engine::{self, Postgres, Sqlite};

/// A run whose log is long, at least five events a task.
async fn seed_long(bench: &Bench) -> RunRecord {
    let says: Vec<String> = (0..LONG_LOG / 4).map(|n| format!("say {n}")).collect();
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    bench.seed(&says, |spec| spec.concurrency = 32).await
}

async fn stored(store: &Database, run: &RunId) -> Option<RunState> {
    let stored = projection::load(store, run).await.unwrap();
    stored.unwrap().state.map(|state| state.unwrap())
}

/// As a process that has just started reads it.
async fn read(store: &std::sync::Arc<Database>, run: &RunId) -> RunState {
    let projections = Projections::new(store.clone());
    projections.with_state(run, RunState::clone).await.unwrap()
}

async fn execute_sql(store: &Database, sql: &'static str) {
    query(sql).execute(store.writer().unwrap()).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn the_state_of_a_long_run_is_stored_at_its_end_and_by_readers(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let bench = Bench::on(database.open().await, echo);
    let run = seed_long(&bench).await;
    assert!(bench.execute().await);
    // A fold of the log.
    let state = bench.state(&run.run_id).await;
    assert!(state.sequence > LONG_LOG);
    assert_eq!(stored(&bench.store, &run.run_id).await.unwrap(), state);

    let compared = compare(&bench.store, 5, 100_000).await.unwrap();
    assert_eq!((compared.equal, compared.wrong), (1, Vec::new()));
    results_are_stored(&bench.store, &run, &state).await;

    // A reader does not need the events that are in the state.
    execute_sql(
        &bench.store,
        "UPDATE event SET body = '{}' WHERE sequence < 9",
    )
    .await;
    assert_eq!(read(&bench.store, &run.run_id).await, state);
    let compared = compare(&bench.store, 5, 100_000).await.unwrap();
    assert_eq!(
        (compared.equal, compared.wrong),
        (0, vec![run.run_id.clone()])
    );

    // Without the state, it folds the log and stores the state again.
    execute_sql(&bench.store, "DELETE FROM run_projection_part").await;
    let folded = read(&bench.store, &run.run_id).await;
    assert_eq!(folded.eval.unreadable, 8, "the log was folded");
    let again = stored(&bench.store, &run.run_id).await.unwrap();
    assert_eq!(again, folded);
}

/// The results of the run are stored beside its state, and single tasks are read from it.
async fn results_are_stored(store: &std::sync::Arc<Database>, run: &RunRecord, state: &RunState) {
    let (id, spec) = (&run.run_id, eval(run));
    let projections = Projections::new(store.clone());
    assert_eq!(projections.ended_at(id).await, Some(state.sequence));
    let ended = projections.ended_results(id, &spec.tasks).await.unwrap();
    let library = Library::new(store.clone(), KINDS);
    let suite = library.suite_index(&spec.suite_digest).await.unwrap();
    let expected = EndedResults::of(spec, &suite.unwrap().thresholds(), &state.eval);
    assert_eq!(ended.results, expected);
    let places = [7, 0, spec.tasks.len() - 1];
    let number = |place: usize| ended.results.results.row(place).unwrap().number;
    let found = projections.stored_facts(id, &places.map(number)).await;
    let found = found.unwrap();
    for place in places {
        let task = spec.tasks.get(place).unwrap();
        let expected = state.eval.scored(&task).unwrap();
        assert_eq!(found[&number(place)], *expected);
    }
    let unknown = projections.stored_facts(id, &[u32::MAX]).await;
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn the_state_of_a_short_run_is_not_stored() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a", "b"], |_| {}).await;
    assert!(bench.execute().await);
    read(&bench.store, &run.run_id).await;
    assert!(stored(&bench.store, &run.run_id).await.is_none());
}

#[rstest]
#[tokio::test]
async fn a_run_is_resumed_from_its_stored_state(#[values(true, false)] is_damaged: bool) {
    let bench = Bench::new(echo).await;
    let says = ["a", "b", "c", "d"];
    let whole = bench.seed(&says, |spec| spec.concurrency = 1).await;
    assert!(bench.execute().await);
    let log = bench.log(&whole.run_id).await;
    let mut scores = (1..)
        .zip(&log)
        .filter(|(_, event)| &*event.kind == "eval.scored");
    let (kept, _) = scores.nth(1).unwrap();

    let run = bench.seed(&says, |spec| spec.concurrency = 1).await;
    let log: Vec<StoredEvent> = log[..kept]
        .iter()
        .map(|event| {
            let text = String::from_utf8(event.body.to_vec()).unwrap();
            let text = text.replace(whole.run_id.as_str(), run.run_id.as_str());
            StoredEvent {
                body: text.into(),
                ..event.clone()
            }
        })
        .collect();
    bench.leave_behind(&run.run_id, &log).await;
    let mut state = RunState::default();
    for event in &log[..kept - 3] {
        state.apply_stored(event.sequence, &event.body);
    }
    let snapshot = state.snapshot(Tasks::All).unwrap();
    let encoded = snapshot.encode(&run.run_id, Vec::new()).unwrap();
    let store = &bench.store;
    let put = projection::store(store, &run.run_id, ContentKept::All, &encoded, None);
    assert!(put.await.unwrap());
    if is_damaged {
        let sql = "UPDATE run_projection_part SET octets = x'00' WHERE part = 1";
        execute_sql(store, sql).await;
    }
    let calls = bench.model.total();
    assert!(bench.execute().await);
    assert_eq!(bench.model.total() - calls, 2, "only what is missing");
    assert_eq!(bench.state(&run.run_id).await.eval.scored_count, 4);
}
