//! Extensions of a used-up budget by people (RFC 0084 §D, `onExhaustion: "interrupt"`): the
//! question, and the amount that an answer adds.

use serde_json::{Value, json};

use crate::rules::workflow::gate::GatePolicy;
use crate::rules::workflow::interrupt;
use crate::rules::workflow::node::Interrupt;
use touchstone_agents::budget::Dimension;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_kit::fields::Fields;
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{EffectiveBudget, InterruptKind, InterruptResolved, NewEvent};

/// The node of the question.
pub const NODE: &str = "budget";
/// The member of an answer that holds the added amounts.
const DELTA: &str = "budgetDelta";
/// Integers up to here are exact in every client.
const MOST: f64 = 9_007_199_254_740_991.0;
const MOST_USD: f64 = 1_000_000.0;

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsedUp {
    pub dimension: Dimension,
    /// In the dimension's unit.
    pub consumed: f64,
    pub limit: f64,
}

pub fn gate() -> GatePolicy {
    GatePolicy {
        required_scope: Some("approvals:respond".to_owned()),
        ..GatePolicy::default()
    }
}

/// The events that suspend a run whose budget is exhausted, after `asked` earlier questions.
pub fn ask(run: &RunId, used_up: UsedUp, asked: usize) -> Vec<NewEvent> {
    let UsedUp {
        dimension,
        consumed,
        limit,
    } = used_up;
    let question = Interrupt {
        kind: InterruptKind::Approval,
        data: json!({
            "artifactId": run,
            "artifactType": "run-budget",
            "title": "The run's budget is exhausted. Approve more, or end the run?",
            "artifactData": {"dimension": dimension.as_str(), "consumed": consumed, "limit": limit},
            "actions": ["accept", "reject"],
        }),
        resume_schema: Some(resume_schema(dimension)),
        timeout_ms: None,
        gate: gate(),
    };
    let attempt = u32::try_from(asked).map_or(u32::MAX, |asked| asked.saturating_add(1));
    interrupt::suspend(run, &NodeId::from(NODE), attempt, &question)
}

fn resume_schema(dimension: Dimension) -> Value {
    let whole = json!({"type": "integer", "minimum": 1, "maximum": MOST});
    json!({
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": {"enum": ["accept", "reject"]},
            "feedback": {"type": "string"},
            DELTA: {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "maxTokens": whole,
                    "maxCostUsd": {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_USD},
                    "maxToolCalls": whole,
                    "maxRetries": whole,
                },
            },
        },
        "if": {"properties": {"action": {"const": "accept"}}},
        "then": {"required": [DELTA], "properties": {DELTA: {"required": [member(dimension)]}}},
    })
}

/// The policy's member name for the limit of a dimension.
pub const fn member(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Tokens => "maxTokens",
        Dimension::Cost => "maxCostUsd",
        Dimension::ToolCalls => "maxToolCalls",
        Dimension::Retries => "maxRetries",
    }
}

/// The dimension of a question.
pub fn dimension_of(question: &Value) -> Option<Dimension> {
    let name = question.pointer("/artifactData/dimension")?.as_str()?;
    Dimension::parse(name)
}

/// Whether an answer extends the budget.
pub fn accepts(answer: &Value) -> bool {
    answer.get("action").and_then(Value::as_str) == Some("accept")
}

/// The amounts that an answer adds, if it answers a budget question and approves.
pub fn added(resolved: &InterruptResolved) -> Option<EffectiveBudget> {
    if resolved.node_id.as_str() != NODE || !accepts(&resolved.resume_value) {
        return None;
    }
    let members = resolved.resume_value.get(DELTA)?.as_object()?;
    let fields = Fields::of(members, DELTA);
    // JSON Schema accepts 3.0 as an integer.
    let whole = |name| {
        let number = fields.number(name, 1.0, MOST).ok().flatten()?;
        format!("{number:.0}").parse().ok()
    };
    let usd = fields.number("maxCostUsd", 0.0, MOST_USD).ok().flatten();
    Some(EffectiveBudget {
        max_tokens: whole("maxTokens"),
        max_cost_usd: usd.and_then(NanoUsd::from_usd),
        max_tool_calls: whole("maxToolCalls"),
        max_retries: whole("maxRetries"),
    })
}

