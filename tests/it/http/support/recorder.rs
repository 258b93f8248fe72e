//! Writes a run's log without an executor: the test decides which events occur and when.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::{Head, StoredEvent};
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::{EventId, RunId};
use touchstone_openwop::events::{
    AgentReasoned, EvalScored, Event, ModelRetried, NewEvent, Owner, RunCancelled, RunStarted,
    write_document,
};
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::store as run_store;

use crate::http::support::host::{AGENT, TestHost};

pub struct Recorder {
    store: Arc<Database>,
    pub run: RunId,
    fence: Fence,
    written: u64,
}

impl Recorder {
    /// Creates a run and takes its lease, so that no worker writes to its log.
    pub async fn of(host: &TestHost) -> Self {
        let run = host.create().await;
        let claim = run_store::queue::claim(
            &host.store,
            "recorder",
            Claimable::All,
            Duration::from_secs(600),
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!(claim.run.run_id, run);
        Self {
            store: host.store.clone(),
            run,
            fence: claim.fence,
            written: 0,
        }
    }

    /// Takes the lease of an existing run of `acme`.
    pub async fn of_run(host: &TestHost, run: RunId) -> Self {
        let lease = Duration::from_secs(600);
        let tenant = "acme".into();
        let claim = run_store::queue::claim_run(&host.store, &tenant, &run, "recorder", lease);
        Self {
            store: host.store.clone(),
            fence: claim.await.unwrap().unwrap().fence,
            run,
            written: 0,
        }
    }

    /// A log of `count` events, ended or not.
    pub async fn log_of(host: &TestHost, count: u64, ended: bool) -> Self {
        let mut recorder = Self::of(host).await;
        let events = (1..=count)
            .map(|n| match n {
                1 => started(),
                n if n == count && ended => cancelled(),
                n => step(n),
            })
            .collect();
        recorder.append(events).await;
        recorder
    }

    pub async fn append(&mut self, events: Vec<Event>) {
        let mut stored = Vec::new();
        let mut ended = false;
        for event in events {
            self.written += 1;
            ended = event.is_terminal();
            let kind = event.kind().into();
            let id = EventId::at(&SystemIds.mint("evt"), self.written);
            let body = write_document(
                &self.run,
                &id,
                self.written,
                SystemClock.now(),
                &NewEvent::of_run(event),
            );
            stored.push(StoredEvent {
                sequence: self.written,
                kind,
                body: body.unwrap().into(),
            });
        }
        run_store::runs::append(&self.store, &self.run, self.fence, &stored, ended)
            .await
            .unwrap();
        let head = Head {
            sequence: self.written,
            ended,
        };
        self.store.notify_run(&self.run, head).await;
    }

    /// Appends an event of any type.
    pub async fn append_raw(&mut self, kind: &str, payload: Value) {
        self.written += 1;
        let body = json!({
            "eventId": EventId::at(&SystemIds.mint("evt"), self.written), "runId": self.run,
            "type": kind, "timestamp": format!("{:.6}", SystemClock.now()),
            "sequence": self.written, "schemaVersion": 1, "engineVersion": "1", "payload": payload,
        });
        let stored = StoredEvent {
            sequence: self.written,
            kind: kind.into(),
            body: body.to_string().into(),
        };
        run_store::runs::append(&self.store, &self.run, self.fence, &[stored], false)
            .await
            .unwrap();
        let head = Head {
            sequence: self.written,
            ended: false,
        };
        self.store.notify_run(&self.run, head).await;
    }

    pub fn written(&self) -> u64 {
        self.written
    }
}

pub fn started() -> Event {
    Event::RunStarted(RunStarted {
        workflow_id: "eval:suite@1.0.0".to_owned(),
        inputs: serde_json::Map::new(),
        transport: "rest".to_owned(),
        engine_version: "1".to_owned(),
        owner: Owner {
            tenant: "acme".to_owned(),
            principal: None,
        },
        tags: Vec::new(),
        metadata: serde_json::Map::new(),
    })
}

/// Every third is part of `updates`.
pub fn step(n: u64) -> Event {
    if n.is_multiple_of(3) {
        Event::EvalScored(EvalScored {
            task_id: format!("task-{n}").into(),
            score: 1.0,
            passed: true,
            cost_usd: None,
            latency_ms: Some(n),
            schema_valid: None,
            safety_finding_count: None,
        })
    } else {
        Event::ModelRetried(ModelRetried {
            attempt: 1,
            reason: "timeout".to_owned(),
            wait_ms: n,
        })
    }
}

/// An event of about this many bytes.
pub fn padded(n: u64, bytes: usize) -> Event {
    Event::AgentReasoned(AgentReasoned {
        agent_id: AGENT.into(),
        reasoning: format!("{n}{}", "x".repeat(bytes)),
    })
}

pub fn cancelled() -> Event {
    Event::RunCancelled(RunCancelled {
        reason: None,
        cancelled_by: "key".to_owned(),
    })
}
