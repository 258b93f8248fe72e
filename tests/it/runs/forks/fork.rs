//! Forks: a replay makes no calls, a branch executes only the events after its history, and a kill
//! in between changes nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rstest::rstest;
use serde_json::Value;
use touchstone::kinds::KINDS;
use touchstone_agents::ports::agent::{
    AgentRuntime, EventSink, Invocation, InvocationResult, Meter,
};
use touchstone_agents::ports::model::{ModelBinding, Models};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_openwop::suite::{ModelClass, Thresholds};
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::eval::report::report;
use touchstone_runs::rules::run::fork::{Fork, ForkMode, inherit};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::executor::eval::EvalExecutor;
use touchstone_runs::service::executor::task_loop::TenantPermits;
use touchstone_runs::service::executor::{ExecutionOutcome, Executor};
use touchstone_runs::service::journal::{Journal, JournalError};
use touchstone_runs::service::library::Library;
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo, outline};
use crate::store::Engine::{self, Postgres, Sqlite};

/// Fails the test on any call of a model, a judge or a tool.
struct Nobody;

impl Models for Nobody {
    fn resolve(&self, _: ModelClass) -> Option<ModelBinding> {
        panic!("a replay called a model")
    }

    fn judge(&self) -> Option<ModelBinding> {
        panic!("a replay called a judge")
    }
}

#[async_trait]
impl AgentRuntime for Nobody {
    async fn invoke(
        &self,
        _: Invocation<'_>,
        _: &dyn Meter,
        _: &dyn EventSink,
    ) -> InvocationResult {
        panic!("a replay invoked an agent")
    }
}

pub fn asking_nobody(bench: &mut Bench) {
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let library = Arc::new(Library::new(bench.store.clone(), KINDS));
    let eval = EvalExecutor {
        store: bench.store.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
        library,
        models: Arc::new(Nobody),
        cluster: None,
        runtime: Arc::new(Nobody),
        tools: None,
        kinds: Vec::new(),
        permits: TenantPermits::new(64),
    };
    bench.executor = Executor::new(
        bench.store.clone(),
        clock,
        ids,
        bench.projections.clone(),
        eval,
    );
}

pub async fn forked(
    bench: &Bench,
    source: &RunRecord,
    mode: ForkMode,
    from_seq: u64,
    history: u64,
) -> RunRecord {
    let mut fork = source.clone();
    fork.run_id = SystemIds.mint("run").into();
    fork.fork = Some(Fork {
        source_run_id: source.run_id.clone(),
        from_seq,
        mode,
        history,
        origin: source.facts_of().clone(),
        forked_by: "key".to_owned(),
    });
    run_store::runs::create(&bench.store, &fork, None)
        .await
        .unwrap();
    fork
}

/// An event without the parts that differ between runs.
fn fact(event: &StoredEvent) -> Value {
    let mut document: Value = serde_json::from_slice(&event.body).unwrap();
    for own in ["eventId", "runId", "timestamp", "causationId"] {
        document.as_object_mut().unwrap().remove(own);
    }
    document
}

fn facts(log: &[StoredEvent]) -> Vec<Value> {
    log.iter().map(fact).collect()
}

const SAYS: [&str; 5] = ["a", "wrong-b", "c", "d", "e"];

async fn source(
    engine: Engine,
) -> Option<(crate::store::TestStore, Bench, RunRecord, Vec<StoredEvent>)> {
    let database = engine.database().await?;
    let bench = Bench::on(database.open().await, echo);
    let source = bench.seed(&SAYS, |_| {}).await;
    assert!(bench.execute().await);
    let log = bench.log(&source.run_id).await;
    Some((database, bench, source, log))
}

#[rstest]
#[tokio::test]
async fn a_replay_repeats_every_fact_without_calls(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some((_database, mut bench, source, log)) = source(engine).await else {
        return;
    };
    asking_nobody(&mut bench);
    let replay = forked(&bench, &source, ForkMode::Replay, 0, log.len() as u64).await;
    assert!(bench.execute().await);
    let copy = bench.log(&replay.run_id).await;
    assert_eq!(facts(&copy), facts(&log));
    for (event, original) in copy.iter().zip(&log) {
        let [event, original] =
            [event, original].map(|event| serde_json::from_slice::<Value>(&event.body).unwrap());
        assert_eq!(event["runId"], replay.run_id.as_str());
        assert_ne!(event["eventId"], original["eventId"]);
        if let Some(cause) = event.get("causationId") {
            // The same cause, within the replay's own log.
            let at = |log: &[StoredEvent], id: &Value| {
                let of = |event: &StoredEvent| {
                    serde_json::from_slice::<Value>(&event.body).unwrap()["eventId"] == *id
                };
                log.iter().position(of)
            };
            assert!(at(&copy, cause).is_some());
            assert_eq!(at(&copy, cause), at(&log, &original["causationId"]));
        }
    }
    let summary = async |run: &RunRecord| {
        let eval = run.spec.eval().unwrap();
        let state = bench.state(&run.run_id).await;
        report(KINDS, run, eval, &Thresholds::default(), &state).summary
    };
    assert_eq!(summary(&replay).await, summary(&source).await);
    // A replay of the replay has the same origin.
    let again = forked(&bench, &replay, ForkMode::Replay, 0, copy.len() as u64).await;
    assert_eq!(again.facts_of(), &source.run_id);
    assert!(bench.execute().await);
    assert_eq!(facts(&bench.log(&again.run_id).await), facts(&log));
}