/// A budget with all extensions added. A dimension without a limit stays unlimited.
pub fn extended(budget: &BudgetSpec, added: &[EffectiveBudget]) -> BudgetSpec {
    let mut budget = budget.clone();
    let add = |bound: &mut Option<u64>, more: Option<u64>| {
        *bound = bound.map(|bound| bound.saturating_add(more.unwrap_or_default()));
    };
    for more in added {
        add(&mut budget.max_tokens, more.max_tokens);
        add(&mut budget.max_tool_calls, more.max_tool_calls);
        add(&mut budget.max_retries, more.max_retries);
        budget.max_cost = budget
            .max_cost
            .map(|bound| bound + more.max_cost_usd.unwrap_or(NanoUsd::ZERO));
    }
    budget
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use touchstone_openwop::events::Event;
    use touchstone_openwop::schema::compile_untrusted;

    fn answered(node: &str, value: Value) -> InterruptResolved {
        InterruptResolved {
            node_id: NodeId::from(node),
            interrupt_id: "int-budget-1".to_owned(),
            kind: InterruptKind::Approval,
            resume_value: value,
            resolved_by: "key".to_owned(),
        }
    }

    #[test]
    fn a_budget_extension_is_added_to_the_current_limits() {
        let budget = BudgetSpec {
            max_tokens: Some(10),
            max_cost: NanoUsd::from_usd(0.5),
            ..BudgetSpec::default()
        };
        let more = json!({"maxTokens": 5.0, "maxCostUsd": 0.25, "maxToolCalls": 3});
        let answer = answered(NODE, json!({"action": "accept", DELTA: more}));
        let once = added(&answer).unwrap();
        let found = extended(&budget, &[once, once]);
        assert_eq!(found.max_tokens, Some(20));
        assert_eq!(found.max_cost, NanoUsd::from_usd(1.0));
        assert_eq!(found.max_tool_calls, None);
        assert_eq!(extended(&budget, &[]), budget);
    }

    #[rstest]
    #[case(NODE, json!({"action": "reject"}))]
    #[case("gate", json!({"action": "accept", "budgetDelta": {"maxTokens": 5}}))]
    #[case(NODE, json!({"action": "timeout"}))]
    fn other_answers_do_not_extend_the_budget(#[case] node: &str, #[case] value: Value) {
        assert_eq!(added(&answered(node, value)), None);
    }

    #[rstest]
    #[case(json!({"action": "reject"}), true)]
    #[case(json!({"action": "reject", "feedback": "enough"}), true)]
    #[case(json!({"action": "accept", "budgetDelta": {"maxToolCalls": 1}}), true)]
    #[case(json!({"action": "accept", "budgetDelta": {"maxToolCalls": 1, "maxCostUsd": 0.5}}), true)]
    #[case(json!({"action": "accept"}), false)]
    #[case(json!({"action": "accept", "budgetDelta": {}}), false)]
    #[case(json!({"action": "accept", "budgetDelta": {"maxTokens": 9}}), false)]
    #[case(json!({"action": "accept", "budgetDelta": {"maxToolCalls": 0}}), false)]
    #[case(json!({"action": "accept", "budgetDelta": {"maxToolCalls": 1, "minutes": 5}}), false)]
    #[case(json!({"action": "ask"}), false)]
    #[case(json!({}), false)]
    fn an_approval_must_extend_the_exhausted_dimension(#[case] answer: Value, #[case] good: bool) {
        let schema = compile_untrusted(&resume_schema(Dimension::ToolCalls)).unwrap();
        assert_eq!(schema.first_violation(&answer).is_none(), good, "{answer}");
    }

    #[test]
    fn every_question_has_a_key_of_its_own_and_names_its_dimension() {
        let used_up = UsedUp {
            dimension: Dimension::Cost,
            consumed: 0.5,
            limit: 0.5,
        };
        let run = RunId::from("run_1");
        let (first, second) = (ask(&run, used_up, 0), ask(&run, used_up, 1));
        assert_ne!(first, second);
        let asked = first.iter().find_map(|event| match &event.event {
            Event::InterruptRequested(asked) => Some(asked),
            _ => None,
        });
        assert_eq!(dimension_of(&asked.unwrap().data), Some(Dimension::Cost));
    }
}
