//! Converts a definition to a graph: every node typed, in an order that respects the edges.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::node::{NodeError, NodeKind};
use touchstone_kit::ids::NodeId;
use touchstone_openwop::workflow::WorkflowDefinition;

/// Why a definition cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("node `{0}` is defined twice")]
    Duplicate(NodeId),
    #[error("edge `{edge}` names the unknown node `{node}`")]
    UnknownNode { edge: String, node: NodeId },
    /// The edges form a cycle.
    #[error("the edges form a cycle through node `{0}`")]
    Cycle(NodeId),
    #[error("the workflow has no nodes")]
    Empty,
    #[error("node `{node}`: {fault}")]
    Node { node: NodeId, fault: NodeError },
}

/// A node that can be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    pub id: NodeId,
    /// The wire name of its type.
    pub type_id: String,
    /// Its behavior.
    pub kind: NodeKind,
    /// The sources of its inputs.
    pub inputs: Map<String, Value>,
    /// The nodes it depends on.
    pub after: Vec<NodeId>,
    /// Whether no node depends on it.
    pub is_last: bool,
}

/// The nodes of a workflow, each after its dependencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub nodes: Vec<GraphNode>,
}

impl Graph {
    /// Converts a definition.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn of(definition: &WorkflowDefinition) -> Result<Self, GraphError> {
        if definition.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut waiting = Vec::with_capacity(definition.nodes.len());
        let mut known = HashSet::new();
        for node in &definition.nodes {
            if !known.insert(&node.id) {
                return Err(GraphError::Duplicate(node.id.clone()));
            }
        }
        let mut after: HashMap<&NodeId, Vec<NodeId>> = HashMap::new();
        let mut followed = HashSet::new();
        for edge in &definition.edges {
            for node in [&edge.source_node_id, &edge.target_node_id] {
                if !known.contains(node) {
                    return Err(GraphError::UnknownNode {
                        edge: edge.id.clone(),
                        node: node.clone(),
                    });
                }
            }
            followed.insert(&edge.source_node_id);
            let sources = after.entry(&edge.target_node_id).or_default();
            sources.push(edge.source_node_id.clone());
        }
        for node in &definition.nodes {
            let kind = NodeKind::of(node).map_err(|fault| GraphError::Node {
                node: node.id.clone(),
                fault,
            })?;
            waiting.push(GraphNode {
                id: node.id.clone(),
                type_id: node.type_id.clone(),
                kind,
                inputs: node.inputs.clone(),
                after: after.remove(&node.id).unwrap_or_default(),
                is_last: !followed.contains(&node.id),
            });
        }
        in_order(waiting).map(|nodes| Self { nodes })
    }
}

/// Sorts nodes topologically, keeping the definition's order where possible.
fn in_order(mut waiting: Vec<GraphNode>) -> Result<Vec<GraphNode>, GraphError> {
    let mut placed: HashSet<NodeId> = HashSet::new();
    let mut nodes = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let free = waiting
            .iter()
            .position(|node| node.after.iter().all(|before| placed.contains(before)));
        match free {
            Some(index) => {
                let node = waiting.remove(index);
                placed.insert(node.id.clone());
                nodes.push(node);
            }
            None => {
                let stuck = waiting.first().map(|node| node.id.clone());
                return Err(stuck.map_or(GraphError::Empty, GraphError::Cycle));
            }
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn definition(nodes: &[&str], edges: &[(&str, &str)]) -> WorkflowDefinition {
        let nodes: Vec<Value> = nodes
            .iter()
            .map(|id| {
                json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0},
                       "config": {}, "inputs": {}})
            })
            .collect();
        let edges: Vec<Value> = edges
            .iter()
            .map(|(from, to)| {
                json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
            })
            .collect();
        serde_json::from_value(
            json!({"id": "w", "name": "w", "version": "1.0", "nodes": nodes,
            "edges": edges, "triggers": [], "variables": [], "metadata": {}, "settings": {}}),
        )
        .unwrap()
    }

    #[rstest]
    #[case::as_written(&["a", "b", "c"], &[("a", "b"), ("b", "c")], &["a", "b", "c"])]
    #[case::backwards(&["c", "b", "a"], &[("a", "b"), ("b", "c")], &["a", "b", "c"])]
    #[case::apart(&["b", "a"], &[], &["b", "a"])]
    #[case::diamond(&["d", "c", "b", "a"], &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], &["a", "c", "b", "d"])]
    fn nodes_are_sorted_after_their_dependencies(
        #[case] nodes: &[&str],
        #[case] edges: &[(&str, &str)],
        #[case] order: &[&str],
    ) {
        let graph = Graph::of(&definition(nodes, edges)).unwrap();
        let found: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(found, order);
        assert!(graph.nodes.last().unwrap().is_last);
    }

    #[rstest]
    #[case::cycle(&["a", "b"], &[("a", "b"), ("b", "a")], GraphError::Cycle("a".into()))]
    #[case::itself(&["a"], &[("a", "a")], GraphError::Cycle("a".into()))]
    #[case::twice(&["a", "a"], &[], GraphError::Duplicate("a".into()))]
    #[case::nowhere(&["a"], &[("a", "b")], GraphError::UnknownNode { edge: "a-b".to_owned(), node: "b".into() })]
    #[case::nothing(&[], &[], GraphError::Empty)]
    fn invalid_graphs_are_rejected(
        #[case] nodes: &[&str],
        #[case] edges: &[(&str, &str)],
        #[case] fault: GraphError,
    ) {
        assert_eq!(Graph::of(&definition(nodes, edges)), Err(fault));
    }
}
