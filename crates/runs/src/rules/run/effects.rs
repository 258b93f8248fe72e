//! The effects of a run outside of this host, folded from its log (OpenWOP v2 idempotency, "Effect
//! identity").
//!
//! An effect is a call of a live tool with side effects. It is announced before the call is made,
//! and known by the activity id that the tool's server gets with the call.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use touchstone_agents::rules::activity::Activity;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::events::{Event, EventDocument, ToolTransport};

/// How effects are identified: no tool has a key of its own business.
const KEYING: &str = "activity-recipe";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectState {
    /// The call is about to be made, or in flight.
    Claimed,
    /// The tool answered.
    Completed,
    /// The tool did not answer, or the outcome was not recorded: the effect may have happened.
    Escaped,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub effect_id: String,
    /// The task.
    pub node_id: TaskId,
    /// The attempt at the task, from 1.
    pub attempt: u32,
    pub keying: &'static str,
    pub state: EffectState,
    /// When it entered this state.
    pub at: Timestamp,
}

/// The invocation of a task's agent.
#[derive(Debug, Default)]
struct Attempt {
    number: u32,
    invocation_id: String,
    /// Live calls so far.
    calls: u32,
    /// The effects of its calls that have not returned, by call id.
    open: HashMap<String, usize>,
}

/// Collects the effects while the log is read.
#[derive(Debug)]
pub struct EffectLedger<'a> {
    tenant: &'a TenantId,
    run: &'a RunId,
    /// Number of events at the start of the log that another run recorded. Their effects are of
    /// that run.
    inherited: u64,
    reused: HashSet<TaskId>,
    attempts: HashMap<TaskId, Attempt>,
    effects: Vec<Effect>,
}

impl<'a> EffectLedger<'a> {
    pub fn new(tenant: &'a TenantId, run: &'a RunId, inherited: u64) -> Self {
        Self {
            tenant,
            run,
            inherited,
            reused: HashSet::new(),
            attempts: HashMap::new(),
            effects: Vec::new(),
        }
    }