#[rstest]
#[tokio::test]
async fn a_kill_in_the_middle_of_a_replay_changes_nothing(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some((_database, mut bench, source, log)) = source(engine).await else {
        return;
    };
    asking_nobody(&mut bench);
    let step = if engine == Sqlite { 1 } else { 5 };
    for cut in (0..log.len()).step_by(step) {
        let replay = forked(&bench, &source, ForkMode::Replay, 0, log.len() as u64).await;
        bench
            .leave_behind(&replay.run_id, &copied(&replay, &log[..cut]))
            .await;
        assert!(bench.execute().await, "cut at {cut}");
        let copy = bench.log(&replay.run_id).await;
        assert_eq!(facts(&copy), facts(&log), "cut at {cut}");
        let ids: HashSet<String> = copy
            .iter()
            .map(|event| {
                serde_json::from_slice::<Value>(&event.body).unwrap()["eventId"].to_string()
            })
            .collect();
        assert_eq!(ids.len(), copy.len(), "cut at {cut}");
    }
}

/// Half of a history may look like a run that waits for a person; the answer must not end up in the
/// middle of it.
#[tokio::test]
async fn nothing_is_appended_to_a_fork_before_it_has_its_history() {
    let Some((_database, mut bench, source, log)) = source(Sqlite).await else {
        return;
    };
    asking_nobody(&mut bench);
    let replay = forked(&bench, &source, ForkMode::Replay, 0, log.len() as u64).await;
    bench
        .leave_behind(&replay.run_id, &copied(&replay, &log[..4]))
        .await;
    let journal = Journal::new(
        bench.store.clone(),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
        "service".to_owned(),
    );
    let said = journal
        .append(&bench.tenant, &replay.run_id, |_| Err(JournalError::Ended))
        .await;
    assert!(matches!(said, Err(JournalError::Busy)), "{said:?}");
    assert!(bench.execute().await);
    assert_eq!(facts(&bench.log(&replay.run_id).await), facts(&log));
}

/// The events that a killed process would have copied of a fork's history.
fn copied(fork: &RunRecord, events: &[StoredEvent]) -> Vec<StoredEvent> {
    events
        .iter()
        .map(|event| {
            let inherited = inherit(&fork.run_id, &event.body).unwrap();
            let at = SystemClock.now();
            let body = touchstone_openwop::events::write_inherited(
                &fork.run_id,
                event.sequence,
                at,
                &inherited,
            );
            StoredEvent {
                sequence: event.sequence,
                kind: event.kind.clone(),
                body: body.unwrap().into(),
            }
        })
        .collect()
}

/// Every position of a branch, each with a kill half way through copying its history.
#[rstest]
#[tokio::test]
async fn a_branch_keeps_its_history_and_executes_the_rest(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some((_database, bench, source, log)) = source(engine).await else {
        return;
    };
    let step = if engine == Sqlite { 1 } else { 4 };
    for from_seq in (1..=log.len()).step_by(step) {
        let before: Vec<usize> = SAYS.iter().map(|say| bench.model.calls(say)).collect();
        let kept = &log[..from_seq - 1];
        let branch = forked(
            &bench,
            &source,
            ForkMode::Branch,
            from_seq as u64,
            kept.len() as u64,
        )
        .await;
        let left = copied(&branch, &kept[..kept.len() / 2]);
        bench.leave_behind(&branch.run_id, &left).await;
        assert!(bench.execute().await, "from {from_seq}");
        let own = bench.log(&branch.run_id).await;
        assert_eq!(facts(&own[..kept.len()]), facts(kept), "from {from_seq}");
        let types: Vec<String> = outline(&own).into_iter().map(|(kind, _)| kind).collect();
        let count = |kind: &str| types.iter().filter(|found| *found == kind).count();
        assert_eq!(
            (
                count("run.started"),
                count("eval.started"),
                count("eval.scored"),
                count("eval.completed")
            ),
            (1, 1, SAYS.len(), 1),
            "from {from_seq}"
        );
        assert_eq!(types.last().map(String::as_str), Some("run.completed"));
        for (n, say) in SAYS.iter().enumerate() {
            let task = format!("task-{n}");
            let scored = outline(kept).iter().any(|(kind, node)| {
                kind == "eval.scored" && node.as_deref() == Some(task.as_str())
            });
            let calls = bench.model.calls(say) - before[n];
            assert_eq!(calls, usize::from(!scored), "{say} from {from_seq}");
        }
    }
}

