//! The list of runs, and their tags.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::json;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::rules::eval::report::Verdict;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::listing::{RunKind, RunPosition, RunQuery, TagRequest};
use crate::rules::run::search::Search;
use crate::service::runs::reading::list::MAX_RUNS;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, Query, closed, is_run_id};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;

/// Runs of a page unless `limit` says otherwise.
pub const DEFAULT_LIMIT: u64 = 50;

/// `GET /v1/host/touchstone/runs`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Answer {
    let page = state.runs.list(&caller.tenant, &asked(&query)?).await?;
    let next = page.next.as_ref().map(cursor);
    let mut body = json!({"runs": page.runs});
    if let (Some(members), Some(next)) = (body.as_object_mut(), next) {
        members.insert("nextCursor".to_owned(), json!(next));
    }
    json(StatusCode::OK, &body)
}

/// The conditions that a query names.
///
/// # Errors
/// `validation_error` that names the parameter.
pub fn asked(query: &Query) -> Result<RunQuery, Problem> {
    let text = |name: &str| query.get(name).map(str::to_owned);
    let kinds = RunKind::ALL.map(|kind| (kind.as_str(), kind));
    let verdicts =
        [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(|it| (it.as_str(), it));
    let search = query
        .get("q")
        .map(Search::parse)
        .transpose()?
        .unwrap_or_default();
    let id_prefix = query.get("idPrefix").map(id_prefix).transpose()?;
    if id_prefix.is_some() && search.id_prefix.is_some() {
        return Err(Problem::validation(
            "q",
            "`q` must not have a run id together with `idPrefix`",
        ));
    }
    let limit = query.whole("limit", 1, MAX_RUNS)?.unwrap_or(DEFAULT_LIMIT);
    Ok(RunQuery {
        kind: one_of(query, "kind", &kinds)?,
        workflow_id: None,
        suite_id: text("suiteId"),
        suite_version: text("suiteVersion"),
        agent_id: text("agentId"),
        agent_version: text("agentVersion"),
        model: text("model"),
        verdict: one_of(query, "verdict", &verdicts)?,
        status: status(query)?,
        tag: text("tag"),
        words: search.words,
        id_prefix: id_prefix.or(search.id_prefix),
        since: time(query, "since")?,
        until: time(query, "until")?,
        after: query.get("cursor").map(position).transpose()?,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    })
}

/// # Errors
/// `validation_error` for an unknown status.
pub fn status(query: &Query) -> Result<Option<RunStatus>, Problem> {
    let statuses = RunStatus::ALL.map(|status| (status.as_str(), status));
    one_of(query, "status", &statuses)
}

/// The text that `cursor` takes.
pub fn cursor(position: &RunPosition) -> String {
    URL_SAFE_NO_PAD.encode(position.encode())
}

fn one_of<T: Copy>(
    query: &Query,
    name: &str,
    known: &[(&'static str, T)],
) -> Result<Option<T>, Problem> {
    let Some(text) = query.get(name) else {
        return Ok(None);
    };
    let found = known.iter().find(|(label, _)| *label == text);
    found.map(|(_, value)| Some(*value)).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(label, _)| *label).collect();
        Problem::validation(
            name,
            format!("`{name}` must be one of {}", known.join(", ")),
        )
    })
}

fn time(query: &Query, name: &str) -> Result<Option<Timestamp>, Problem> {
    let read = |text: &str| {
        text.parse().map_err(|_| {
            Problem::validation(
                name,
                format!("`{name}` must be an RFC 3339 timestamp, such as 2026-11-24T09:00:00Z"),
            )
        })
    };
    query.get(name).map(read).transpose()
}

fn id_prefix(text: &str) -> Result<String, Problem> {
    is_run_id(text).then(|| text.to_owned()).ok_or_else(|| {
        Problem::validation(
            "idPrefix",
            "`idPrefix` must be 1 to 128 letters, digits, `_` or `-`",
        )
    })
}

fn position(cursor: &str) -> Result<RunPosition, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.as_deref()
        .and_then(RunPosition::decode)
        .ok_or_else(not_a_cursor)
}

pub fn not_a_cursor() -> Problem {
    Problem::validation(
        "cursor",
        "`cursor` is not from a page of this list; use the one that the previous page ended with",
    )
}

/// `POST /v1/host/touchstone/runs/{runId}:tag`.
pub async fn tag(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let change: TagRequest = closed(&body)?;
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:tag");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let tags = runs.change_tags(&who.tenant, &run, &change).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "tags": tags}),
        ))
    })
    .await
}
