//! The compact facts of tasks against a plain map of them, over generated logs.

use std::collections::HashMap;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Cost, RunState, TaskFacts};
use touchstone_agents::budget::Spending;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{Event, EventDocument, ToolStatus};

/// All facts in a map, and every sum computed from all of them.
#[derive(Default)]
struct Reference {
    tasks: HashMap<TaskId, TaskFacts>,
    spans: HashMap<TaskId, (u64, u64)>,
    total_cost: Cost,
    unreadable: u64,
}

impl Reference {
    fn task(&mut self, id: &TaskId) -> &mut TaskFacts {
        self.tasks.entry(id.clone()).or_default()
    }

    fn fold(&mut self, sequence: u64, event: &Event, node: Option<&TaskId>) {
        if let Some(node) = node {
            let span = self
                .spans
                .entry(node.clone())
                .or_insert((sequence, sequence));
            span.1 = sequence;
        }
        match event {
            Event::EvalScored(it) => {
                let task = self.task(&it.task_id);
                task.scored = true;
                task.score = it.score;
                task.passed = it.passed;
                let is_unjudged = task.unjudged.is_some();
                task.latency_ms = it.latency_ms.filter(|ms| *ms > 0 || !is_unjudged);
                task.schema_valid = it.schema_valid;
            }
            Event::TaskFailed(it) => self.task(&it.task_id).failed = Some(it.reason.clone()),
            Event::TaskUnjudged(it) => self.task(&it.task_id).unjudged = Some(it.reason.clone()),
            Event::TaskJudged(it) => {
                let task = self.task(&it.task_id);
                task.criteria = it.met.clone();
                task.votes = it.votes.clone();
            }
            Event::TaskMeasured(it) => {
                let task = self.task(&it.task_id);
                task.assertions = it.assertions.clone();
                task.assertions_left_out = it.left_out;
                task.metrics = it.metrics.clone();
            }
            Event::AssertionsDecided(it) => self.task(&it.task_id).decisions = it.decisions.clone(),
            Event::TaskSafety(it) => {
                self.task(&it.task_id).safety_findings = Some(it.findings.clone())
            }
            Event::TaskReused(it) => {
                self.task(&it.task_id).reused_from = Some(it.source_run_id.clone());
            }
            Event::ProviderUsage(usage) => {
                self.total_cost.count(usage.cost_estimate_usd);
                let Some(node) = node else { return };
                let task = self.task(node);
                task.answers += 1;
                task.cost.count(usage.cost_estimate_usd);
                task.tokens += usage.total_tokens;
                if task.before_judge {
                    task.judge_cost.count(usage.cost_estimate_usd);
                } else if task.before_user {
                    task.user_cost.count(usage.cost_estimate_usd);
                } else {
                    task.attempt_cost.count(usage.cost_estimate_usd);
                    task.attempt_tokens += usage.total_tokens;
                }
            }
            Event::AgentInvocationStarted(started) if started.is_of_worker() => {}
            Event::AgentToolReturned(it) if it.status != ToolStatus::Forbidden => {}
            event => {
                if let Some(node) = node {
                    self.task(node).fold(event);
                }
            }
        }
    }

    fn own_spending(&self) -> Spending {
        let own = self
            .tasks
            .values()
            .filter(|task| task.reused_from.is_none());
        own.fold(Spending::default(), |sum, task| Spending {
            tokens: sum.tokens + task.tokens,
            cost: sum.cost + task.cost.at_least,
            tool_calls: sum.tool_calls + task.tool_calls,
            retries: sum.retries + task.all_retries,
        })
    }

    fn known_cost(&self) -> Option<NanoUsd> {
        let tasks = || self.tasks.values();
        let are_known =
            || tasks().any(|task| task.scored) && tasks().all(|task| task.known_cost().is_some());
        let known = self.total_cost.known();
        known.filter(|cost| *cost > NanoUsd::ZERO || are_known())
    }

    fn span_of(&self, tasks: &[TaskId]) -> Option<(u64, u64)> {
        let spans = tasks
            .iter()
            .filter_map(|task| self.spans.get(task).copied());
        let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        span.filter(|_| self.unreadable == 0)
    }

