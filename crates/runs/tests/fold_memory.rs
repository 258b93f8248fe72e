//! The memory of a run's state, of its totals and of its documents, counted by the allocator. A
//! binary of its own, because it replaces the allocator and nothing else may allocate meanwhile.

use std::alloc::System;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{Event, EventDocument};
use touchstone_openwop::suite::Thresholds;
use touchstone_runs::render::document::json::ReportJson;
use touchstone_runs::render::document::list::JsonForm;
use touchstone_runs::render::document::{Next, RunDocument, TaskRow};
use touchstone_runs::render::junit::Junit;
use touchstone_runs::render::markdown::Markdown;
use touchstone_runs::render::sarif::Sarif;
use touchstone_runs::render::scorecard::Scorecard;
use touchstone_runs::rules::eval::comparison::ShortComparison;
use touchstone_runs::rules::eval::report::{RunTotals, report, totals};
use touchstone_runs::rules::eval::statistics::{
    CollectedResults, Evidence, EvidenceRun, statistics,
};
use touchstone_runs::rules::kind::Kinds;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::listing::RunResult;
use touchstone_runs::rules::run::record::RunRecord;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TASKS: u64 = 100_000;
/// Tasks of a run whose totals are built.
const FEWER_TASKS: u64 = 20_000;
/// Only one test at a time counts.
static ALONE: Mutex<()> = Mutex::new(());

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

/// The state of a run whose tasks have ended, without the end of the run. `after_task` is called after
/// each task.
fn folded(tasks: u64, events: &[Event], mut after_task: impl FnMut()) -> Option<RunState> {
    let mut state = RunState::default();
    for n in 1..=tasks {
        let id = TaskId::from(format!("item-{n}"));
        let mut fold = |event: &Event| {
            state.record(state.sequence + 1, event, Some(&id), Timestamp::UNIX_EPOCH);
        };
        events.iter().for_each(&mut fold);
        let scored = json!({"taskId": id, "score": n % 10 / 9, "passed": n % 10 == 9,
            "latencyMs": 80 + n % 1000, "schemaValid": true});
        fold(&event("eval.scored", &scored)?);
        after_task();
    }
    Some(state)
}

#[test]
fn a_plain_task_takes_at_most_100_bytes_of_the_state() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (events, end) = plain_run().unwrap();
    let region = Region::new(ALLOCATOR);
    let live = || region.change().bytes_allocated - region.change().bytes_deallocated;
    let mut most = 0;
    let mut state = folded(TASKS, &events, || most = most.max(live())).unwrap();
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

/// A run of these tasks.
fn record() -> Option<RunRecord> {
    let tasks: Vec<String> = (1..=FEWER_TASKS).map(|n| format!("item-{n}")).collect();
    serde_json::from_value(json!({
        "runId": "run_1", "tenant": "acme", "principal": "ann", "createdAt": Timestamp::UNIX_EPOCH,
        "spec": {"workflowId": "eval:x", "work": {"eval": {
            "suiteId": "vendor.acme.evals.items", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": FEWER_TASKS, "agentId": "vendor.acme.clerk.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "m"}, "modes": ["golden"], "tasks": tasks,
            "concurrency": 1,
        }}},
    }))
    .ok()
}

#[test]
fn totals_and_the_row_of_the_list_allocate_little_for_each_task() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (events, end) = plain_run().unwrap();
    let mut state = folded(FEWER_TASKS, &events, || ()).unwrap();
    state.record(state.sequence + 1, &end, None, Timestamp::UNIX_EPOCH);
    let (record, thresholds) = (record().unwrap(), Thresholds::default());
    let spec = record.spec.eval().unwrap();
    // All bytes that were ever allocated, which are more than are needed at the same time.
    let allocated = |build: &dyn Fn()| {
        let region = Region::new(ALLOCATOR);
        build();
        region.change().bytes_allocated as u64 / FEWER_TASKS
    };
    let of_totals = allocated(&|| {
        black_box(totals(Kinds::NONE, &record, spec, &thresholds, &state));
    });
    let of_row = allocated(&|| {
        let row = RunResult::of_eval(Kinds::NONE, &record, spec, &thresholds, &state);
        black_box(row);
    });
    let of_report = allocated(&|| {
        black_box(report(Kinds::NONE, &record, spec, &thresholds, &state));
    });
    println!("{of_totals} bytes a task for totals, {of_row} for a row, {of_report} for a report");
    assert!(of_totals <= 32, "{of_totals} bytes a task for totals");
    assert!(of_row <= 160, "{of_row} bytes a task for a row");
}

#[test]
fn results_that_are_read_in_pages_take_little_for_each_task() {
    const PAGE: usize = 500;
    const ALL: usize = 50_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let region = Region::new(ALLOCATOR);
    let mut results = CollectedResults::default();
    for first in (0..ALL).step_by(PAGE) {
        for (numbers, task) in page(first, PAGE) {
            results.add(&numbers, &task);
        }
    }
    let found = results.finish();
    let change = region.change();
    let live = change.bytes_allocated - change.bytes_deallocated;
    black_box(found);
    println!("{} bytes a task", live / ALL);
    // The row, and the id with its end.
    assert!(live <= 80 * ALL, "{live} bytes");
}

/// A comparison in which `tasks` tasks broke, as its text is read.
struct Text {
    rest: Vec<u8>,
    changes: usize,
    region: Region<'static, System>,
    most: usize,
}

