//! `GET /v1/host/touchstone/runs/{runId}/comparison`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use crate::http::RunsApi;
use crate::http::extract::OwnRun;
use crate::rules::eval::comparison::RunComparison;
use crate::rules::eval::report::NoTasks;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;

/// Maximum number of tasks of one page of a comparison.
const MAX_CHANGES: u64 = 1000;

/// Tasks of one part of the body.
const PART: usize = 1000;

pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    let baseline = query.run("baseline")?;
    let (runs, tenant, run) = (&state.runs, &caller.tenant, &run.run_id);
    let cursor = query.get("cursor").map(TaskId::from);
    let limit = query.whole("limit", 1, MAX_CHANGES)?;
    if cursor.is_some() && limit.is_none() {
        let message = "`cursor` needs the `limit` of the page that it is from";
        return Err(Problem::validation("cursor", message).into());
    }
    let Some(limit) = limit else {
        // A gate decides by it, so it is not one of up to five minutes ago.
        let found = runs.comparison(tenant, run, &baseline).await?;
        return whole(Arc::new(found), PART);
    };
    let found = runs.shared_comparison(tenant, run, &baseline).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = found.page(cursor.as_ref(), limit).ok_or_else(|| {
        Problem::validation(
            "cursor",
            "`cursor` is not from a page of this comparison; omit it to start with the first task",
        )
    })?;
    json(StatusCode::OK, &page)
}

/// The whole comparison, written in parts of at most `most` tasks.
fn whole(found: Arc<RunComparison>, most: usize) -> Answer {
    let parts = parts(found, most).map_err(|cause| internal(&cause))?;
    let mut response = Response::new(Body::from_stream(stream::iter(parts)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn parts(
    found: Arc<RunComparison>,
    most: usize,
) -> serde_json::Result<impl Iterator<Item = serde_json::Result<Bytes>>> {
    let text = serde_json::to_string(&found.with_tasks(NoTasks, NoTasks))?;
    // A quotation mark within a string is escaped, so these are members.
    let (head, rest) = text.split_once("\"leftOut\":[]").unwrap_or((&text, ""));
    let (middle, tail) = rest.split_once("\"changes\":[]").unwrap_or((rest, ""));
    let [head, middle, tail] = [
        format!("{head}\"leftOut\":["),
        format!("]{middle}\"changes\":["),
        format!("]{tail}"),
    ]
    .map(|text| std::iter::once(Ok(Bytes::from(text))));
    let again = found.clone();
    let left_out = (0..).map_while(move |part| items(&found.left_out, part, most));
    let changes = (0..).map_while(move |part| items(&again.changes, part, most));
    Ok(head
        .chain(left_out)
        .chain(middle)
        .chain(changes)
        .chain(tail))
}

/// A part of a list, without its brackets; `None` after the last one.
fn items<T: Serialize>(list: &[T], part: usize, most: usize) -> Option<serde_json::Result<Bytes>> {
    let items = list.get(part * most..)?;
    let items = items.get(..most).unwrap_or(items);
    if items.is_empty() {
        return None;
    }
    let separator = if part == 0 { "" } else { "," };
    let text = serde_json::to_string(items);
    Some(text.map(|text| {
        format!(
            "{separator}{}",
            text.get(1..text.len() - 1).unwrap_or_default()
        )
        .into()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::eval::comparison::changed_sample;

    #[test]
    fn parts_are_the_same_text_as_the_whole() {
        let whole = changed_sample();
        assert!(whole.changes.len() > 2 && whole.left_out.len() > 1);
        let text = serde_json::to_string(&whole).unwrap();
        let empty = whole.with_tasks(Vec::new(), Vec::new());
        for (comparison, text) in [
            (empty.clone(), serde_json::to_string(&empty).unwrap()),
            (whole, text),
        ] {
            let found = Arc::new(comparison);
            for most in 1..=4 {
                let parts = parts(found.clone(), most).unwrap();
                let bytes: Vec<u8> = parts.flat_map(|part| part.unwrap()).collect();
                assert_eq!(String::from_utf8(bytes).unwrap(), text);
            }
        }
    }
}
