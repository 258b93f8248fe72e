//! `resumeValue`, from anyone with a token or a key: rejected with a message, a vote, or the end of
//! the wait.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Map, json};
use touchstone_fuzz::now;
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_kit::json;
use touchstone_openwop::events::NewEvent;
use touchstone_runs::rules::workflow::facts::{FlowFacts, NodeStatus};
use touchstone_runs::rules::workflow::gate::{GatePolicy, Responder};
use touchstone_runs::rules::workflow::graph::Graph;
use touchstone_runs::rules::workflow::interrupt::answer;
use touchstone_runs::rules::workflow::node::NodeKind;
use touchstone_runs::rules::workflow::step::{Step, StepContext, next};

struct Asked {
    graph: Graph,
    node: NodeId,
    gate: GatePolicy,
    facts: FlowFacts,
}

/// A gate with a quorum that can be overridden, questions, and an interrupt that accepts any value.
static ASKED: LazyLock<Vec<Asked>> = LazyLock::new(|| {
    [
        json!({"typeId": "core.openwop.governance.approvalGate",
               "config": {"requiredRole": "manager", "quorum": 2, "override": {"requiredRole": "manager"}}}),
        json!({"typeId": "core.approvalGate", "config": {}}),
        json!({"typeId": "core.clarificationGate",
               "config": {"questions": [{"id": "q1", "question": "?"}, {"id": "q2", "question": "?"}]}}),
        json!({"typeId": "core.interrupt", "config": {"kind": "external-event", "data": {}}}),
    ]
    .into_iter()
    .map(|mut node| {
        for (name, value) in [("id", json!("ask")), ("name", json!("ask")), ("position", json!({"x": 0, "y": 0})), ("inputs", json!({}))] {
            node[name] = value;
        }
        let definition = json!({"id": "fuzz", "name": "fuzz", "version": "1.0", "nodes": [node], "edges": [], "triggers": [],
                                "variables": [], "metadata": {}, "settings": {}});
        let definition = serde_json::from_value(definition).expect("a definition");
        let graph = Graph::of(&definition).expect("a graph");
        let first = graph.nodes.first().expect("a node");
        let NodeKind::Interrupt(asked) = &first.kind else { panic!("not an interrupt") };
        let (node, gate) = (first.id.clone(), asked.gate.clone());
        let mut facts = FlowFacts::default();
        assert!(matches!(carry_on(&graph, &mut facts), Step::Wait(_)));
        Asked { graph, node, gate, facts }
    })
    .collect()
});

/// Continues like a worker, until the graph waits.
fn carry_on(graph: &Graph, facts: &mut FlowFacts) -> Step {
    let (run, inputs) = (RunId::from("run_fuzz"), Map::new());
    loop {
        let of = StepContext {
            run_id: &run,
            inputs: &inputs,
            max_node_executions: 10,
            agents: &[],
            hold: false,
            now: now(),
        };
        match next(graph, facts, &of) {
            Step::Record(events) => record(facts, &events),
            step => return step,
        }
    }
}

fn record(facts: &mut FlowFacts, events: &[NewEvent]) {
    for event in events {
        facts.fold(&event.event, now());
    }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((which, body)) = data.split_first() else {
        return Corpus::Reject;
    };
    let Ok(value) = json::parse(body) else {
        return Corpus::Reject;
    };
    let asked = &ASKED[usize::from(*which) % ASKED.len()];
    let mut facts = asked.facts.clone();
    for voice in 0..3 {
        let interrupt = facts
            .node(&asked.node)
            .and_then(|node| node.interrupt.clone())
            .expect("it was asked");
        let responder = Responder {
            principal: format!("voice-{voice}"),
            // Two of the three have the role: gates that require it ignore the third vote.
            roles: (voice > 0)
                .then(|| "manager".to_owned())
                .into_iter()
                .collect(),
            ..Responder::default()
        };
        match answer(
            &asked.node,
            &asked.gate,
            &interrupt,
            &responder,
            &value,
            now(),
        ) {
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
            Ok(events) => {
                assert!(!events.is_empty(), "an answer is on record");
                record(&mut facts, &events);
            }
        }
        if facts
            .node(&asked.node)
            .is_some_and(|node| node.status != NodeStatus::Suspended)
        {
            assert!(
                facts.all_pending().next().is_none(),
                "no interrupt is pending any more"
            );
            let end = carry_on(&asked.graph, &mut facts);
            assert!(matches!(end, Step::Complete(_) | Step::Fail(_)), "{end:?}");
            return Corpus::Keep;
        }
        assert_eq!(
            facts.all_pending().count(),
            1,
            "a refused or insufficient answer leaves it pending"
        );
    }
    Corpus::Keep
});
