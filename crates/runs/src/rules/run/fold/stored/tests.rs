//! States that are stored and read again.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rules::run::fold::reference::log;
use crate::rules::run::fold::{RunStatus, TaskFacts};
use touchstone_kit::ids::TaskId;

fn run() -> RunId {
    "run_1".into()
}

/// All parts of a state, as if each had been stored at some time.
#[derive(Clone, Default)]
struct Parts {
    sequence: u64,
    head: Vec<u8>,
    chunks: Vec<Vec<u8>>,
    digests: Vec<String>,
}

impl Parts {
    /// Stores what has changed since these parts were stored.
    fn update(&mut self, state: &mut RunState) {
        let which = match self.digests.is_empty() {
            true => Tasks::All,
            false => Tasks::Changed,
        };
        let snapshot = state.snapshot(which).unwrap();
        let earlier = std::mem::take(&mut self.digests);
        self.put(snapshot.encode(&run(), earlier).unwrap());
    }

    fn put(&mut self, encoded: Encoded) {
        self.sequence = encoded.sequence;
        self.head = encoded.head;
        self.digests = encoded.digests;
        for (number, chunk) in encoded.chunks {
            self.chunks.truncate(self.digests.len());
            match self.chunks.get_mut(number as usize) {
                Some(known) => *known = chunk,
                None => self.chunks.push(chunk),
            }
        }
    }

    fn read(&self) -> Result<RunState, Unusable> {
        let mut reader = Reader::new(&run(), FORMAT.into(), self.sequence, &self.head)?;
        for (number, chunk) in (0..).zip(&self.chunks) {
            reader.add(number, chunk)?;
        }
        reader.finish()
    }
}

fn stored(state: &mut RunState) -> Parts {
    let mut parts = Parts::default();
    parts.update(state);
    parts
}

/// The same state, with the same sums and the same order of its tasks.
fn assert_same(read: &RunState, state: &RunState) {
    assert_eq!(read, state);
    let (read, tasks) = (&read.eval, &state.eval.tasks);
    assert_eq!(read.own_spending(), state.eval.own_spending());
    assert_eq!(read.known_cost(), state.eval.known_cost());
    let sums = |table: &TaskTable| {
        let numbers = [table.len(), table.answered(), table.judged()];
        (numbers, table.costs_are_known(), table.latest_scored(3))
    };
    assert_eq!(sums(&read.tasks), sums(tasks));
    assert!(read.tasks.iter().eq(tasks.iter()));
}

