//! An upper bound for the cost of evaluating a schema, computed before the first evaluation.
//!
//! Evaluation may visit the same place of an instance many times: thirty-nine `allOf` of two `$ref`
//! each are 2^39 visits.
//! For every depth `d` of an instance below a place, the table holds
//!
//! ```text
//! cost(S, d) = weight(S) + sum over in-place edges of cost(T, d)
//!                        + max over labels l of the sum over edges that match l of cost(T, d - 1)
//! ```
//!
//! where a label is a member name or an item index. This bounds the visits on any path from the
//! root of an instance to a leaf, so that `cost(root, depth) * leaves` bounds an evaluation. The
//! maximum over labels is taken at every node separately, which can only make the bound larger.
//! Sums saturate. Stack depth is bounded in the same way.

use std::collections::BTreeMap;

use super::graph::{Graph, Node, Step};
use super::untrusted::SchemaFault;
use touchstone_kit::json::MAX_DEPTH;

/// Bounds for instances of every depth up to [`MAX_DEPTH`].
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    cost: Vec<u64>,
    frames: Vec<u64>,
}

impl Bounds {
    /// Upper bound on the visits along one path of an instance of this depth.
    pub fn cost(&self, depth: usize) -> u64 {
        self.cost.get(depth).copied().unwrap_or(u64::MAX)
    }

    /// Upper bound on nested evaluations for an instance of this depth.
    pub fn frames(&self, depth: usize) -> u64 {
        self.frames.get(depth).copied().unwrap_or(u64::MAX)
    }
}

/// Computes the bounds. Rejects a schema that refers to itself at the same place of the instance.
pub(super) fn bounds(graph: &Graph) -> Result<Bounds, SchemaFault> {
    let order = in_place_order(graph)?;
    let count = graph.nodes.len();
    let (mut below_cost, mut below_frames) = (vec![0_u64; count], vec![0_u64; count]);
    let mut bounds = Bounds {
        cost: Vec::new(),
        frames: Vec::new(),
    };
    for depth in 0..=MAX_DEPTH {
        let (mut cost, mut frames) = (vec![0_u64; count], vec![0_u64; count]);
        for &id in &order {
            let Some(node) = graph.nodes.get(id) else {
                continue;
            };
            let (down_cost, down_frames) = if depth == 0 {
                (0, 0)
            } else {
                (
                    heaviest_label(node, &below_cost),
                    deepest(node, &below_frames, false),
                )
            };
            let here = node
                .edges
                .iter()
                .filter(|(step, _)| *step == Step::Here)
                .fold(0_u64, |sum, (_, to)| sum.saturating_add(at(&cost, *to)));
            let times = if node.twice { 2 } else { 1 };
            let total = here.saturating_add(down_cost).saturating_mul(times);
            set(&mut cost, id, total.saturating_add(node.weight));
            let deep = deepest(node, &frames, true)
                .max(down_frames)
                .saturating_add(1);
            set(&mut frames, id, deep);
        }
        bounds.cost.push(at(&cost, 0));
        bounds.frames.push(at(&frames, 0));
        (below_cost, below_frames) = (cost, frames);
    }
    Ok(bounds)
}

fn at(list: &[u64], id: usize) -> u64 {
    list.get(id).copied().unwrap_or(u64::MAX)
}

fn set(list: &mut [u64], id: usize, value: u64) {
    if let Some(slot) = list.get_mut(id) {
        *slot = value;
    }
}

fn deepest(node: &Node, frames: &[u64], here: bool) -> u64 {
    let matching = node
        .edges
        .iter()
        .filter(|(step, _)| (*step == Step::Here) == here);
    matching.map(|(_, to)| at(frames, *to)).max().unwrap_or(0)
}

fn heaviest_label(node: &Node, below: &[u64]) -> u64 {
    let (mut any_member, mut any_item) = (0_u64, 0_u64);
    let mut members: BTreeMap<&str, u64> = BTreeMap::new();
    let mut items: BTreeMap<usize, u64> = BTreeMap::new();
    for (step, to) in &node.edges {
        let cost = at(below, *to);
        let slot = match step {
            Step::Here => continue,
            Step::AnyMember => &mut any_member,
            Step::AnyItem => &mut any_item,
            Step::Member(name) => members.entry(name).or_default(),
            Step::Item(index) => items.entry(*index).or_default(),
        };
        *slot = slot.saturating_add(cost);
    }
    let member = members
        .values()
        .copied()
        .max()
        .unwrap_or(0)
        .saturating_add(any_member);
    let item = items
        .values()
        .copied()
        .max()
        .unwrap_or(0)
        .saturating_add(any_item);
    member.max(item)
}

/// Subschemas in an order in which each one follows those that it applies in place.
fn in_place_order(graph: &Graph) -> Result<Vec<usize>, SchemaFault> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; graph.nodes.len()];
    let mut order = Vec::with_capacity(graph.nodes.len());
    for start in 0..graph.nodes.len() {
        let mut stack = vec![(start, false)];
        while let Some((id, leaving)) = stack.pop() {
            let Some(mark) = marks.get_mut(id) else {
                continue;
            };
            if leaving {
                *mark = Mark::Done;
                order.push(id);
                continue;
            }
            match *mark {
                Mark::Done => continue,
                Mark::Open => {
                    return Err(SchemaFault::at(
                        "",
                        "refers to itself without descending into the instance, so validation \
                         would not end",
                    ));
                }
                Mark::New => *mark = Mark::Open,
            }
            stack.push((id, true));
            let edges = graph
                .nodes
                .get(id)
                .map(|node| node.edges.as_slice())
                .unwrap_or_default();
            for (step, to) in edges {
                // A node that is still open on this path closes a cycle; a node that is merely
                // queued twice does not.
                if *step == Step::Here && marks.get(*to) != Some(&Mark::Done) {
                    stack.push((*to, false));
                }
            }
        }
    }
    Ok(order)
}
