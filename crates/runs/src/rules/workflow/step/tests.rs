use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rules::workflow::gate::{GatePolicy, Responder};
use touchstone_openwop::workflow::WorkflowDefinition;

/// A run without a worker: recorded events are folded immediately, and time passes only on request.
struct Play {
    graph: Graph,
    facts: FlowFacts,
    run: RunId,
    inputs: Map<String, Value>,
    most: u64,
    agents: Vec<BoundAgent>,
    hold: bool,
    now: Timestamp,
    log: Vec<(String, Option<NodeId>)>,
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}))
}

fn delay(id: &str, millis: u64) -> Value {
    node(id, "core.delay", json!({"delayMs": millis}))
}

fn definition(nodes: &[Value], edges: &[(&str, &str)]) -> WorkflowDefinition {
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| {
            json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
        })
        .collect();
    serde_json::from_value(
        json!({"id": "w", "name": "w", "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [],
               "variables": [], "metadata": {}, "settings": {}}),
    )
    .unwrap()
}

impl Play {
    fn of(nodes: &[Value], edges: &[(&str, &str)]) -> Self {
        Self {
            graph: Graph::of(&definition(nodes, edges)).unwrap(),
            facts: FlowFacts::default(),
            run: "run_1".into(),
            inputs: Map::new(),
            most: 100,
            agents: Vec::new(),
            hold: false,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            log: Vec::new(),
        }
    }

    /// Steps until nothing more is recorded.
    fn on(&mut self) -> Step {
        loop {
            let of = StepContext {
                run_id: &self.run,
                inputs: &self.inputs,
                max_node_executions: self.most,
                agents: &self.agents,
                hold: self.hold,
                now: self.now,
            };
            match next(&self.graph, &self.facts, &of) {
                Step::Record(events) => self.record(&events),
                step => return step,
            }
        }
    }

    fn record(&mut self, events: &[NewEvent]) {
        for event in events {
            self.facts.fold(&event.event, self.now);
            self.log
                .push((event.event.kind().to_owned(), event.node_id.clone()));
        }
    }

    fn pass(&mut self, millis: i64) {
        self.now += SignedDuration::from_millis(millis);
    }

    fn after(&self, millis: i64) -> Option<Timestamp> {
        Some(self.now + SignedDuration::from_millis(millis))
    }

    fn answer(&mut self, value: Value) {
        let id = NodeId::from("ask");
        let asked = self.facts.node(&id).unwrap().interrupt.clone().unwrap();
        let ann = Responder {
            principal: "ann".to_owned(),
            ..Responder::default()
        };
        let gate = GatePolicy::default();
        let events = interrupt::answer(&id, &gate, &asked, &ann, &value, self.now).unwrap();
        self.record(&events);
    }

    fn nodes(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.log.iter().filter(|(found, _)| found == kind);
        of_kind
            .filter_map(|(_, node)| node.as_ref().map(NodeId::as_str))
            .collect()
    }
}

fn code(step: &Step) -> &str {
    match step {
        Step::Fail(events) => match &events.last().unwrap().event {
            Event::RunFailed(failed) => &failed.error.code,
            other => panic!("it ends with {}", other.kind()),
        },
        other => panic!("no failure: {other:?}"),
    }
}

#[test]
fn delays_run_concurrently_and_end_on_time() {
    let nodes = [delay("a", 100), delay("b", 300), noop("c")];
    let mut play = Play::of(&nodes, &[("a", "c"), ("b", "c")]);
    assert_eq!(play.on(), Step::Wait(play.after(100)));
    assert_eq!(play.nodes("node.started"), ["a", "b"]);
    play.pass(99);
    assert_eq!(play.on(), Step::Wait(play.after(1)));
    play.pass(1);
    assert_eq!(play.on(), Step::Wait(play.after(200)));
    assert_eq!(play.nodes("node.completed"), ["a"]);
    // However late the next step comes.
    play.pass(60_000);
    assert_eq!(play.on(), Step::Complete(Map::new()));
    assert_eq!(play.nodes("node.completed"), ["a", "b", "c"]);
}

#[test]
fn a_held_workflow_finishes_running_nodes_and_starts_none() {
    let mut play = Play::of(&[delay("a", 100), noop("b")], &[("a", "b")]);
    play.on();
    play.hold = true;
    assert_eq!(play.on(), Step::Wait(play.after(100)));
    play.pass(100);
    assert_eq!(play.on(), Step::Held);
    assert_eq!(play.nodes("node.started"), ["a"]);
    play.hold = false;
    assert_eq!(play.on(), Step::Complete(Map::new()));
}

#[test]
fn a_restarted_node_waits_again_and_counts_once() {
    let mut play = Play::of(&[delay("a", 100), noop("b")], &[("a", "b")]);
    play.most = 2;
    play.on();
    play.pass(90);
    play.facts.abandon();
    assert_eq!(play.on(), Step::Wait(play.after(100)));
    assert_eq!(play.facts.node(&"a".into()).unwrap().attempt, 2);
    play.pass(100);
    assert_eq!(play.on(), Step::Complete(Map::new()));
}