    fn agrees_with(&self, state: &RunState, ids: &[TaskId]) {
        let eval = &state.eval;
        for id in ids {
            let expected = self.tasks.get(id);
            assert_eq!(eval.tasks.get(id).as_deref(), expected, "{id}");
            let expected = expected.filter(|task| task.scored);
            assert_eq!(eval.scored(id).as_deref(), expected, "{id}");
            let one = std::slice::from_ref(id);
            assert_eq!(state.span_of(one.iter()), self.span_of(one), "{id}");
        }
        assert_eq!(state.span_of(ids.iter()), self.span_of(ids));
        let all: HashMap<TaskId, TaskFacts> = (eval.tasks.iter())
            .map(|(id, facts)| (id, facts.into_owned()))
            .collect();
        assert_eq!(all, self.tasks);
        let count = |wanted: &dyn Fn(&TaskFacts) -> bool| {
            self.tasks.values().filter(|task| wanted(task)).count()
        };
        assert_eq!(eval.tasks.len(), self.tasks.len());
        assert_eq!(eval.scored_count, count(&|task| task.scored));
        assert_eq!(eval.tasks.unscored().count(), count(&|task| !task.scored));
        assert_eq!(eval.tasks.answered(), count(&|task| task.answers > 0));
        let is_judged = |task: &TaskFacts| task.scored && task.unjudged.is_none();
        assert_eq!(eval.tasks.judged(), count(&is_judged));
        assert_eq!(eval.own_spending(), self.own_spending());
        assert_eq!(eval.known_cost(), self.known_cost());
        assert_eq!(eval.unreadable, self.unreadable);
    }
}

const TASKS: [&str; 4] = ["task-0", "task-1", "task-2", "task-3"];

/// Type and payload of an event of a task.
fn event() -> impl Strategy<Value = (&'static str, Value)> {
    let label = prop::sample::select(vec!["timeout", "refused", "unsafe"]);
    let cost = prop::option::of(0..5000_u64).prop_map(|nanos| nanos.map(|n| NanoUsd(n).usd()));
    let of_length = |range| prop::collection::vec(any::<bool>(), range);
    let bits = prop_oneof![of_length(0..4_usize), of_length(64..66)];
    let score = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
    let latency = prop::option::of(0..3_u64);
    let task = prop::sample::select(TASKS.to_vec());
    // Scores are frequent, so that other events follow them.
    (0..30_u8, any::<bool>(), task, label, cost, bits, score, latency).prop_map(
        |(kind, yes, task, label, cost, bits, score, latency)| match kind {
            0 | 1 => {
                let provider = if yes { "scripted-worker" } else { "probe" };
                let started = json!({"invocationId": label, "agentId": "a", "source": "run-api",
                    "resolvedProvider": provider, "toolSurfaceCount": 0, "memoryBound": false});
                ("agent.invocation.started", started)
            }
            2 | 3 => {
                let outcome = if yes { "completed" } else { "failed" };
                let completed = json!({"invocationId": label, "agentId": "a", "outcome": outcome});
                ("agent.invocation.completed", completed)
            }
            4 => {
                let called = json!({"agentId": "a", "toolName": label, "callId": "c"});
                ("agent.toolCalled", called)
            }
            5 => {
                let status = if yes { "forbidden" } else { "ok" };
                let returned = json!({"agentId": "a", "toolName": label, "callId": "c",
                    "status": status});
                ("agent.toolReturned", returned)
            }
            6 => ("touchstone.effect.intended", json!({"tool": label, "callId": "c"})),
            7 => ("touchstone.fixture.missing", json!({"tool": label, "callId": "c"})),
            8 => {
                let retried = json!({"attempt": 1, "reason": label, "waitMs": 1});
                ("touchstone.model.retried", retried)
            }
            9 => ("touchstone.usage.estimated", json!({"inputTokens": 1, "outputTokens": 1})),
            10 => match cost {
                Some(cost) => ("touchstone.answer.cached", json!({"costSavedUsd": cost})),
                None => ("touchstone.answer.cached", json!({})),
            },
            11 => ("touchstone.turn.answered", json!({"turn": 1, "answer": label})),
            12 => ("touchstone.user.opens", json!({})),
            13 => ("touchstone.user.said", json!({"turn": 1, "text": label})),
            14 => {
                let stopped = json!({"turn": 1, "reason": "done", "note": ""});
                ("touchstone.user.stopped", stopped)
            }
            15 => ("touchstone.task.failed", json!({"taskId": task, "reason": label})),
            16 => ("touchstone.task.unjudged", json!({"taskId": task, "reason": label})),
            17 => {
                let votes = json!([{"judge": label, "met": bits}, {"judge": "b", "met": bits}]);
                let votes = if yes { votes } else { json!([]) };
                let judged = json!({"taskId": task, "judge": label, "met": bits, "votes": votes});
                ("touchstone.task.judged", judged)
            }
            18 => {
                let metrics = if yes { json!({label: score}) } else { json!({}) };
                let measured = json!({"taskId": task, "assertions": bits, "leftOut": bits.len() % 3,
                    "metrics": metrics});
                ("touchstone.task.measured", measured)
            }
            19 => {
                let decision = json!({"assertion": "1.0", "by": label, "score": score,
                    "holds": yes, "verdicts": bits});
                let decided = json!({"taskId": task, "decisions": [decision]});
                ("touchstone.assertions.decided", decided)
            }
            20 => {
                let findings = json!([{"kind": label, "severity": "high"}]);
                let findings = if yes { findings } else { json!([]) };
                ("touchstone.task.safety", json!({"taskId": task, "findings": findings}))
            }
            21 => ("touchstone.task.reused", json!({"taskId": task, "sourceRunId": label})),
            22..25 => {
                let tokens = bits.len() * 100;
                let mut usage = json!({"provider": "probe", "model": label, "inputTokens": tokens,
                    "outputTokens": 1, "totalTokens": tokens + 1, "currency": "USD"});
                if let Some(cost) = cost {
                    usage["costEstimateUsd"] = json!(cost);
                }
                ("provider.usage", usage)
            }
            _ => {
                let mut scored = json!({"taskId": task, "score": score, "passed": yes});
                if let Some(latency) = latency {
                    scored["latencyMs"] = json!(latency);
                    scored["schemaValid"] = json!(yes);
                }
                ("eval.scored", scored)
            }
        },
    )
}