/// Stores the state at every event, wholly and as a change, and folds the rest on top of it.
fn assert_resumable(log: &[(u64, Vec<u8>)]) {
    let fold = |state: &mut RunState, log: &[(u64, Vec<u8>)]| {
        for (sequence, body) in log {
            state.apply_stored(*sequence, body);
        }
    };
    let mut whole = RunState::default();
    fold(&mut whole, log);
    let (mut state, mut changing) = (RunState::default(), Parts::default());
    for n in 0..=log.len() {
        let (before, rest) = log.split_at(n);
        fold(&mut state, before);
        changing.update(&mut state);
        assert_same(&changing.read().unwrap(), &state);
        let mut read = stored(&mut state).read().unwrap();
        assert_same(&read, &state);
        fold(&mut read, rest);
        assert_same(&read, &whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_stored_prefix_and_the_rest_of_the_log_fold_to_the_same_state(log in log()) {
        assert_resumable(&log);
    }

    #[test]
    fn a_damaged_state_is_refused(
        log in log(), at in any::<prop::sample::Index>(), bit in 0..8_u32, cut in any::<bool>(),
    ) {
        let mut state = RunState::default();
        for (sequence, body) in &log {
            state.apply_stored(*sequence, body);
        }
        let parts = stored(&mut state);
        let mut all = vec![parts.head.clone()];
        all.extend(parts.chunks.clone());
        for part in 0..all.len() {
            let mut damaged = all.clone();
            let place = at.index(damaged[part].len());
            match cut {
                true => damaged[part].truncate(place),
                false => damaged[part][place] ^= 1 << bit,
            }
            let chunks = damaged.split_off(1);
            let read = Parts { head: damaged.remove(0), chunks, ..parts.clone() }.read();
            prop_assert!(matches!(read, Err(Unusable::Damaged(_))));
        }
    }

    #[test]
    fn any_bytes_can_be_read_as_tasks(
        raw in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..200), tasks in 0..9_u32,
    ) {
        let snapshot = Snapshot {
            sequence: 0,
            state: to_raw_value(&RunState::default()).unwrap(),
            tasks,
            spans_unknown: false,
            labels: vec!["timeout".to_owned()],
            chunks: vec![(0, raw)],
        };
        if let Some(encoded) = snapshot.encode(&run(), Vec::new()) {
            let mut parts = Parts::default();
            parts.put(encoded);
            if let Ok(mut state) = parts.read() {
                assert_same(&stored(&mut state).read().unwrap(), &state);
            }
        }
    }
}

/// A log with every kind of event that changes the state.
fn log_of_everything() -> Vec<(u64, Vec<u8>)> {
    let suspended = |node: &str, kind: &str| json!({"nodeId": node, "interruptId": format!("int_{node}"), "kind": kind, "key": node});
    let requested = |kind: &str| {
        json!({"kind": kind, "key": "k", "data": {"deep": [1, 2.5, null, "x"]},
            "resumeSchema": {"type": "object"}, "timeoutMs": 5000})
    };
    let resolved = |node: &str, value: Value| {
        json!({"nodeId": node, "interruptId": format!("int_{node}"), "kind": "approval",
            "resumeValue": value, "resolvedBy": "key_2"})
    };
    let consumed =
        json!({"dimension": "toolCalls", "consumed": 0.1, "limit": 0.3, "percent": 80.0});
    let usage = json!({"provider": "p", "model": "m", "inputTokens": u64::MAX, "outputTokens": 2,
        "totalTokens": 3, "costEstimateUsd": 0.000_000_001, "currency": "USD"});
    let invoked = json!({"invocationId": "inv", "agentId": "a", "source": "run-api",
        "toolSurfaceCount": 0, "memoryBound": false});
    let score = json!({"taskId": "t-1", "score": 0.1, "passed": false, "latencyMs": 7});
    let events = [
        (
            "budget.reserved",
            None,
            json!({"effectiveBudget": {"maxTokens": 5}, "scope": "run"}),
        ),
        (
            "eval.started",
            None,
            json!({"suiteId": "s", "suiteVersion": "1.0.0", "taskCount": 2,
            "modes": ["golden"]}),
        ),
        ("agent.invocation.started", Some("t-1"), invoked.clone()),
        ("provider.usage", Some("t-1"), usage.clone()),
        (
            "agent.invocation.completed",
            Some("t-1"),
            json!({"invocationId": "inv", "agentId": "a",
            "outcome": "completed"}),
        ),
        ("provider.usage", Some("t-1"), usage.clone()),
        ("eval.scored", Some("t-1"), score),
        ("agent.invocation.started", Some("t-2"), invoked),
        ("touchstone.user.opens", Some("t-2"), json!({})),
        (
            "provider.usage",
            Some("t-2"),
            json!({"provider": "q", "model": "n", "inputTokens": 1,
            "outputTokens": 2, "totalTokens": 3, "currency": "USD"}),
        ),
        ("provider.usage", None, usage),
        (
            "agent.toolCalled",
            Some("t-2"),
            json!({"agentId": "a", "toolName": "w", "callId": "c"}),
        ),
        (
            "agent.toolReturned",
            Some("t-2"),
            json!({"agentId": "a", "toolName": "w", "callId": "c",
            "status": "forbidden"}),
        ),
        (
            "touchstone.effect.intended",
            Some("t-2"),
            json!({"tool": "w", "callId": "c"}),
        ),
        (
            "touchstone.fixture.missing",
            Some("t-2"),
            json!({"tool": "w", "callId": "c"}),
        ),
        (
            "touchstone.model.retried",
            Some("t-2"),
            json!({"attempt": 1, "reason": "r", "waitMs": 1}),
        ),
        (
            "touchstone.usage.estimated",
            Some("t-2"),
            json!({"inputTokens": 1, "outputTokens": 1}),
        ),
        (
            "touchstone.answer.cached",
            Some("t-2"),
            json!({"costSavedUsd": 0.5}),
        ),
        (
            "touchstone.turn.answered",
            Some("t-2"),
            json!({"turn": 1, "answer": "x"}),
        ),
        (
            "touchstone.user.said",
            Some("t-2"),
            json!({"turn": 1, "text": "x"}),
        ),
        (
            "touchstone.user.stopped",
            Some("t-2"),
            json!({"turn": 1, "reason": "done", "note": ""}),
        ),
        (
            "touchstone.task.failed",
            Some("t-2"),
            json!({"taskId": "t-2", "reason": "refused"}),
        ),
        (
            "touchstone.task.judged",
            Some("t-3"),
            json!({"taskId": "t-3", "judge": "j",
            "met": [true, false], "votes": [{"judge": "k", "met": [true, true]}]}),
        ),
        (
            "touchstone.task.measured",
            Some("t-3"),
            json!({"taskId": "t-3", "leftOut": 1,
            "assertions": [true, false], "metrics": {"m": 0.5}}),
        ),
        (
            "touchstone.assertions.decided",
            Some("t-3"),
            json!({"taskId": "t-3",
            "decisions": [{"assertion": "1.0", "by": "j", "score": 0.5, "holds": true,
                "verdicts": [true]}]}),
        ),
        (
            "touchstone.task.safety",
            Some("t-3"),
            json!({"taskId": "t-3",
            "findings": [{"kind": "leak", "severity": "high"}]}),
        ),
        (
            "touchstone.task.reused",
            Some("t-3"),
            json!({"taskId": "t-3",
            "sourceRunId": "run_0"}),
        ),
        (
            "eval.scored",
            Some("t-3"),
            json!({"taskId": "t-3", "score": 0.5, "passed": true}),
        ),
        (
            "touchstone.task.unjudged",
            Some("t-2"),
            json!({"taskId": "t-2", "reason": "timeout"}),
        ),
        ("budget.consumed", None, consumed.clone()),
        ("budget.threshold.crossed", None, consumed.clone()),
        ("budget.exhausted", None, consumed),
        (
            "touchstone.kind.observed",
            None,
            json!({"text": "\u{e9}\n", "n": [1.50, 1e3]}),
        ),
        (
            "replay.diverged",
            None,
            json!({"sourceRunId": "run_0", "atSequence": 3,
            "divergenceKind": "output", "divergencePoint": "eval.scored"}),
        ),
        (
            "node.started",
            Some("a"),
            json!({"nodeId": "a", "typeId": "core.mock", "attempt": 1}),
        ),
        (
            "ai.message.chunk",
            Some("a"),
            json!({"nodeId": "a", "runId": "run_1", "chunk": "x",
            "isLast": false}),
        ),
        (
            "node.completed",
            Some("a"),
            json!({"nodeId": "a", "outputs": {"n": 1.0, "m": {}}}),
        ),
        (
            "node.started",
            Some("b"),
            json!({"nodeId": "b", "typeId": "core.gate", "attempt": 1}),
        ),
        ("interrupt.requested", Some("b"), requested("approval")),
        ("node.suspended", Some("b"), suspended("b", "approval")),
        (
            "approval.granted",
            Some("b"),
            json!({"gateId": "b", "principal": "key_1"}),
        ),
        ("interrupt.resolved", Some("b"), resolved("b", json!(null))),
        (
            "node.resumed",
            Some("b"),
            json!({"nodeId": "b", "interruptId": "int_b"}),
        ),
        (
            "node.failed",
            Some("b"),
            json!({"nodeId": "b", "error": {"code": "c", "message": "m"}}),
        ),
        (
            "node.started",
            Some("budget"),
            json!({"nodeId": "budget", "typeId": "core.gate",
            "attempt": 1}),
        ),
        ("interrupt.requested", Some("budget"), requested("approval")),
        (
            "node.suspended",
            Some("budget"),
            suspended("budget", "approval"),
        ),
        (
            "interrupt.resolved",
            Some("budget"),
            resolved(
                "budget",
                json!({"action": "accept",
            "budgetDelta": {"maxCostUsd": 0.25, "maxTokens": 7}}),
            ),
        ),
        ("interrupt.requested", Some("c"), requested("clarification")),
        ("node.suspended", Some("c"), suspended("c", "clarification")),
        (
            "interrupt.requested",
            Some("d"),
            requested("external-event"),
        ),
        (
            "run.paused",
            None,
            json!({"drainPolicy": "immediate", "pausedBy": "key_1"}),
        ),
        ("run.resumed", None, json!({"resumedBy": "key_1"})),
        (
            "run.paused",
            None,
            json!({"drainPolicy": "drain-current-node", "pausedBy": "key_1"}),
        ),
        (
            "eval.completed",
            None,
            json!({"aggregateScore": 0.1, "passed": false, "taskCount": 2,
            "passedCount": 0}),
        ),
        (
            "run.cancelled",
            None,
            json!({"reason": "because", "cancelledBy": "key_1"}),
        ),
        (
            "run.failed",
            None,
            json!({"error": {"code": "c", "message": "m"}}),
        ),
    ];
    let started = json!({"workflowId": "eval:s@1.0.0", "transport": "rest", "engineVersion": "1",
        "owner": {"tenant": "acme", "principal": "key_1"}});
    let all = std::iter::once(("run.started", None, started)).chain(events);
    let document = |(sequence, (kind, node, payload)): (u64, (&str, Option<&str>, Value))| {
        let mut document = json!({"eventId": format!("evt_{sequence}"), "runId": "run_1",
            "type": kind, "sequence": sequence, "payload": payload,
            "timestamp": format!("2026-01-01T00:{sequence:02}:00.000000001Z")});
        if let Some(node) = node {
            document["nodeId"] = json!(node);
        }
        (sequence, document.to_string().into_bytes())
    };
    let mut log: Vec<(u64, Vec<u8>)> = (1..).zip(all).map(document).collect();
    let last = log.len() as u64;
    log.push((last + 3, b"{".to_vec()));
    log
}

#[test]
fn everything_but_tasks_is_stored_too() {
    let log = log_of_everything();
    assert_resumable(&log);
    let mut state = RunState::default();
    for (sequence, body) in &log {
        state.apply_stored(*sequence, body);
    }
    assert_eq!(state.eval.unreadable, 3, "each event of this test is read");
    let state = stored(&mut state).read().unwrap();
    assert_eq!(state.status, RunStatus::Failed);
    assert_eq!(state.flow.all_pending().count(), 1);
    assert_eq!(state.budget_extensions.len(), 1);
    assert_eq!(state.eval.extension.len(), 1);
}

/// If this test fails, the same log gives another state than in an earlier version, or the state is
/// written differently: raise `FORMAT`, so that states of that version are not read, and accept the
/// snapshot.
#[test]
fn the_format_stands_for_what_is_stored() {
    let mut state = RunState::default();
    for (sequence, body) in &log_of_everything() {
        state.apply_stored(*sequence, body);
    }
    let snapshot = state.snapshot(Tasks::All).unwrap();
    // Parsed, so that the order of nodes is always the same.
    let head: Value = serde_json::from_str(snapshot.state.get()).unwrap();
    let chunks: Vec<String> = snapshot
        .chunks
        .iter()
        .map(|(_, compressed)| hex(&uncompressed(compressed).unwrap()))
        .collect();
    insta::assert_json_snapshot!(json!({"format": FORMAT, "state": head,
        "labels": snapshot.labels, "chunks": chunks}));
}

fn scored(tokens: u64) -> TaskFacts {
    TaskFacts {
        scored: true,
        tokens,
        ..TaskFacts::default()
    }
}

fn state_of(tasks: u32) -> RunState {
    let mut state = RunState {
        sequence: u64::from(tasks),
        ..RunState::default()
    };
    for n in 0..tasks {
        let id = TaskId::from(format!("task-{n}"));
        state.eval.tasks.extend_span(&id, u64::from(n) + 1);
        state
            .eval
            .tasks
            .update(&id, |facts| *facts = scored(n.into()));
    }
    state
}

#[test]
fn only_the_chunks_that_have_changed_are_stored_again() {
    let mut state = state_of(2 * CHUNK + 10);
    let mut parts = stored(&mut state);
    assert_eq!(parts.chunks.len(), 3);
    let added = TaskId::from("another");
    for task in ["task-7", "another"].map(TaskId::from) {
        state.sequence += 1;
        state.eval.tasks.extend_span(&task, state.sequence);
        state.eval.tasks.update(&task, |facts| facts.tokens += 1000);
    }
    let snapshot = state.snapshot(Tasks::Changed).unwrap();
    let numbers: Vec<u32> = snapshot.chunks.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 2]);
    parts.put(snapshot.encode(&run(), parts.digests.clone()).unwrap());
    let mut read = parts.read().unwrap();
    assert_same(&read, &state);
    assert!(!read.eval.tasks.get(&added).unwrap().scored);
    // All chunks of a state that was read count as changed: its digests are unknown.
    assert_eq!(read.snapshot(Tasks::Changed).unwrap().chunks.len(), 3);
    assert!(read.snapshot(Tasks::Changed).unwrap().chunks.is_empty());
}