/// A log whose verdict contradicts its scores.
#[tokio::test]
async fn a_replay_that_diverges_is_reported_once_and_keeps_recorded_values() {
    let Some((_database, mut bench, source, log)) = source(Sqlite).await else {
        return;
    };
    let altered: Vec<StoredEvent> = log
        .iter()
        .map(|event| {
            let mut document: Value = serde_json::from_slice(&event.body).unwrap();
            if &*event.kind == "eval.completed" {
                document["payload"]["passedCount"] = 1.into();
            }
            StoredEvent {
                body: document.to_string().into(),
                ..event.clone()
            }
        })
        .collect();
    let mut other = source.clone();
    other.run_id = SystemIds.mint("run").into();
    run_store::runs::create(&bench.store, &other, None)
        .await
        .unwrap();
    let claim = run_store::queue::claim(&bench.store, "x", Claimable::All, Duration::from_secs(60))
        .await
        .unwrap()
        .unwrap();
    run_store::runs::append(&bench.store, &other.run_id, claim.fence, &altered, true)
        .await
        .unwrap();

    asking_nobody(&mut bench);
    let replay = forked(&bench, &other, ForkMode::Replay, 0, log.len() as u64).await;
    assert!(bench.execute().await);
    let copy = bench.log(&replay.run_id).await;
    let diverged: Vec<Value> = copy
        .iter()
        .filter(|event| &*event.kind == "replay.diverged")
        .map(|event| fact(event)["payload"].clone())
        .collect();
    assert_eq!(
        diverged,
        [
            serde_json::json!({"sourceRunId": other.run_id, "atSequence": log.len() - 1,
                            "divergenceKind": "output", "divergencePoint": "eval.completed"})
        ]
    );
    let rest: Vec<Value> = copy
        .iter()
        .filter(|event| &*event.kind != "replay.diverged")
        .map(|event| fact(event)["payload"].clone())
        .collect();
    let recorded: Vec<Value> = altered
        .iter()
        .map(|event| fact(event)["payload"].clone())
        .collect();
    assert_eq!(rest, recorded);

    // Killed right after the mismatch was recorded.
    let again = forked(&bench, &other, ForkMode::Replay, 0, log.len() as u64).await;
    let said = copy
        .iter()
        .position(|event| &*event.kind == "replay.diverged")
        .unwrap();
    bench.leave_behind(&again.run_id, &copy[..=said]).await;
    assert!(bench.execute().await);
    assert_eq!(outline(&bench.log(&again.run_id).await), outline(&copy));
}

#[rstest]
#[case::cut_off(&[])]
#[case::damaged(b"{\"eventId\":")]
#[tokio::test]
async fn a_fork_whose_source_lacks_events_fails_and_says_so(#[case] fifth: &'static [u8]) {
    let Some((_database, mut bench, source, log)) = source(Sqlite).await else {
        return;
    };
    asking_nobody(&mut bench);
    // The source after its end was lost, or became unreadable.
    let mut left = log[..4].to_vec();
    if !fifth.is_empty() {
        left.push(StoredEvent {
            body: fifth.into(),
            ..log[4].clone()
        });
    }
    let mut cut_off = source.clone();
    cut_off.run_id = SystemIds.mint("run").into();
    run_store::runs::create(&bench.store, &cut_off, None)
        .await
        .unwrap();
    bench.leave_behind(&cut_off.run_id, &left).await;
    let replay = forked(&bench, &cut_off, ForkMode::Replay, 0, log.len() as u64).await;
    let claim = run_store::queue::claim_run(
        &bench.store,
        &bench.tenant,
        &replay.run_id,
        "x",
        Duration::ZERO,
    )
    .await
    .unwrap()
    .unwrap();
    let control = crate::runs::bench::undisturbed();
    let outcome = bench.executor.execute(claim, control).await;
    assert_eq!(outcome, ExecutionOutcome::Ended, "the run is not retried");
    let state = bench.state(&replay.run_id).await;
    assert_eq!(state.error.unwrap().code, "replay_source_missing");
    assert_eq!(state.sequence, 5);
}