    /// Folds the event at a place of the log.
    pub fn fold(&mut self, place: u64, document: &EventDocument<'_>, event: &Event) {
        let at = document.timestamp;
        if event.is_terminal() {
            let attempts = self.attempts.values_mut();
            let open: Vec<usize> = attempts
                .flat_map(|it| it.open.drain())
                .map(|it| it.1)
                .collect();
            self.enter(open, EffectState::Escaped, at);
            return;
        }
        let Some(task) = &document.node_id else {
            return;
        };
        if matches!(event, Event::TaskReused(_)) {
            self.reused.insert(task.clone());
            return;
        }
        let is_own = place > self.inherited && !self.reused.contains(task);
        let attempt = self.attempts.entry(task.clone()).or_default();
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => {
                let open: Vec<usize> = attempt.open.drain().map(|it| it.1).collect();
                *attempt = Attempt {
                    number: attempt.number.saturating_add(1),
                    invocation_id: started.invocation_id.clone(),
                    ..Attempt::default()
                };
                self.enter(open, EffectState::Escaped, at);
            }
            Event::AgentInvocationCompleted(it) if it.invocation_id == attempt.invocation_id => {
                let open: Vec<usize> = attempt.open.drain().map(|it| it.1).collect();
                self.enter(open, EffectState::Escaped, at);
            }
            Event::AgentToolCalled(called) if called.transport == Some(ToolTransport::Mcp) => {
                attempt.calls = attempt.calls.saturating_add(1);
            }
            Event::EffectIntended(intended) if is_own => {
                let activity = Activity {
                    tenant: self.tenant,
                    run: self.run,
                    node: task.as_str(),
                    ordinal: attempt.calls,
                    provider_key: &Activity::of_tool(&intended.tool),
                };
                attempt
                    .open
                    .insert(intended.call_id.clone(), self.effects.len());
                self.effects.push(Effect {
                    effect_id: activity.id(),
                    node_id: task.clone(),
                    attempt: attempt.number.max(1),
                    keying: KEYING,
                    state: EffectState::Claimed,
                    at,
                });
            }
            Event::AgentToolReturned(returned) => {
                let state = match returned.is_answered() {
                    true => EffectState::Completed,
                    false => EffectState::Escaped,
                };
                let open = attempt.open.remove(&returned.call_id);
                self.enter(open, state, at);
            }
            _ => {}
        }
    }

    fn enter(
        &mut self,
        effects: impl IntoIterator<Item = usize>,
        state: EffectState,
        at: Timestamp,
    ) {
        for place in effects {
            if let Some(effect) = self.effects.get_mut(place) {
                (effect.state, effect.at) = (state, at);
            }
        }
    }

    /// The effects in the order of their announcements.
    pub fn finish(self) -> Vec<Effect> {
        self.effects
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// A log as pairs of a type and a payload; all events are of the task `t`, one second apart.
    fn effects(inherited: u64, log: &[(&str, Value)]) -> Vec<Effect> {
        let (tenant, run) = (TenantId::from("acme"), RunId::from("run_1"));
        let mut ledger = EffectLedger::new(&tenant, &run, inherited);
        for ((kind, payload), place) in log.iter().zip(1u64..) {
            let body = json!({"eventId": format!("evt_{place}"), "type": kind, "payload": payload,
                "timestamp": format!("2026-11-01T00:00:{place:02}Z"), "sequence": place, "nodeId": "t"});
            let body = serde_json::to_vec(&body).unwrap();
            let document = EventDocument::read(&body).unwrap();
            let event = document.event().unwrap().unwrap();
            ledger.fold(place, &document, &event);
        }
        ledger.finish()
    }

    fn started(invocation: &str) -> (&'static str, Value) {
        let payload = json!({"invocationId": invocation, "agentId": "a.b", "source": "run-api",
            "resolvedProvider": "openai", "toolSurfaceCount": 1, "memoryBound": false});
        ("agent.invocation.started", payload)
    }

    fn completed(invocation: &str) -> (&'static str, Value) {
        let payload = json!({"invocationId": invocation, "agentId": "a.b", "outcome": "failed"});
        ("agent.invocation.completed", payload)
    }

    fn called(call: &str) -> (&'static str, Value) {
        let payload =
            json!({"agentId": "a.b", "toolName": "t:x", "callId": call, "transport": "mcp"});
        ("agent.toolCalled", payload)
    }

    fn intended(call: &str) -> (&'static str, Value) {
        let payload = json!({"tool": "t:x", "callId": call});
        ("touchstone.effect.intended", payload)
    }

    fn returned(call: &str, rest: Value) -> (&'static str, Value) {
        let mut payload = json!({"agentId": "a.b", "toolName": "t:x", "callId": call});
        let members = payload.as_object_mut().unwrap();
        members.extend(rest.as_object().unwrap().clone());
        ("agent.toolReturned", payload)
    }

    fn answered(call: &str) -> (&'static str, Value) {
        returned(call, json!({"status": "ok", "outcome": 1}))
    }

    #[rstest]
    #[case::in_flight(vec![], EffectState::Claimed, 3)]
    #[case::answered(vec![answered("c")], EffectState::Completed, 4)]
    #[case::failed_by_the_tool(vec![returned("c", json!({"status": "error", "outcome": "no"}))],
        EffectState::Completed, 4)]
    #[case::no_answer(vec![returned("c", json!({"status": "error",
        "error": {"code": "tool_unavailable", "message": "m"}}))], EffectState::Escaped, 4)]
    #[case::answer_to_another_call(vec![answered("d")], EffectState::Claimed, 3)]
    #[case::interrupted(vec![completed("i")], EffectState::Escaped, 4)]
    #[case::another_invocation_ended(vec![completed("i:worker")], EffectState::Claimed, 3)]
    #[case::started_again(vec![started("j")], EffectState::Escaped, 4)]
    #[case::ended_run(vec![("run.cancelled", json!({"cancelledBy": "key_1"}))], EffectState::Escaped, 4)]
    #[case::ended_after_the_answer(vec![answered("c"), ("run.cancelled", json!({"cancelledBy": "key_1"}))],
        EffectState::Completed, 4)]
    fn an_effect_has_the_state_that_the_log_shows(
        #[case] rest: Vec<(&'static str, Value)>,
        #[case] state: EffectState,
        #[case] second: u32,
    ) {
        let mut log = vec![started("i"), called("c"), intended("c")];
        log.extend(rest);
        let found = effects(0, &log);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].state, found[0].attempt), (state, 1));
        assert_eq!(
            found[0].at,
            format!("2026-11-01T00:00:{second:02}Z").parse().unwrap()
        );
    }

    #[test]
    fn the_id_of_an_effect_is_the_activity_id_of_the_call() {
        let log = [
            started("i"),
            called("read"),
            answered("read"),
            called("c"),
            intended("c"),
            answered("c"),
            started("j"),
            called("d"),
            intended("d"),
        ];
        let found = effects(0, &log);
        let id = |ordinal| {
            let activity = Activity {
                tenant: &"acme".into(),
                run: &"run_1".into(),
                node: "t",
                ordinal,
                provider_key: "mcp:t:x",
            };
            activity.id()
        };
        let ids: Vec<(&str, u32)> = found
            .iter()
            .map(|it| (it.effect_id.as_str(), it.attempt))
            .collect();
        assert_eq!(ids, [(id(2).as_str(), 1), (id(1).as_str(), 2)]);
    }

    #[test]
    fn effects_of_another_run_are_not_listed() {
        let log = [
            started("i"),
            called("c"),
            intended("c"),
            called("d"),
            intended("d"),
        ];
        assert_eq!(effects(3, &log).len(), 1);
        assert_eq!(effects(5, &log), []);
        let mut reused = vec![(
            "touchstone.task.reused",
            json!({"taskId": "t", "sourceRunId": "run_0"}),
        )];
        reused.extend(log);
        assert_eq!(effects(0, &reused), []);
    }
}
