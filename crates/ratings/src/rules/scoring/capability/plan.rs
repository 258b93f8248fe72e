//! Scores a plan for several agents by the shape of its dependency graph.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::evidence::OrchestrationPlan;
use crate::rules::scoring::mean::count;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Empty,
    /// The plan cannot be executed, whatever its grade.
    Impossible,
    /// The length of the longest dependency chain relative to the number of stages.
    Sound(f64),
}

pub fn shape(plan: &OrchestrationPlan) -> Shape {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, prerequisites) in &plan.dependency_graph {
        for prerequisite in prerequisites {
            graph.entry(&prerequisite.0).or_default();
        }
        let own = graph.entry(node).or_default();
        own.extend(prerequisites.iter().map(|it| it.0.as_str()));
    }
    if graph.is_empty() {
        return Shape::Empty;
    }
    let Some(longest) = longest_chain(&graph) else {
        return Shape::Impossible;
    };
    let stages = plan.parallel_groups.iter().filter(|it| !it.is_empty());
    let mut stage_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut planned = 0;
    for (place, stage) in stages.enumerate() {
        planned = place + 1;
        for node in stage {
            if stage_of.insert(&node.0, place).is_some() {
                return Shape::Impossible;
            }
        }
    }
    if planned == 0 {
        return Shape::Sound(count(longest) / count(graph.len()));
    }
    let in_order = |node: &str, prerequisites: &BTreeSet<&str>| {
        let own = stage_of.get(node);
        own.is_some() && prerequisites.iter().all(|it| stage_of.get(it) < own)
    };
    let complete = stage_of.len() == graph.len();
    if complete && graph.iter().all(|(node, before)| in_order(node, before)) {
        Shape::Sound(count(longest) / count(planned))
    } else {
        Shape::Impossible
    }
}

/// Number of nodes in the longest chain; `None` if the graph has a cycle. Iterative, because the
/// sender of an event chooses the depth.
fn longest_chain(graph: &BTreeMap<&str, BTreeSet<&str>>) -> Option<usize> {
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ready = Vec::new();
    for (node, prerequisites) in graph {
        for prerequisite in prerequisites {
            after.entry(prerequisite).or_default().push(node);
        }
        waiting.insert(node, prerequisites.len());
        if prerequisites.is_empty() {
            ready.push((*node, 1));
        }
    }
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut done, mut longest) = (0, 0);
    while let Some((node, depth)) = ready.pop() {
        done += 1;
        longest = longest.max(depth);
        for next in after.get(node).into_iter().flatten() {
            let deepest = depths.entry(next).or_default();
            *deepest = (*deepest).max(depth + 1);
            if let Some(left) = waiting.get_mut(next) {
                *left -= 1;
                if *left == 0 {
                    ready.push((next, *deepest));
                }
            }
        }
    }
    (done == graph.len()).then_some(longest)
}
