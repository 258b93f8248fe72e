//! `GET /runs` of major 2: the snapshots of the tenant's runs. Major 1 has no such operation.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::http::runs::list::{DEFAULT_LIMIT, not_a_cursor, status};
use crate::http::views::shown;
use crate::rules::run::cursor::ListOf;
use crate::rules::run::listing::{RunPosition, RunQuery};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::http::negotiation::VERSION;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v2::MAX_PAGE;

/// A page ends after this many bytes, because inputs and metadata of runs may be large.
const PAGE_BYTES: usize = 2 << 20;

/// `GET /runs`.
pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let serves_v1 = state.host.settings.protocol.majors.has(Major::V1);
    if serves_v1 && !headers.contains_key(VERSION) {
        // This path was not found before major 2, and checkers of major 1 expect that.
        let message = "`GET /runs` needs the header `OpenWOP-Version: 2.0`";
        return Err(Problem::new(ErrorCode::NotFound, message).into());
    }
    let list = ListOf {
        tenant: &caller.tenant,
        workflow_id: query.get("workflowId"),
        status: status(&query)?,
    };
    let secret = state.runs.cursor_secret().await?;
    let read = |text: &str| list.position(&secret, text).ok_or_else(not_a_cursor);
    let after = query.get("cursor").map(read).transpose()?;
    let limit = query.whole("limit", 1, MAX_PAGE)?.unwrap_or(DEFAULT_LIMIT);
    let asked = RunQuery {
        status: list.status,
        after,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        ..RunQuery::default()
    };
    let asked = match list.workflow_id {
        Some(workflow) => asked.of_workflow(workflow),
        None => asked,
    };
    let (runs, next) = snapshots(&state, &caller, &asked).await?;
    let mut body = json!({"runs": runs});
    if let (Some(members), Some(next)) = (body.as_object_mut(), next) {
        let cursor = list.cursor(&secret, &next);
        let cursor = cursor.map_err(|cause| internal(&cause))?;
        members.insert("nextCursor".to_owned(), cursor.into());
    }
    json(StatusCode::OK, &body)
}

/// The snapshots of a page, and the position of the next one.
async fn snapshots(
    state: &RunsApi,
    caller: &Caller,
    asked: &RunQuery,
) -> Result<(Vec<Value>, Option<RunPosition>), Problem> {
    let page = state.runs.list(&caller.tenant, asked).await?;
    let (mut runs, mut bytes) = (Vec::new(), 0);
    for row in &page.runs {
        let snapshot = match shown(&state.runs, caller, &row.run_id).await {
            Ok(snapshot) => snapshot,
            // It was deleted meanwhile.
            Err(problem) if problem.code == ErrorCode::NotFound => continue,
            Err(problem) => return Err(problem),
        };
        bytes += snapshot.to_string().len();
        runs.push(snapshot);
        let is_last = page.runs.last().is_some_and(|it| it.run_id == row.run_id);
        if bytes > PAGE_BYTES && !is_last {
            return Ok((runs, Some(row.position())));
        }
    }
    Ok((runs, page.next))
}
