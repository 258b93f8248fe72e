//! Invariants of a log, however often its writer was killed.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::process::api::Api;
use crate::process::endpoint::Asked;

const TERMINAL: [&str; 3] = ["run.completed", "run.failed", "run.cancelled"];

/// A client that has read part of a log and checks that the host never contradicts it.
pub struct Witness {
    seen: Vec<Value>,
    /// Tasks seen scored before a kill, with the era that started then: no request for them may
    /// arrive in that era or later.
    settled: HashMap<String, u32>,
    since: u32,
}

impl Witness {
    /// A witness of a run created in this era.
    pub fn since(era: u32) -> Self {
        Self {
            seen: Vec::new(),
            settled: HashMap::new(),
            since: era,
        }
    }

    /// The highest sequence seen.
    pub fn last(&self) -> u64 {
        self.seen
            .last()
            .map_or(0, |event| event["sequence"].as_u64().unwrap())
    }

    /// Whether the terminal event was seen.
    pub fn ended(&self) -> bool {
        self.seen.last().is_some_and(is_terminal)
    }

    /// The number of tasks seen scored.
    pub fn scored(&self) -> u64 {
        let scored = of(&self.seen, "eval.scored").count();
        u64::try_from(scored).unwrap()
    }

    /// Reads new events, waiting up to `patience` seconds for one.
    pub async fn look(&mut self, api: &Api, run: &str, patience: u64) {
        let Some((events, complete)) = api.poll(run, self.last(), patience).await else {
            return;
        };
        self.seen.extend(events);
        assert_eq!(
            complete,
            self.ended(),
            "`isComplete` is true with the terminal event, not before"
        );
    }

    /// Records that the host was killed and `era` started.
    pub fn killed(&mut self, era: u32) {
        for event in self
            .seen
            .iter()
            .filter(|event| event["type"] == "eval.scored")
        {
            self.settled.entry(task_of(event).to_owned()).or_insert(era);
        }
    }

    /// Every frame seen must equal the log, byte for byte.
    pub fn compare(&mut self, full: &[Value]) {
        assert!(full.len() >= self.seen.len(), "events were lost");
        for (seen, kept) in self.seen.iter().zip(full) {
            assert_eq!(seen, kept, "an event changed after it had been shown");
        }
    }

    /// Checks that no task seen scored before a kill was requested again after it.
    pub fn check_requests(&self, asked: &[Asked], item: fn(&Value) -> u64) {
        // If every kill came before the first score, only the later hosts made requests.
        let until = self.settled.values().max().copied();
        let until = until.unwrap_or_else(|| asked.iter().map(|it| it.era).max().unwrap_or(0));
        let mine = asked
            .iter()
            .filter(|asked| (self.since..=until).contains(&asked.era));
        let mut requests = 0;
        for asked in mine {
            requests += 1;
            let task = format!("item-{}", item(&asked.body));
            if let Some(settled) = self.settled.get(&task) {
                assert!(
                    asked.era < *settled,
                    "{task} was scored before era {settled} and requested in era {}",
                    asked.era
                );
            }
        }
        assert!(requests > 0, "no request was seen");
    }
}

fn is_terminal(event: &Value) -> bool {
    TERMINAL.iter().any(|kind| event["type"] == *kind)
}

fn task_of(event: &Value) -> &str {
    event["payload"]["taskId"].as_str().unwrap()
}

fn of<'a>(log: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |event| event["type"] == kind)
}

/// Checks that sequences have no gaps from 1, ids are unique, time never decreases, and there is
/// one start and one end.
pub fn check_order(run: &str, log: &[Value]) {
    let mut ids = HashSet::new();
    for (n, event) in log.iter().enumerate() {
        assert_eq!(event["sequence"], n + 1, "a gap or a duplicate");
        assert_eq!(event["runId"], run);
        assert!(
            ids.insert(event["eventId"].as_str().unwrap()),
            "duplicate id"
        );
        // Timestamps have a fixed form, so they can be compared as strings.
        assert!(
            n == 0 || log[n - 1]["timestamp"].as_str() <= event["timestamp"].as_str(),
            "time decreased"
        );
    }
    assert_eq!(log[0]["type"], "run.started");
    assert_eq!(log.iter().filter(|event| is_terminal(event)).count(), 1);
    assert_eq!(log.last().unwrap()["type"], "run.completed");
    for kind in ["run.started", "eval.started", "eval.completed"] {
        assert_eq!(of(log, kind).count(), 1, "{kind}");
    }
}

/// Checks that every task is scored once and correctly, after an invocation that was opened and
/// closed, with no later events.
pub fn check_scores(log: &[Value], tasks: u64, wrong_every: u64) {
    let mut scored = HashSet::new();
    let mut open: HashMap<&str, &str> = HashMap::new();
    let mut closed = HashSet::new();
    for event in log {
        let node = event["nodeId"].as_str().unwrap_or_default();
        assert!(
            !scored.contains(node),
            "{} of {node} comes after its score",
            event["type"]
        );
        let payload = &event["payload"];
        match event["type"].as_str().unwrap() {
            "agent.invocation.started" => {
                let other = open.insert(node, payload["invocationId"].as_str().unwrap());
                assert_eq!(other, None, "two invocations of {node} at once");
            }
            "agent.invocation.completed" => {
                let invocation = payload["invocationId"].as_str().unwrap();
                assert_eq!(
                    open.remove(node),
                    Some(invocation),
                    "{node}: closed an invocation that was not open"
                );
                assert!(closed.insert(invocation), "closed twice");
            }
            "eval.scored" => {
                let task = task_of(event);
                assert_eq!(task, node);
                assert!(
                    !open.contains_key(task),
                    "{task} was scored with its invocation open"
                );
                let n: u64 = task.trim_start_matches("item-").parse().unwrap();
                assert_eq!(payload["passed"], !n.is_multiple_of(wrong_every), "{task}");
                scored.insert(task);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert_eq!(u64::try_from(scored.len()).unwrap(), tasks);
    assert_eq!(
        of(log, "eval.scored").count(),
        scored.len(),
        "a task was scored twice"
    );
}