/// The documents of a log, some of which cannot be read. Sequences may be missing.
pub(super) fn log() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let node = prop::sample::select(vec![0, 0, 1, 1, 2, 3, TASKS.len()]);
    let rare = |weight| prop_oneof![weight => Just(true), 400 => Just(false)];
    let steps = prop::collection::vec((event(), node, rare(1), rare(1)), 0..120);
    steps.prop_map(|steps| {
        let mut sequence = 0;
        let document = |((kind, payload), node, is_damaged, skips): ((_, Value), usize, _, _)| {
            sequence += if skips { 2 } else { 1 };
            // Events of a task name it twice.
            let named = payload.get("taskId").and_then(Value::as_str);
            let node = named.or(TASKS.get(node).copied());
            let mut document = json!({"eventId": format!("evt_{sequence}"), "runId": "run_1",
                "type": kind, "sequence": sequence, "timestamp": "2026-01-01T00:00:00Z",
                "payload": payload});
            if let Some(node) = node {
                document["nodeId"] = json!(node);
            }
            match is_damaged {
                true => (sequence, b"{".to_vec()),
                false => (sequence, document.to_string().into_bytes()),
            }
        };
        steps.into_iter().map(document).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_compact_facts_are_those_of_a_plain_map(log in log(), read in 0..120_usize) {
        let ids: Vec<TaskId> = TASKS.map(TaskId::from).into();
        let (mut state, mut recorded) = (RunState::default(), RunState::default());
        let mut reference = Reference::default();
        let mut before = 0;
        for (n, (sequence, body)) in log.iter().enumerate() {
            state.apply_stored(*sequence, body);
            reference.unreadable += sequence - before - 1;
            before = *sequence;
            match EventDocument::read(body) {
                Ok(document) => {
                    let event = document.event().unwrap().unwrap();
                    reference.fold(*sequence, &event, document.node_id.as_ref());
                    let at = Timestamp::from_second(1_767_225_600).unwrap();
                    recorded.record(*sequence, &event, document.node_id.as_ref(), at);
                }
                Err(_) => reference.unreadable += 1,
            }
            if n == read {
                reference.agrees_with(&state, &ids);
            }
        }
        reference.agrees_with(&state, &ids);
        // What is recorded has the same state as what is read; a copy has it, too.
        recorded.eval.unreadable = reference.unreadable;
        recorded.sequence = state.sequence;
        prop_assert_eq!(&recorded, &state);
        state.eval.tasks.shrink();
        prop_assert_eq!(&state.clone(), &state);
        reference.agrees_with(&state, &ids);
    }
}
