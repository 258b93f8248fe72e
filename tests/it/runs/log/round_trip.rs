//! Every recorded event can be read again, whatever data endpoints and models put into it.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;
use touchstone_kit::ids::EventId;
use touchstone_kit::json::parse_written;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{
    AgentDecided, AgentReasoned, AgentToolCalled, AgentToolReturned, BudgetConsumed,
    BudgetReserved, EffectiveBudget, EvalCompleted, EvalScored, Event, EventDocument, ModelRetried,
    NewEvent, ProviderUsage, RunError, RunFailed, ToolStatus, UsageEstimated, write_document,
};
use touchstone_runs::rules::run::fold::RunState;

/// Amounts below this are exact to the nano-dollar as a double; larger ones keep 15 digits.
const EXACT: u64 = 1 << 51;

fn amount() -> impl Strategy<Value = NanoUsd> {
    prop_oneof![0..EXACT, any::<u64>(), Just(u64::MAX)].prop_map(NanoUsd)
}

fn finite() -> impl Strategy<Value = f64> {
    use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE
}

/// Any output a model may give that the host accepts.
fn written() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        finite().prop_map(|number| serde_json::to_string(&number).unwrap()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    (leaf, 0..130_usize, any::<bool>()).prop_map(|(leaf, depth, objects)| {
        let (open, close) = if objects {
            ("{\"a\":", "}")
        } else {
            ("[", "]")
        };
        let text = format!("{}{leaf}{}", open.repeat(depth), close.repeat(depth));
        parse_written(&text).unwrap_or(Value::String(text))
    })
}

fn usage() -> impl Strategy<Value = Event> {
    let counts = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<Option<u64>>(),
    );
    (counts, prop::option::of(amount()), any::<String>()).prop_map(
        |((input, output, total, cached), cost, name)| {
            Event::ProviderUsage(ProviderUsage {
                provider: name.clone(),
                model: name,
                input_tokens: input,
                output_tokens: output,
                total_tokens: total,
                cost_estimate_usd: cost,
                currency: "USD".to_owned(),
                cache_read_tokens: cached,
                node_id: Some("task".into()),
            })
        },
    )
}

fn of_agents() -> impl Strategy<Value = Event> {
    (written(), any::<String>(), any::<u64>(), 0..4_u8).prop_map(|(value, text, number, kind)| {
        let agent_id = "community.bench.echo.default".into();
        match kind {
            0 => Event::AgentDecided(AgentDecided {
                agent_id,
                decision: value,
            }),
            1 => Event::AgentToolCalled(AgentToolCalled {
                agent_id,
                tool_name: text,
                call_id: "call".to_owned(),
                inputs: Some(value).filter(|value| !value.is_null()),
                args_hash: None,
                transport: None,
            }),
            2 => Event::AgentToolReturned(AgentToolReturned {
                agent_id,
                tool_name: text,
                call_id: "call".to_owned(),
                outcome: Some(value).filter(|value| !value.is_null()),
                error: None,
                status: ToolStatus::Ok,
                duration_ms: Some(number),
            }),
            _ => Event::AgentReasoned(AgentReasoned {
                agent_id,
                reasoning: text,
            }),
        }
    })
}

fn of_runs() -> impl Strategy<Value = Event> {
    let numbers = (finite(), finite(), any::<u64>(), any::<u32>());
    (numbers, any::<String>(), amount(), 0..6_u8).prop_map(
        |((a, b, n, small), text, cost, kind)| match kind {
            0 => Event::BudgetConsumed(BudgetConsumed {
                dimension: text,
                consumed: a,
                limit: b,
                remaining: Some(a),
            }),
            1 => Event::BudgetReserved(BudgetReserved {
                effective_budget: EffectiveBudget {
                    max_tokens: Some(n),
                    max_cost_usd: Some(cost),
                    max_tool_calls: Some(n),
                    max_retries: Some(n),
                },
                scope: "run".to_owned(),
            }),
            2 => Event::RunFailed(RunFailed {
                error: RunError {
                    code: text.clone(),
                    message: text,
                },
                failed_node_id: None,
            }),
            3 => Event::ModelRetried(ModelRetried {
                attempt: small,
                reason: text,
                wait_ms: n,
            }),
            4 => Event::EvalCompleted(EvalCompleted {
                aggregate_score: a,
                passed: n % 2 == 0,
                task_count: small as usize,
                passed_count: small as usize,
                regression_vs_baseline: Some(b),
            }),
            _ => Event::UsageEstimated(UsageEstimated {
                input_tokens: n,
                output_tokens: n,
                reason: Some(text),
            }),
        },
    )
}

fn scored() -> impl Strategy<Value = Event> {
    (finite(), any::<Option<u64>>(), any::<bool>()).prop_map(|(score, latency_ms, passed)| {
        Event::EvalScored(EvalScored {
            task_id: "task".into(),
            score,
            passed,
            cost_usd: None,
            latency_ms,
            schema_valid: Some(passed),
            safety_finding_count: None,
        })
    })
}

/// Whether reading preserves every digit.
fn is_exact(event: &Event) -> bool {
    match event {
        Event::ProviderUsage(usage) => usage.cost_estimate_usd.is_none_or(|cost| cost.0 < EXACT),
        Event::BudgetReserved(reserved) => {
            let cost = reserved.effective_budget.max_cost_usd;
            cost.is_none_or(|cost| cost.0 < EXACT)
        }
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn an_event_that_can_be_recorded_can_be_read(
        event in prop_oneof![usage(), of_agents(), of_runs(), scored()],
        micros in 0..4_000_000_000_000_000_i64,
    ) {
        let (id, at) = (EventId::from("evt_1"), Timestamp::from_microsecond(micros).unwrap());
        let new = NewEvent::of_task(event, &"task".into(), None);
        let body = write_document(&"run_1".into(), &id, 1, at, &new).unwrap();
        let read = EventDocument::read(&body).unwrap().event().unwrap().unwrap();
        if is_exact(&new.event) {
            prop_assert_eq!(&read, &new.event);
        }
        let mut state = RunState::default();
        state.apply_stored(1, &body);
        prop_assert_eq!(state.eval.unreadable, 0);
        let mut recorded = RunState::default();
        recorded.record(1, &read, new.node_id.as_ref(), at);
        prop_assert_eq!(state, recorded);
    }
}
