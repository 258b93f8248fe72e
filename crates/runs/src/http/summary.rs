//! `GET /v1/runs/{runId}/eval-summary`: the scorecard, written task by task, so that its size does
//! not depend on the memory of the host.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::rules::eval::report::NoTasks;
use crate::rules::run::fold::stored::CHUNK_TASKS;
use touchstone_host::http::answer::Answer;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::summary::{EvalSummary, TaskSummary};

/// Tasks of one part of the body. With as many as a chunk of the stored state has, each chunk is read
/// for one or two parts.
const PART: usize = CHUNK_TASKS;

pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let summary = state.runs.summary_totals(&caller.tenant, &run).await?;
    let (head, tail) = around_tasks(&summary)?;
    let body = SummaryBody {
        state,
        tenant: caller.tenant,
        run,
        tail,
        next: 0,
        is_first: true,
    };
    let head = stream::once(async { Ok(Bytes::from(head)) });
    let rest = stream::try_unfold(Some(body), part);
    let mut response = Response::new(Body::from_stream(head.chain(rest)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The text of a summary before and after its tasks.
fn around_tasks(summary: &EvalSummary<NoTasks>) -> Result<(String, String), Problem> {
    let text = serde_json::to_string(summary).map_err(|cause| internal(&cause))?;
    // A quotation mark within a string is escaped, so this is the member.
    let (before, after) = text.split_once("\"tasks\":[]").unwrap_or((&text, ""));
    Ok((format!("{before}\"tasks\":["), format!("]{after}")))
}

/// The rest of a body.
struct SummaryBody {
    state: Arc<RunsApi>,
    tenant: TenantId,
    run: RunId,
    tail: String,
    /// The place in the suite of the next task.
    next: usize,
    is_first: bool,
}

/// The next part of the body; `None` after the last one.
async fn part(body: Option<SummaryBody>) -> Result<Option<(Bytes, Option<SummaryBody>)>, Problem> {
    let Some(mut body) = body else {
        return Ok(None);
    };
    let runs = &body.state.runs;
    let tasks = runs.summary_tasks(&body.tenant, &body.run, body.next, PART);
    let Some(tasks) = tasks.await? else {
        return Ok(Some((body.tail.into(), None)));
    };
    let text = listed(&tasks, body.is_first).map_err(|cause| internal(&cause))?;
    body.next += PART;
    body.is_first &= tasks.is_empty();
    Ok(Some((text.into(), Some(body))))
}

/// Members of a JSON list, which begin with a comma unless they are the first.
fn listed(tasks: &[TaskSummary], is_first: bool) -> serde_json::Result<String> {
    let mut text = String::new();
    for task in tasks {
        if !(is_first && text.is_empty()) {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(task)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use touchstone_openwop::suite::ModelClass;
    use touchstone_openwop::summary::Regression;

    #[test]
    fn the_parts_are_the_text_of_the_whole_summary() {
        let tasks: Vec<TaskSummary> = (0..5)
            .map(|n| {
                serde_json::from_value(
                    json!({"taskId": format!("t-{n}"), "score": 0.5, "passed": false}),
                )
            })
            .collect::<Result<_, _>>()
            .unwrap();
        let summary = |tasks| EvalSummary {
            suite_id: r#"a","tasks":[],"b"#.to_owned(),
            suite_version: "1.0.0".to_owned(),
            evaluated_model_class: Some(ModelClass::General),
            aggregate_score: 0.5,
            passed: false,
            task_count: 5,
            passed_count: 0,
            total_cost_usd: None,
            tasks,
            regression: Some(Regression {
                baseline_run_id: "run_0".into(),
                score_delta: 0.1,
                diff_ref: None,
            }),
        };
        let empty = EvalSummary::<NoTasks> {
            suite_id: r#"a","tasks":[],"b"#.to_owned(),
            suite_version: "1.0.0".to_owned(),
            evaluated_model_class: Some(ModelClass::General),
            aggregate_score: 0.5,
            passed: false,
            task_count: 5,
            passed_count: 0,
            total_cost_usd: None,
            tasks: NoTasks,
            regression: summary(Vec::new()).regression,
        };
        let (head, tail) = around_tasks(&empty).unwrap();
        for size in [1, 2, 5] {
            let mut text = head.clone();
            for (n, part) in tasks.chunks(size).enumerate() {
                text.push_str(&listed(part, n == 0).unwrap());
            }
            text.push_str(&tail);
            assert_eq!(
                text,
                serde_json::to_string(&summary(tasks.clone())).unwrap()
            );
        }
        let none = serde_json::to_string(&summary(Vec::new())).unwrap();
        assert_eq!(format!("{head}{tail}"), none);
    }
}
