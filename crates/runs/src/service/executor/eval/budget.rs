//! The budget of an eval run (RFC 0084): its limits, and the questions to people about more.

use std::sync::Arc;

use crate::ports::queue::Wait;
use crate::rules::run::budget_extension;
use crate::rules::run::budget_extension::UsedUp;
use crate::rules::run::record::EvalSpec;
use crate::service::executor::WorkEnd;
use crate::service::executor::control::RunSignals;
use crate::service::executor::endings::Breach;
use crate::service::executor::eval::context::RunContext;
use crate::service::run_writer::RunWriter;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::budget::{Dimension, Limits};
use touchstone_agents::rules::BUDGET_EXHAUSTED;
use touchstone_kit::ids::NodeId;
use touchstone_openwop::events::{
    BudgetExhausted, BudgetReserved, EffectiveBudget, Event, NewEvent, RunError,
};

/// The end of a run that asked for more budget and did not get it yet: it waits for the answer, or
/// fails if a person denied it.
pub(super) fn check_extension(
    spec: &EvalSpec,
    writer: &RunWriter,
    signals: &RunSignals,
) -> Option<WorkEnd> {
    let node = NodeId::from(budget_extension::NODE);
    let question = writer.with_state(|state| {
        let facts = state.flow.node(&node)?.interrupt.clone()?;
        Some((facts, state.eval.own_spending()))
    });
    let (facts, spent) = question.filter(|_| spec.budget.interrupts)?;
    let Some((answer, _)) = &facts.resolution else {
        return Some(WorkEnd::Waiting(Wait {
            until: None,
            pause_known: signals.pause_requested(),
        }));
    };
    if budget_extension::accepts(answer) {
        return None;
    }
    let dimension =
        budget_extension::dimension_of(&facts.requested.data).unwrap_or(Dimension::Cost);
    let limits = extended_budget(spec, writer).effective(spec.cost_ceiling);
    let used_up = UsedUp {
        dimension,
        consumed: spent.of(dimension),
        limit: limits.of(dimension).unwrap_or_default(),
    };
    Some(fail_exhausted(used_up, writer))
}

/// The caller's budget with the extensions people granted.
fn extended_budget(spec: &EvalSpec, writer: &RunWriter) -> BudgetSpec {
    writer.with_state(|state| budget_extension::extended(&spec.budget, &state.budget_extensions))
}

/// The eval with the budget extensions people granted.
pub(super) fn extended(spec: &Arc<EvalSpec>, writer: &RunWriter) -> Arc<EvalSpec> {
    let budget = extended_budget(spec, writer);
    if budget == spec.budget {
        return spec.clone();
    }
    Arc::new(EvalSpec {
        budget,
        ..spec.as_ref().clone()
    })
}

/// Records the limits in force, at the start and after each extension, and refuses a model they do
/// not allow before it is called (RFC 0084 §B).
pub(super) fn open(spec: &EvalSpec, writer: &RunWriter) -> Result<(), RunError> {
    let limits = spec.budget.effective(spec.cost_ceiling);
    let due = writer.with_state(|state| state.budget_reserved <= state.budget_extensions.len());
    if limits != Limits::default() && due {
        writer.emit(&NewEvent::of_run(Event::BudgetReserved(BudgetReserved {
            effective_budget: EffectiveBudget {
                max_tokens: limits.max_tokens,
                max_cost_usd: limits.max_cost,
                max_tool_calls: limits.max_tool_calls,
                max_retries: limits.max_retries,
            },
            scope: "run".to_owned(),
        })));
    }
    if spec.budget.allows(&spec.model.model) {
        return Ok(());
    }
    let message = format!(
        "the run's budget does not allow the model `{}`; see `modelAllow` and `modelDeny`",
        spec.model.model
    );
    Err(RunError::new("budget_model_denied", message))
}

/// The end of a run whose budget is exhausted: it asks for more if its budget says so, or fails.
pub(super) fn exhausted(context: &RunContext, dimension: Dimension) -> WorkEnd {
    let (writer, spec) = (&context.writer, &context.spec);
    let limits = spec.budget.effective(spec.cost_ceiling);
    let used_up = UsedUp {
        dimension,
        consumed: context.meter.spent().of(dimension),
        limit: limits.of(dimension).unwrap_or_default(),
    };
    let exhausted = NewEvent::of_run(Event::BudgetExhausted(BudgetExhausted {
        dimension: dimension.as_str().to_owned(),
        consumed: used_up.consumed,
        limit: used_up.limit,
    }));
    if spec.budget.interrupts {
        let asked = writer.with_state(|state| state.budget_extensions.len());
        let mut events = vec![exhausted];
        events.extend(budget_extension::ask(&context.run.run_id, used_up, asked));
        writer.emit_all(&events);
        return WorkEnd::Waiting(Wait {
            until: None,
            pause_known: false,
        });
    }
    writer.emit(&exhausted);
    fail_exhausted(used_up, writer)
}

/// Fails a run whose budget is exhausted.
fn fail_exhausted(used_up: UsedUp, writer: &RunWriter) -> WorkEnd {
    // For countable dimensions, the refused unit is one beyond the limit.
    let observed = match used_up.dimension {
        Dimension::Tokens | Dimension::Cost => used_up.consumed,
        Dimension::ToolCalls | Dimension::Retries => used_up.consumed + 1.0,
    };
    let breach = Breach {
        kind: used_up.dimension.cap(),
        limit: used_up.limit,
        observed,
        node: None,
        code: BUDGET_EXHAUSTED,
        message: "the run's budget is exhausted",
    };
    breach.fail(writer)
}