impl Read for Text {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.changes > 0 {
            self.changes -= 1;
            let result = |passes: bool| json!({"passes": passes, "score": 1.0, "trials": 1, "passedTrials": 1});
            let id = format!("item-{:07}", self.changes);
            let change = json!({"taskId": id, "turn": "broke", "baseline": result(true), "candidate": result(false)});
            let end = if self.changes == 0 { "]}" } else { "," };
            self.rest = format!("{change}{end}").into_bytes();
        }
        let change = self.region.change();
        let live = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        self.most = self.most.max(live);
        let length = buffer.len().min(self.rest.len());
        for (to, from) in buffer.iter_mut().zip(self.rest.drain(..length)) {
            *to = from;
        }
        Ok(length)
    }
}

#[test]
fn comparisons_of_ten_times_as_many_tasks_take_the_same_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let side = json!({"runId": "run_1", "runIds": ["run_1"], "missingTrials": 0, "suiteId": "s",
        "suiteVersion": "1.0.0", "suiteDigest": "d", "agentId": "a", "agentVersion": "1.0.0",
        "model": "m", "provider": "p"});
    let measured = |changes: usize| {
        let head = json!({"baseline": side, "candidate": side, "differences": [], "notes": [],
            "nTasks": changes, "leftOut": [], "score": null, "costUsd": null, "latencyMs": null,
            "confidence": 0.95, "fixed": 0, "broke": changes, "mcnemarP": null,
            "regression": {"verdict": "regressed", "margin": 0.02, "confidence": 0.9, "low": null,
                "high": null}});
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or_default();
        let mut text = Text {
            rest: format!("{head},\"changes\":[").into_bytes(),
            changes,
            region: Region::new(ALLOCATOR),
            most: 0,
        };
        let short: ShortComparison = serde_json::from_reader(&mut text).unwrap();
        assert_eq!(short.changes.count, changes);
        text.most
    };
    let (few, many) = (measured(1_000), measured(10_000));
    println!("at most {few} bytes for 1,000 changed tasks, {many} bytes for 10,000");
    assert!(many <= few + few / 10, "{few}, {many}");
}

/// Counts what is allocated when something is written.
struct Measured<'a> {
    region: Region<'a, System>,
    most: usize,
    written: usize,
}

impl Write for Measured<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let change = self.region.change();
        let live = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        self.most = self.most.max(live);
        self.written += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tasks of which every other one failed.
fn page(first: usize, tasks: usize) -> Vec<TaskRow> {
    let row = |n: usize| {
        let id = format!("item-{n:07}");
        let passed = n.is_multiple_of(2);
        let numbers = json!({"taskId": id, "score": f64::from(u8::from(passed)), "passed": passed,
            "latencyMs": 80, "costUsd": 0.000_004_65});
        let outcome = if passed { "passed" } else { "failed" };
        let task = json!({"taskId": id, "outcome": outcome});
        Some((
            serde_json::from_value(numbers).ok()?,
            serde_json::from_value(task).ok()?,
        ))
    };
    (first..first + tasks).filter_map(row).collect()
}

/// The most bytes that were allocated while the document was written, and the length of the document.
fn measured(document: &mut dyn RunDocument, tasks: usize) -> io::Result<(usize, usize)> {
    const PAGE: usize = 500;
    let mut out = Measured {
        region: Region::new(ALLOCATOR),
        most: 0,
        written: 0,
    };
    document.begin(&mut out)?;
    loop {
        for first in (0..tasks).step_by(PAGE) {
            document.add(&page(first, PAGE), &mut out)?;
        }
        if document.end(&mut out)? == Next::Done {
            return Ok((out.most, out.written));
        }
    }
}

#[test]
fn documents_of_ten_times_as_many_tasks_take_the_same_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (events, end) = plain_run().unwrap();
    let mut state = folded(FEWER_TASKS, &events, || ()).unwrap();
    state.record(state.sequence + 1, &end, None, Timestamp::UNIX_EPOCH);
    let (record, thresholds) = (record().unwrap(), Thresholds::default());
    let spec = record.spec.eval().unwrap();
    let run = EvidenceRun::of_run(Kinds::NONE, &record, spec, &thresholds, &state);
    let totals: RunTotals = run.report.clone();
    let found = statistics(&Evidence::of_run(run), None, None);
    drop(state);
    let json = |form| ReportJson::new(&totals, form).unwrap();
    type Made<'a> = Box<dyn Fn() -> Box<dyn RunDocument + 'a> + 'a>;
    let documents: [(&str, Made<'_>); 6] = [
        ("JUnit", Box::new(|| Box::new(Junit::new(&totals)))),
        ("JSON", Box::new(|| Box::new(json(JsonForm::Compact)))),
        (
            "indented JSON",
            Box::new(|| Box::new(json(JsonForm::Indented))),
        ),
        (
            "SARIF",
            Box::new(|| Box::new(Sarif::new(&totals, &[], &[]))),
        ),
        (
            "Markdown",
            Box::new(|| Box::new(Markdown::new(&totals, &found, None))),
        ),
        (
            "scorecard",
            Box::new(|| Box::new(Scorecard::new(&totals, &found, None, Default::default()))),
        ),
    ];
    for (name, document) in documents {
        let (few, short) = measured(&mut *document(), 5_000).unwrap();
        let (many, long) = measured(&mut *document(), 50_000).unwrap();
        println!("{name}: at most {few} bytes for {short}, {many} bytes for {long}");
        assert!(long > 9 * short, "{name}: {short}, {long}");
        // Identifiers of the same length, so only the growth of buffers differs.
        assert!(many <= few + few / 10, "{name}: {few}, {many}");
    }
}