#[test]
fn a_state_is_read_only_for_its_run_at_its_sequence() {
    let parts = stored(&mut state_of(3));
    let read = |run: &str, format: u32, sequence: u64| {
        Reader::new(&run.into(), format.into(), sequence, &parts.head).map(drop)
    };
    assert!(read("run_1", FORMAT, 3).is_ok());
    assert!(matches!(
        read("run_2", FORMAT, 3),
        Err(Unusable::Damaged(_))
    ));
    assert!(matches!(
        read("run_1", FORMAT, 2),
        Err(Unusable::Damaged(_))
    ));
    let other = read("run_1", FORMAT + 1, 3);
    assert!(matches!(other, Err(Unusable::Format(format)) if format == i64::from(FORMAT) + 1));
}

#[test]
fn chunks_of_another_state_are_refused() {
    let parts = stored(&mut state_of(CHUNK + 3));
    let other = stored(&mut state_of(CHUNK + 4));
    let with = |chunks: &[&Vec<u8>]| {
        let chunks = chunks.iter().copied().cloned().collect();
        Parts {
            chunks,
            ..parts.clone()
        }
        .read()
    };
    let [first, second] = parts.chunks.as_slice() else {
        panic!("two chunks");
    };
    assert!(with(&[first, second]).is_ok());
    assert!(with(&[first]).is_err());
    assert!(with(&[second, first]).is_err());
    assert!(with(&[first, &other.chunks[1]]).is_err());
    assert!(with(&[first, second, second]).is_err());
}

/// A few bytes may stand for gigabytes.
#[test]
fn a_part_is_unpacked_up_to_a_limit() {
    let zeros = vec![0; MOST_BYTES];
    assert!(uncompressed(&compress(&zeros).unwrap()).is_some());
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&zeros).unwrap();
    encoder.write_all(&[0]).unwrap();
    assert!(uncompressed(&encoder.finish().unwrap()).is_none());
}

#[test]
fn a_state_that_would_not_read_back_is_not_stored() {
    let mut state = state_of(1);
    state.eval.tasks.update(&"odd".into(), |facts| {
        facts.latency_ms = Some(u64::MAX);
    });
    assert!(state.snapshot(Tasks::All).is_none());
    let mut state = state_of(1);
    state
        .budget_said
        .consumed
        .insert(touchstone_agents::budget::Dimension::Cost, f64::INFINITY);
    assert!(state.snapshot(Tasks::All).is_none());
    assert_eq!(state.eval.tasks.len(), 1, "the state stays whole");
}
