//! What a log says of the nodes of a workflow.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::domain::ids::NodeId;
use crate::protocol::openwop::events::{Event, InterruptKind, InterruptRequested, RunError};

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeStatus {
    /// It has not begun, or was abandoned by a pause and begins anew.
    #[default]
    Waiting,
    /// It has begun.
    Started,
    /// It waits for an answer.
    Suspended,
    /// It has its answer.
    Resumed,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
}

impl NodeStatus {
    /// Its name in snapshots.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "pending",
            Self::Started | Self::Resumed => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// An interrupt as it was asked and answered.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptFacts {
    /// Its id.
    pub id: String,
    /// What was asked.
    pub requested: InterruptRequested,
    /// When.
    pub requested_at: Timestamp,
    /// Who has agreed so far.
    pub granted_by: Vec<String>,
    /// The answer, and who gave it.
    pub resolution: Option<(Value, String)>,
}

/// The facts of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Where it stands.
    pub status: NodeStatus,
    /// How often it began.
    pub attempt: u32,
    /// When it began last.
    pub started_at: Option<Timestamp>,
    /// What it came to.
    pub outputs: Map<String, Value>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// What it asked last.
    pub interrupt: Option<InterruptFacts>,
    /// Chunks of a message it has written.
    pub chunks: usize,
}

/// The facts of a workflow run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowFacts {
    /// By node.
    pub nodes: HashMap<NodeId, NodeFacts>,
    /// Nodes that have begun; one that begins anew after a pause counts once.
    pub executions: u64,
    /// What the next `node.suspended` suspends for.
    asked: Option<(InterruptRequested, Timestamp)>,
    /// Suspended nodes, the first one first.
    suspended: Vec<NodeId>,
}

impl FlowFacts {
    /// The facts of a node.
    pub fn node(&self, id: &NodeId) -> Option<&NodeFacts> {
        self.nodes.get(id)
    }

    /// The node that waits for an answer longest, with what it asked.
    pub fn pending(&self) -> Option<(&NodeId, &InterruptFacts)> {
        self.all_pending().next()
    }

    /// Every node that waits for an answer, the first one first.
    pub fn all_pending(&self) -> impl Iterator<Item = (&NodeId, &InterruptFacts)> {
        self.suspended.iter().filter_map(|id| {
            let interrupt = self.nodes.get(id)?.interrupt.as_ref()?;
            Some((id, interrupt))
        })
    }

    /// What the status of a run waits for, if it waits for somebody.
    pub fn waits_for(&self) -> Option<InterruptKind> {
        self.pending()
            .map(|(_, interrupt)| interrupt.requested.kind)
    }

    /// Whether a node has begun and neither ended nor waits for somebody.
    pub fn in_flight(&self) -> bool {
        self.nodes
            .values()
            .any(|node| matches!(node.status, NodeStatus::Started | NodeStatus::Resumed))
    }

    /// Work in flight is abandoned, to be begun anew.
    pub fn abandon(&mut self) {
        for node in self.nodes.values_mut() {
            if node.status == NodeStatus::Started {
                node.status = NodeStatus::Waiting;
            }
        }
    }

    /// Folds one event.
    pub fn fold(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::NodeStarted(started) => {
                let node = self.nodes.entry(started.node_id.clone()).or_default();
                if node.attempt == 0 {
                    self.executions += 1;
                }
                node.attempt = started.attempt;
                node.status = NodeStatus::Started;
                node.started_at = Some(at);
                node.chunks = 0;
            }
            Event::NodeCompleted(completed) => {
                let node = self.nodes.entry(completed.node_id.clone()).or_default();
                node.status = NodeStatus::Completed;
                node.outputs = completed.outputs.clone();
            }
            Event::NodeFailed(failed) => {
                let node = self.nodes.entry(failed.node_id.clone()).or_default();
                node.status = NodeStatus::Failed;
                node.error = Some(failed.error.clone());
                self.suspended.retain(|id| *id != failed.node_id);
            }
            Event::InterruptRequested(requested) => {
                self.asked = Some((requested.clone(), at));
            }
            Event::NodeSuspended(suspended) => {
                let node = self.nodes.entry(suspended.node_id.clone()).or_default();
                node.status = NodeStatus::Suspended;
                node.interrupt =
                    self.asked
                        .take()
                        .map(|(requested, requested_at)| InterruptFacts {
                            id: suspended.interrupt_id.clone(),
                            requested,
                            requested_at,
                            granted_by: Vec::new(),
                            resolution: None,
                        });
                self.suspended.push(suspended.node_id.clone());
            }
            Event::ApprovalGranted(granted) => {
                let gate = self.nodes.get_mut(&NodeId::from(granted.gate_id.as_str()));
                if let Some(interrupt) = gate.and_then(|node| node.interrupt.as_mut()) {
                    interrupt.granted_by.push(granted.principal.clone());
                }
            }
            Event::InterruptResolved(resolved) => {
                let node = self.nodes.get_mut(&resolved.node_id);
                if let Some(interrupt) = node.and_then(|node| node.interrupt.as_mut()) {
                    let answer = (resolved.resume_value.clone(), resolved.resolved_by.clone());
                    interrupt.resolution = Some(answer);
                }
                self.suspended.retain(|id| *id != resolved.node_id);
            }
            Event::NodeResumed(resumed) => {
                let node = self.nodes.entry(resumed.node_id.clone()).or_default();
                node.status = NodeStatus::Resumed;
            }
            Event::MessageChunk(chunk) => {
                self.nodes.entry(chunk.node_id.clone()).or_default().chunks += 1;
            }
            _ => {}
        }
    }
}
