//! A run resumes from any prefix of its log.

use std::collections::HashSet;

use touchstone_openwop::events::{Event, EventDocument};
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo, outline};

const SAYS: [&str; 6] = ["a", "b", "wrong-c", "d", "e", "f"];

#[tokio::test]
async fn a_run_records_its_tasks_in_the_order_of_the_protocol() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&SAYS, |_| {}).await;
    assert!(bench.execute().await);
    let log = bench.log(&run.run_id).await;
    let outline = outline(&log);
    let types: Vec<&str> = outline.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(types[..2], ["run.started", "eval.started"]);
    assert_eq!(
        types[types.len() - 2..],
        ["eval.completed", "run.completed"]
    );
    for n in 0..SAYS.len() {
        let task = format!("task-{n}");
        let of_task: Vec<&str> = outline
            .iter()
            .filter(|(_, node)| node.as_deref() == Some(&task))
            .map(|(kind, _)| kind.as_str())
            .collect();
        assert_eq!(
            of_task,
            [
                "agent.invocation.started",
                "provider.usage",
                "agent.decided",
                "agent.invocation.completed",
                "eval.scored"
            ]
        );
    }
    let state = bench.state(&run.run_id).await;
    assert_eq!(state.eval.scored_count, 6);
    assert_eq!(
        state.eval.tasks.values().filter(|task| task.passed).count(),
        5
    );
    assert_eq!(state.eval.completed, Some(true));
}

/// The core property: cut the log after every event, let another process continue, and compare the
/// whole.
#[tokio::test]
async fn a_crash_at_any_event_loses_nothing_and_judges_no_task_twice() {
    let whole = {
        let bench = Bench::new(echo).await;
        let run = bench.seed(&SAYS, |_| {}).await;
        assert!(bench.execute().await);
        bench.log(&run.run_id).await
    };
    for cut in 0..whole.len() {
        let bench = Bench::new(echo).await;
        let run = bench.seed(&SAYS, |_| {}).await;
        let left = &whole[..cut];
        bench.leave_behind(&run.run_id, left).await;
        let scored_before: HashSet<String> = scored(left);
        assert!(bench.execute().await, "the run ends after a cut at {cut}");

        let log = bench.log(&run.run_id).await;
        assert_eq!(
            &log[..cut],
            left,
            "recorded events do not change (cut at {cut})"
        );
        let sequences: Vec<u64> = log.iter().map(|event| event.sequence).collect();
        assert_eq!(
            sequences,
            (1..=log.len() as u64).collect::<Vec<_>>(),
            "no gap (cut at {cut})"
        );
        let types: Vec<String> = outline(&log).into_iter().map(|(kind, _)| kind).collect();
        let count = |kind: &str| types.iter().filter(|found| *found == kind).count();
        assert_eq!(
            (
                count("run.started"),
                count("eval.started"),
                count("eval.completed"),
                count("run.completed")
            ),
            (1, 1, 1, 1),
            "cut at {cut}"
        );
        assert_eq!(types.last().map(String::as_str), Some("run.completed"));
        assert_eq!(
            (count("eval.scored"), scored(&log).len()),
            (6, 6),
            "one score per task (cut at {cut})"
        );
        assert_eq!(
            count("agent.invocation.started"),
            count("agent.invocation.completed"),
            "cut at {cut}"
        );
        for (n, say) in SAYS.iter().enumerate() {
            let again = usize::from(!scored_before.contains(&format!("task-{n}")));
            assert_eq!(
                bench.model.calls(say),
                again,
                "a scored task is not judged again (cut at {cut}, {say})"
            );
        }
    }
}

#[tokio::test]
async fn the_cost_of_an_interrupted_call_is_counted() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a"], |_| {}).await;
    assert!(bench.execute().await);
    let log = bench.log(&run.run_id).await;
    let usage = log
        .iter()
        .position(|event| &*event.kind == "provider.usage")
        .unwrap();

    let second = Bench::new(echo).await;
    let run = second.seed(&["a"], |_| {}).await;
    second.leave_behind(&run.run_id, &log[..=usage]).await;
    assert!(second.execute().await);
    let state = second.state(&run.run_id).await;
    assert_eq!(
        state.eval.total_cost.at_least.0,
        2 * 20_000,
        "two calls of 10 + 5 tokens are counted"
    );
    assert_eq!(
        state.eval.tasks.get(&"task-0".into()).unwrap().cost,
        state.eval.total_cost
    );
}

#[tokio::test]
async fn a_stale_writer_changes_nothing() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a", "b"], |_| {}).await;
    bench.leave_behind(&run.run_id, &[]).await;
    assert!(bench.execute().await);
    let log = bench.log(&run.run_id).await;
    let late = run_store::runs::append(
        &bench.store,
        &run.run_id,
        touchstone_host::ports::run_log::Fence(1),
        &log[..1],
        false,
    )
    .await;
    assert!(late.is_err());
    assert_eq!(bench.log(&run.run_id).await, log);
}

fn scored(log: &[touchstone_host::ports::run_log::StoredEvent]) -> HashSet<String> {
    log.iter()
        .filter_map(
            |event| match EventDocument::read(&event.body).unwrap().event().unwrap() {
                Some(Event::EvalScored(scored)) => Some(scored.task_id.to_string()),
                _ => None,
            },
        )
        .collect()
}
