//! The summary of an eval run.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::v2::payload::diff_ref;
use crate::wire::v2::translation::{Context, Unprojectable};

/// The summary of an eval run. `run.completed.outputs` of such a run has the same members.
pub fn summary(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut summary = Closed::of("EvalSummary", body)?;
    summary.keep(&[
        "suiteId",
        "suiteVersion",
        "aggregateScore",
        "passed",
        "taskCount",
        "passedCount",
    ])?;
    summary.keep_any(&["evaluatedModelClass", "totalCostUsd"]);
    let tasks = summary.list("tasks")?;
    summary.put("tasks", each(tasks, task)?);
    if let Some(compared) = summary.take("regression") {
        summary.put("regression", regression(context, compared)?);
    }
    Ok(summary.done())
}

fn task(body: Value) -> Result<Value, Unprojectable> {
    let mut task = Closed::of("EvalTaskResult", body)?;
    task.keep(&["taskId", "score", "passed"])?;
    task.keep_any(&["costUsd", "latencyMs", "schemaValid"]);
    if let Some(Value::Array(findings)) = task.take("safetyFindings") {
        task.put("safetyFindings", each(findings, finding)?);
    }
    Ok(task.done())
}

fn finding(body: Value) -> Result<Value, Unprojectable> {
    let mut finding = Closed::of("SafetyFinding", body)?;
    finding.keep(&["kind", "severity"])?;
    Ok(finding.done())
}

/// The comparison with a baseline.
fn regression(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut compared = Closed::of("EvalRegression", body)?;
    compared.bind(context, "baselineRunId")?;
    compared.keep(&["scoreDelta"])?;
    let diff = compared.take("diffRef");
    let diff = diff.and_then(|it| diff_ref(context.tenant, it.as_str()?));
    if let Some(diff) = diff {
        compared.put("diffRef", diff);
    }
    Ok(compared.done())
}