#[rstest]
#[case::none_too_many(3, None)]
#[case::one_too_many(2, Some("recursion_limit_exceeded"))]
fn the_number_of_started_nodes_is_limited(#[case] most: u64, #[case] failure: Option<&str>) {
    let mut play = Play::of(
        &[noop("a"), noop("b"), noop("c")],
        &[("a", "b"), ("b", "c")],
    );
    play.most = most;
    let end = play.on();
    match failure {
        None => assert_eq!(end, Step::Complete(Map::new())),
        Some(expected) => assert_eq!(code(&end), expected),
    }
    assert_eq!(play.nodes("node.started").len() as u64, most);
}

#[rstest]
#[case::approval("core.approvalGate", json!({"timeoutMs": 50}), "approval_rejected")]
#[case::questions("core.clarificationGate", json!({"questions": [{"id": "q", "question": "?"}], "timeoutMs": 50}), "interrupt_timeout")]
#[case::event("core.interrupt", json!({"kind": "external-event", "data": {}, "timeoutMs": 50}), "interrupt_timeout")]
fn an_unanswered_interrupt_times_out_and_fails(
    #[case] kind: &str,
    #[case] config: Value,
    #[case] failure: &str,
) {
    let mut play = Play::of(&[node("ask", kind, config)], &[]);
    assert_eq!(play.on(), Step::Wait(play.after(50)));
    let mut states = play.facts.nodes.values().map(|node| node.status);
    let in_flight = states.any(|it| matches!(it, NodeStatus::Started | NodeStatus::Resumed));
    assert!(!in_flight, "another run's turn");
    play.pass(50);
    assert_eq!(code(&play.on()), failure);
    assert_eq!(play.nodes("interrupt.resolved"), ["ask"]);
    let received = usize::from(kind == "core.approvalGate");
    assert_eq!(play.nodes("approval.received").len(), received);
    assert_eq!(play.facts.waits_for(), None);
}

#[rstest]
#[case::accepted("core.approvalGate", json!({}), json!({"action": "accept"}), Ok(json!({"action": "accept"})))]
#[case::refused("core.approvalGate", json!({}), json!({"action": "reject"}), Err("approval_rejected"))]
#[case::anything("core.interrupt", json!({"kind": "external-event", "data": {}}), json!(7), Ok(json!({"value": 7})))]
#[case::like_a_timeout("core.interrupt", json!({"kind": "custom", "data": {}}), json!({"action": "timeout"}), Ok(json!({"action": "timeout"})))]
fn the_answer_to_an_interrupt_decides_the_node_result(
    #[case] kind: &str,
    #[case] config: Value,
    #[case] value: Value,
    #[case] expected: Result<Value, &str>,
) {
    let mut play = Play::of(&[node("ask", kind, config)], &[]);
    assert_eq!(play.on(), Step::Wait(None));
    play.answer(value);
    let end = play.on();
    match expected {
        Ok(outputs) => assert_eq!(end, Step::Complete(outputs.as_object().unwrap().clone())),
        Err(failure) => assert_eq!(code(&end), failure),
    }
}

#[test]
fn other_nodes_continue_during_an_interrupt() {
    let nodes = [node("ask", "core.approvalGate", json!({})), noop("b")];
    let mut play = Play::of(&nodes, &[]);
    assert_eq!(play.on(), Step::Wait(None));
    assert_eq!(play.nodes("node.completed"), ["b"]);
}

proptest! {
    /// In every acyclic graph, each node runs once and after its dependencies, whatever is paused
    /// on the way.
    #[test]
    fn every_node_runs_once_and_in_order(
        waits in proptest::collection::vec(0u64..3, 1..8),
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
        pauses in proptest::collection::vec(any::<bool>(), 0..6),
    ) {
        let ids: Vec<String> = (0..waits.len()).map(|n| format!("n{n}")).collect();
        let nodes: Vec<Value> = ids
            .iter()
            .zip(&waits)
            .map(|(id, wait)| if *wait == 0 { noop(id) } else { delay(id, *wait) })
            .collect();
        let edges: Vec<(&str, &str)> = picks
            .iter()
            .map(|(a, b)| (a.index(ids.len()), b.index(ids.len())))
            .filter(|(a, b)| a < b)
            .map(|(a, b)| (ids[a].as_str(), ids[b].as_str()))
            .collect();
        let mut play = Play::of(&nodes, &edges);
        let mut pauses = pauses.into_iter();
        for _ in 0..100 {
            match play.on() {
                Step::Complete(_) => break,
                Step::Wait(until) => {
                    let due = until.unwrap();
                    prop_assert!(due > play.now);
                    if pauses.next() == Some(true) {
                        play.facts.abandon();
                    } else {
                        play.now = due;
                    }
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let ended = play.nodes("node.completed");
        prop_assert_eq!(ended.len(), ids.len());
        for (before, after) in edges {
            let place = |id| ended.iter().position(|ended| *ended == id);
            prop_assert!(place(before) < place(after));
        }
    }
}
