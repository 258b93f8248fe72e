//! Decisions about assertions by an embedding model, and by a command of the operator.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::rules::eval::assertions::ToolCall;
use crate::rules::eval::judged::Decided;
use crate::rules::eval::scoring::EPSILON;
use crate::rules::eval::scoring_document::checks::{CommandCheck, MIN_SIMILAR, Similarity};
use crate::rules::run::deciders::Decider;
use crate::service::executor::eval::context::RunContext;
use touchstone_agents::embedding::{SimilarityRequest, similarity};
use touchstone_agents::ports::agent::EventSink;
use touchstone_agents::ports::assertions::{AskedToolCall, AssertionQuestion};
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::Task;

/// The actions of the attempt that gave the answer.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub calls: &'a [ToolCall],
    pub latency_ms: u64,
}

fn text_of(output: &Value) -> Cow<'_, str> {
    match output {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(canonical_text(other)),
    }
}

/// The similarity of the answer, and the identity of the embedding model.
///
/// # Errors
/// Why there is none, as a label.
pub(super) async fn similar(
    context: &RunContext,
    task: &Task,
    output: &Value,
    (place, check): (&str, &Similarity),
    sink: &impl EventSink,
) -> Result<(String, Decided), String> {
    let pinned = context.spec.deciders.embeddings.as_ref();
    let (Some(pinned), Some(model)) = (pinned, &context.embeddings) else {
        return Err(Decider::Embeddings.missing().to_owned());
    };
    let text = text_of(output);
    if text.trim().is_empty() {
        // Endpoints refuse an empty text, and no reference is empty.
        return Ok((pinned.identity(), Decided::default()));
    }
    let others: Vec<&str> = check.references().collect();
    let request = SimilarityRequest {
        tenant: &context.run.tenant,
        run: &context.run.run_id,
        task: &task.task_id,
        input: &task.input,
        model,
        assertion: place,
        text: &text,
        others: &others,
    };
    let score = similarity(request, &context.meter, sink).await?;
    let decided = Decided {
        score,
        holds: score + EPSILON >= check.min.unwrap_or(MIN_SIMILAR),
        ..Decided::default()
    };
    Ok((pinned.identity(), decided))
}

/// The command's decision about the answer, and the digest of its command line.
///
/// # Errors
/// Why it says nothing, as a label.
pub(super) async fn command(
    context: &RunContext,
    task: &Task,
    output: &Value,
    check: &CommandCheck,
    attempt: Attempt<'_>,
) -> Result<(String, Decided), String> {
    let pinned = context.spec.deciders.command.as_ref();
    let (Some(pinned), Some(program)) = (pinned, &context.program) else {
        return Err(Decider::Command.missing().to_owned());
    };
    let (cost, tokens) = context.writer.with_state(|state| {
        let facts = state.eval.tasks.get(&task.task_id);
        facts.map_or_else(Default::default, |it| (it.attempt_cost, it.attempt_tokens))
    });
    let calls = attempt.calls.iter().map(|call| AskedToolCall {
        tool: &call.tool,
        arguments: call.arguments.as_ref(),
    });
    let question = AssertionQuestion {
        name: &check.name,
        config: check.config.as_ref(),
        task: task.task_id.as_str(),
        input: &task.input,
        output,
        expected: json!(task.expected),
        tool_calls: calls.collect(),
        latency_ms: Some(attempt.latency_ms),
        cost_usd: cost.known().map(|cost| cost.usd()),
        tokens,
    };
    let answer = program.assess(&question).await?;
    let decided = Decided {
        score: answer.score,
        holds: answer.pass,
        reason: answer.reason,
        ..Decided::default()
    };
    Ok((pinned.clone(), decided))
}
