//! Tool calls that earlier runs recorded, read from their logs: they replace the fixtures of tasks
//! (OpenWOP v2 runs, `fixtureRuns`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::ports::storage::ContentKept;
use crate::store;
use touchstone_agents::rules::RecordedCall;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::events::{
    AgentToolCalled, AgentToolReturned, Event, EventDocument, ToolStatus, args_hash,
};

/// The label of a task whose recorded tool calls were deleted after the run was created.
const FIXTURE_CONTENT_DELETED: &str = "fixture_content_deleted";

/// The label of a task whose recorded tool calls this host does not hold beside those of other
/// tasks.
const FIXTURE_CALLS_TOO_LARGE: &str = "fixture_calls_too_large";

/// Size of the events whose calls are held for one run.
const MAX_BYTES: usize = 64 << 20;

const PAGE: u32 = 1024;

#[derive(Debug, Default)]
pub(super) struct Recordings {
    by_task: HashMap<TaskId, Vec<RecordedCall>>,
    /// Why a task has no calls although it should.
    missing: HashMap<TaskId, &'static str>,
    bytes: usize,
}

impl Recordings {
    /// Reads the calls of these tasks from the run that is named for each.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read(
        store: &Database,
        runs: &BTreeMap<TaskId, RunId>,
    ) -> Result<Self, StoreError> {
        let mut found = Self::default();
        for run in runs.values().collect::<BTreeSet<_>>() {
            let of_run = runs.iter().filter(|it| it.1 == run);
            let tasks = of_run.map(|it| it.0);
            let tasks: HashSet<TaskId> = tasks.cloned().collect();
            found.read_run(store, run, &tasks).await?;
            // Read afterwards: content that was deleted meanwhile must not become an answer.
            if store::storage::content_kept(store, run).await? != Some(ContentKept::All) {
                found.by_task.retain(|task, _| !tasks.contains(task));
                let deleted = tasks.into_iter().map(|it| (it, FIXTURE_CONTENT_DELETED));
                found.missing.extend(deleted);
            }
        }
        Ok(found)
    }

    async fn read_run(
        &mut self,
        store: &Database,
        run: &RunId,
        tasks: &HashSet<TaskId>,
    ) -> Result<(), StoreError> {
        let mut calls = CallsByTask::of(tasks.clone(), MAX_BYTES.saturating_sub(self.bytes));
        let mut after = 0;
        loop {
            let page = store::runs::read(store, run, after, PAGE).await?;
            for stored in &page {
                after = stored.sequence;
                if let Ok(document) = EventDocument::read(&stored.body) {
                    calls.fold(&document, stored.body.len());
                }
            }
            if reaches_end(&page, PAGE) {
                self.extend(calls);
                return Ok(());
            }
        }
    }

    /// The calls that answer those of a task; `None` if its own fixtures do.
    pub fn of(&self, task: &TaskId) -> Option<&[RecordedCall]> {
        self.by_task.get(task).map(Vec::as_slice)
    }

    /// Why a task that should have recorded calls cannot be executed.
    pub fn missing(&self, task: &TaskId) -> Option<&'static str> {
        self.missing.get(task).copied()
    }

    fn extend(&mut self, calls: CallsByTask) {
        for (task, calls) in calls.by_task {
            self.bytes += calls.bytes;
            if calls.is_too_large {
                self.missing.insert(task, FIXTURE_CALLS_TOO_LARGE);
            } else {
                self.by_task.insert(task, calls.answered);
            }
        }
    }
}

/// The answered calls of the attempt that counts, by task.
struct CallsByTask {
    by_task: HashMap<TaskId, Calls>,
    /// Bytes of further events whose calls may be held.
    room: usize,
}

#[derive(Default)]
struct Calls {
    /// Without an answer yet.
    open: Vec<AgentToolCalled>,
    answered: Vec<RecordedCall>,
    bytes: usize,
    is_too_large: bool,
}

impl CallsByTask {
    fn of(tasks: HashSet<TaskId>, room: usize) -> Self {
        let tasks = tasks.into_iter().map(|task| (task, Calls::default()));
        Self {
            by_task: tasks.collect(),
            room,
        }
    }

    /// Reads an event of this size.
    fn fold(&mut self, document: &EventDocument<'_>, size: usize) {
        let task = document.node_id.as_ref();
        let Some(calls) = task.and_then(|task| self.by_task.get_mut(task)) else {
            return;
        };
        let event = document.event();
        match &event {
            // An attempt that was cut off does not count.
            Ok(Some(Event::AgentInvocationStarted(started))) if !started.is_of_worker() => {
                self.room += calls.bytes;
                *calls = Calls::default();
            }
            Ok(Some(Event::AgentToolCalled(_) | Event::AgentToolReturned(_))) => {
                if calls.is_too_large {
                    return;
                }
                if size > self.room {
                    self.room += calls.bytes;
                    *calls = Calls::default();
                    calls.is_too_large = true;
                    return;
                }
                self.room -= size;
                calls.bytes += size;
            }
            _ => return,
        }
        match event {
            Ok(Some(Event::AgentToolCalled(called))) => calls.open.push(called),
            Ok(Some(Event::AgentToolReturned(returned))) => calls.answer(returned),
            _ => {}
        }
    }
}

