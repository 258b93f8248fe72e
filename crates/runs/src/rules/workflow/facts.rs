//! The facts of a workflow's nodes, folded from the log.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use touchstone_kit::ids::NodeId;
use touchstone_openwop::events::{Event, InterruptKind, InterruptRequested, RunError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStatus {
    /// Not started, or abandoned by a pause so that it starts again.
    #[default]
    Waiting,
    Started,
    Suspended,
    /// Its interrupt was answered.
    Resumed,
    Completed,
    Failed,
}

impl NodeStatus {
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

/// An interrupt, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterruptFacts {
    pub id: String,
    pub requested: InterruptRequested,
    pub requested_at: Timestamp,
    /// The principals who have approved so far.
    pub granted_by: Vec<String>,
    /// The answer, and the principal who gave it.
    pub resolution: Option<(Value, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    pub status: NodeStatus,
    /// How often it started.
    pub attempt: u32,
    /// When it last started.
    pub started_at: Option<Timestamp>,
    pub outputs: Map<String, Value>,
    pub error: Option<RunError>,
    /// Its latest interrupt.
    pub interrupt: Option<InterruptFacts>,
    /// Number of message chunks it has written.
    pub chunks: usize,
}

/// The facts of a workflow run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowFacts {
    pub nodes: HashMap<NodeId, NodeFacts>,
    /// Number of nodes that have started; a node that starts again after a pause counts once.
    pub executions: u64,
    /// The request that the next `node.suspended` belongs to.
    requested: Option<(InterruptRequested, Timestamp)>,
    /// Suspended nodes, longest first.
    suspended: Vec<NodeId>,
}

impl FlowFacts {
    /// Estimated bytes in memory.
    pub fn bytes(&self) -> usize {
        let outputs = self.nodes.values().map(|node| {
            let text = serde_json::to_string(&node.outputs);
            text.map_or(0, |text| text.len())
        });
        self.nodes.capacity() * size_of::<(NodeId, NodeFacts)>() + outputs.sum::<usize>()
    }

    pub fn node(&self, id: &NodeId) -> Option<&NodeFacts> {
        self.nodes.get(id)
    }

    /// The node that has waited longest for an answer, with its interrupt.
    pub fn pending(&self) -> Option<(&NodeId, &InterruptFacts)> {
        self.all_pending().next()
    }

    /// Every node that waits for an answer, longest first.
    pub fn all_pending(&self) -> impl Iterator<Item = (&NodeId, &InterruptFacts)> {
        self.suspended.iter().filter_map(|id| {
            let interrupt = self.nodes.get(id)?.interrupt.as_ref()?;
            Some((id, interrupt))
        })
    }

    /// The kind of interrupt that the run's status shows, if the run waits for one.
    pub fn waits_for(&self) -> Option<InterruptKind> {
        self.pending()
            .map(|(_, interrupt)| interrupt.requested.kind)
    }

    /// Resets nodes in flight, so that they start again.
    pub fn abandon(&mut self) {
        for node in self.nodes.values_mut() {
            if node.status == NodeStatus::Started {
                node.status = NodeStatus::Waiting;
            }
        }
    }

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
                self.requested = Some((requested.clone(), at));
            }
            Event::NodeSuspended(suspended) => {
                let node = self.nodes.entry(suspended.node_id.clone()).or_default();
                node.status = NodeStatus::Suspended;
                node.interrupt =
                    self.requested
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
