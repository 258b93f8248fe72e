//! The memory of a run's state, counted by the allocator. A binary of its own, because it replaces the
//! allocator and nothing else may allocate meanwhile.

use std::alloc::System;

use jiff::Timestamp;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{Event, EventDocument};
use touchstone_runs::rules::run::fold::RunState;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TASKS: u64 = 100_000;

fn event(kind: &str, payload: &Value) -> Option<Event> {
    let document = json!({"eventId": "evt_1", "runId": "run_1", "type": kind, "sequence": 1,
        "timestamp": "2026-01-01T00:00:00Z", "payload": payload});
    let document = document.to_string();
    EventDocument::read(document.as_bytes())
        .ok()?
        .event()
        .ok()?
}

/// The events of a task with one model call, and of the end of the run.
fn plain_run() -> Option<(Vec<Event>, Event)> {
    let task = [
        event(
            "agent.invocation.started",
            &json!({"invocationId": "inv-1", "agentId": "a", "source": "run-api",
                    "toolSurfaceCount": 0, "memoryBound": false}),
        )?,
        event(
            "provider.usage",
            &json!({"provider": "openai", "model": "m", "inputTokens": 30, "outputTokens": 5,
                    "totalTokens": 35, "costEstimateUsd": 0.000_004_65, "currency": "USD"}),
        )?,
        event(
            "agent.invocation.completed",
            &json!({"invocationId": "inv-1", "agentId": "a", "outcome": "completed"}),
        )?,
    ];
    let error = json!({"code": "internal_error", "message": "the run failed"});
    Some((task.into(), event("run.failed", &json!({"error": error}))?))
}

#[test]
fn a_plain_task_takes_at_most_100_bytes_of_the_state() {
    let (events, end) = plain_run().unwrap();
    let mut state = RunState::default();
    let region = Region::new(ALLOCATOR);
    let live = || region.change().bytes_allocated - region.change().bytes_deallocated;
    let mut most = 0;
    for n in 1..=TASKS {
        let id = TaskId::from(format!("item-{n}"));
        let mut fold = |event: &Event| {
            state.record(state.sequence + 1, event, Some(&id), Timestamp::UNIX_EPOCH);
        };
        events.iter().for_each(&mut fold);
        let scored = json!({"taskId": id, "score": n % 10 / 9, "passed": n % 10 == 9,
            "latencyMs": 80 + n % 1000, "schemaValid": true});
        fold(&event("eval.scored", &scored).unwrap());
        most = most.max(live());
    }
    assert_eq!(state.eval.scored_count as u64, TASKS);
    state.record(state.sequence + 1, &end, None, Timestamp::UNIX_EPOCH);
    let (most, ended) = (most as u64 / TASKS, live() as u64 / TASKS);
    println!("at most {most} bytes a task, {ended} after the end");
    assert!(most <= 100, "at most {most} bytes a task");
    assert!(ended <= 60, "{ended} bytes a task after the end");
    let counted = state.eval.tasks.bytes() as u64;
    let of_tasks = live() as u64;
    assert!(
        of_tasks.abs_diff(counted) < of_tasks / 20,
        "{counted} of {of_tasks}"
    );
}