impl Calls {
    fn answer(&mut self, returned: AgentToolReturned) {
        let mut open = self.open.iter();
        let Some(place) = open.position(|it| it.call_id == returned.call_id) else {
            return;
        };
        let called = self.open.remove(place);
        let hash = called.args_hash;
        let hash = hash.or_else(|| args_hash(called.inputs.as_ref()?));
        // A call without an answer was not made, or its tool could not be reached.
        if let (Some(args_hash), true) = (hash, returned.is_answered()) {
            self.answered.push(RecordedCall {
                tool: called.tool_name,
                args_hash,
                failed: returned.status == ToolStatus::Error,
                outcome: returned.outcome.unwrap_or_default(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SIZE: usize = 100;

    fn read(log: &[(&str, Value)], room: usize) -> Recordings {
        let mut calls = CallsByTask::of(HashSet::from([TaskId::from("t")]), room);
        for (kind, payload) in log {
            for node in ["t", "another"] {
                let body = json!({"eventId": "evt_1", "type": kind, "payload": payload,
                    "timestamp": "2026-11-01T00:00:00Z", "sequence": 1, "nodeId": node});
                let body = serde_json::to_vec(&body).unwrap();
                calls.fold(&EventDocument::read(&body).unwrap(), SIZE);
            }
        }
        let mut found = Recordings::default();
        found.extend(calls);
        found
    }

    fn started(provider: &str) -> (&'static str, Value) {
        let payload = json!({"invocationId": "i", "agentId": "a.b", "source": "run-api",
            "resolvedProvider": provider, "toolSurfaceCount": 1, "memoryBound": false});
        ("agent.invocation.started", payload)
    }

    fn called(call: &str, hash: Option<&str>) -> (&'static str, Value) {
        let payload = json!({"agentId": "a.b", "toolName": "t:x", "callId": call, "argsHash": hash,
            "inputs": {"call": call}});
        ("agent.toolCalled", payload)
    }

    fn returned(call: &str, status: &str, outcome: Value, error: Value) -> (&'static str, Value) {
        let payload = json!({"agentId": "a.b", "toolName": "t:x", "callId": call, "status": status,
            "outcome": outcome, "error": error});
        ("agent.toolReturned", payload)
    }

    #[test]
    fn answered_calls_of_the_attempt_that_counts_are_recorded() {
        let error = json!({"code": "tool_unavailable", "message": "m"});
        let log = [
            started("openai"),
            called("cut off", Some("h")),
            returned("cut off", "ok", json!(0), Value::Null),
            started("openai"),
            called("a", Some("h1")),
            called("b", None),
            returned("b", "error", json!("no"), Value::Null),
            started(touchstone_openwop::events::AgentInvocationStarted::WORKER_PROVIDER),
            returned("a", "ok", json!({"n": 1}), Value::Null),
            called("c", Some("h3")),
            returned("c", "error", Value::Null, error.clone()),
            called("d", Some("h4")),
            returned("d", "forbidden", Value::Null, error),
            called("e", Some("h5")),
        ];
        let call = |args_hash: &str, failed, outcome| RecordedCall {
            tool: "t:x".to_owned(),
            args_hash: args_hash.to_owned(),
            failed,
            outcome,
        };
        let computed = args_hash(&json!({"call": "b"})).unwrap();
        let expected = [
            call(&computed, true, json!("no")),
            call("h1", false, json!({"n": 1})),
        ];
        let found = read(&log, MAX_BYTES);
        assert_eq!(found.by_task.len(), 1);
        assert_eq!(found.of(&TaskId::from("t")), Some(&expected[..]));
        // The events of calls after the last start.
        assert_eq!(found.bytes, 9 * SIZE);
    }

    #[test]
    fn calls_that_need_too_much_memory_are_not_held() {
        let log = [
            started("openai"),
            called("a", Some("h1")),
            returned("a", "ok", json!(1), Value::Null),
        ];
        let task = TaskId::from("t");
        let found = read(&log, 2 * SIZE);
        assert_eq!(
            (found.of(&task).map(<[_]>::len), found.missing(&task)),
            (Some(1), None)
        );
        let found = read(&log, 2 * SIZE - 1);
        assert_eq!(found.of(&task), None);
        assert_eq!(found.missing(&task), Some("fixture_calls_too_large"));
        assert_eq!(found.bytes, 0);
        // An attempt that was cut off takes no room from the next.
        let again = [log.clone(), log.clone()].concat();
        assert_eq!(read(&again, 2 * SIZE).missing(&task), None);
        let after_large = [&log[..], &log[1..], &log[..]].concat();
        assert_eq!(read(&after_large, 2 * SIZE).missing(&task), None);
    }
}
