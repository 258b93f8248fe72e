//! What a reader of a log gets: the form of the request's major, and the cursors of that major.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;

use crate::http::RunsApi;
use crate::http::events::poll::full;
use crate::rules::run::record::RunRecord;
use crate::service::log_reader::page::Page;
use crate::service::log_reader::{Error, LogForm};
use touchstone_host::access::Scope;
use touchstone_host::http::extract::Query;
use touchstone_host::http::translation::Translated;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v1;

/// The form of a run's log for a caller. Task content of eval runs needs a scope of its own.
pub fn form_for(run: &RunRecord, caller: &Caller, major: Major) -> LogForm {
    let is_masked = run.spec.work.is_eval() && !caller.has(Scope::RunsContent);
    LogForm::of(run, major).masked(is_masked)
}

/// The place up to which a client that polls has read the log.
///
/// # Errors
/// `validation_error`.
pub fn polled_up_to(query: &Query, form: &LogForm) -> Result<u64, Problem> {
    let numbers = form.numbers();
    let name = match form.major {
        Major::V1 => "lastSequence",
        Major::V2 => "afterSequence",
    };
    let given = query.whole(name, 0, u64::MAX)?;
    Ok(match form.major {
        Major::V1 => v1::event::read_up_to(numbers, given),
        Major::V2 => given.map_or(0, |sequence| numbers.read_up_to(sequence)),
    })
}

/// The place up to which a client that connects again has read the log.
///
/// # Errors
/// `validation_error` under major 2 for anything but a sequence. Major 1 ignores it.
pub async fn streamed_up_to(
    state: &RunsApi,
    run: &RunRecord,
    form: &LogForm,
    headers: &HeaderMap,
) -> Result<u64, Problem> {
    let Some(given) = headers.get("last-event-id") else {
        return Ok(0);
    };
    let text = given.to_str().unwrap_or_default();
    let numbers = form.numbers();
    match form.major {
        Major::V1 => {
            let found = state.log.position(&run.run_id, numbers, text).await;
            Ok(found.map_err(|cause| internal(&cause))?.unwrap_or_default())
        }
        Major::V2 if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(Problem::validation(
                "Last-Event-ID",
                "`Last-Event-ID` must be the `id` of a frame: an integer of at least 0",
            ))
        }
        // A number that is too large is past the end of any log.
        Major::V2 => Ok(numbers.read_up_to(text.parse().unwrap_or(u64::MAX))),
    }
}

/// The page with the event after `position` in a log that reaches at least `head`.
///
/// # Errors
/// The log cannot be read, or has no form under the major.
pub async fn page_for(
    state: &RunsApi,
    run: &RunRecord,
    form: &LogForm,
    position: u64,
    head: u64,
) -> Result<Arc<Page>, Problem> {
    let page = state.log.page_for(&run.run_id, position, head, form).await;
    page.map_err(|cause| match cause {
        Error::OutOfMemory(cause) => full(cause),
        Error::Unshown(cause) => cause.problem(),
        cause => internal(&cause),
    })
}

/// Marks an answer that is written in the form of its major.
pub fn in_its_form(mut response: Response) -> Response {
    response.extensions_mut().insert(Translated);
    response
}
