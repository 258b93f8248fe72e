//! The memory of a suite that is read line by line, counted by the allocator. A binary of its own, because
//! it replaces the allocator and nothing else may allocate meanwhile.

use std::alloc::System;

use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};
use touchstone_packs::rules::suite_stream::reader::SuiteReader;
use touchstone_runs::rules::eval::suite_rules::check_suite;
use touchstone_runs::rules::kind::Kinds;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TASKS: usize = 2_000;

fn check(suite: &Value) -> Result<AgentEvalSuite, Vec<SuiteFault>> {
    check_suite(Kinds::NONE, suite)
}

/// Maximum memory of a reader of this many tasks, in bytes.
fn most_for(tasks: usize) -> Option<usize> {
    let header =
        json!({"suiteId": "vendor.acme.evals.items", "version": "1.0.0", "modes": ["golden"]});
    let task = |n: usize| {
        json!({"taskId": format!("item-{n}"), "input": {"text": format!("label item {n}")},
               "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "refund"}}})
    };
    let region = Region::new(ALLOCATOR);
    let live = || {
        let change = region.change();
        change.bytes_allocated - change.bytes_deallocated
    };
    let mut reader = SuiteReader::new(check);
    reader.line(header.to_string().as_bytes()).ok()?;
    let mut most = 0;
    for n in 0..tasks {
        // A chunk is dropped as soon as it is full, as an import does once it is stored.
        drop(reader.line(task(n).to_string().as_bytes()).ok()?);
        most = most.max(live());
    }
    let read = reader.finish().ok()?;
    (read.task_count == tasks as u64).then_some(most)
}

#[test]
fn a_further_task_takes_a_few_bytes_while_a_suite_is_read() {
    // Compiles the schema, which stays in memory.
    most_for(1).unwrap();
    let few = most_for(TASKS).unwrap();
    let many = most_for(10 * TASKS).unwrap();
    let each = many.saturating_sub(few) / (9 * TASKS);
    println!("{few} bytes for {TASKS} tasks, {each} for each further one");
    // The numbers of their ids, with room for as many again.
    assert!(each <= 32, "{each} bytes a task");
    assert!(few <= 512 * 1024, "{few} bytes");
}
