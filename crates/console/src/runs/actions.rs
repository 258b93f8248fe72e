//! Forms that change a run.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::Map;

use crate::api::ConsoleApi;
use crate::page::answer::see_other;
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::DrainPolicy;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::http::runs::control;
use touchstone_runs::rules::run::listing::TagRequest;

/// The reason of a form, limited and masked as that of the API.
fn reason(form: &Form) -> Result<Option<String>, Problem> {
    let mut fields = Map::new();
    if form.get("reason").is_some_and(|it| !it.trim().is_empty()) {
        fields.insert("reason".to_owned(), form.required("reason")?.into());
    }
    control::reason(&fields)
}

fn back(run: &RunId, done: &str) -> Response {
    see_other(&format!("/console/runs/{run}?done={done}"))
}

/// `POST /console/runs/{runId}/cancel`.
pub async fn cancel(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let reason = reason(&form)?;
    api.runs.runs.cancel(&visit.caller, &run, reason).await?;
    Ok(back(&run, "cancelled"))
}

/// `POST /console/runs/{runId}/pause`.
pub async fn pause(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let reason = reason(&form)?;
    let runs = &api.runs.runs;
    let policy = DrainPolicy::default();
    runs.pause(&visit.caller, &run, policy, reason).await?;
    Ok(back(&run, "paused"))
}

/// `POST /console/runs/{runId}/resume`.
pub async fn resume(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
) -> Answer {
    api.runs.runs.resume(&visit.caller, &run).await?;
    Ok(back(&run, "resumed"))
}

/// `POST /console/runs/{runId}/retry`.
pub async fn retry(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
) -> Answer {
    let created = api.runs.runs.retry(&visit.caller, &run, None).await?;
    Ok(back(&created.run_id, "retried"))
}

/// `POST /console/runs/{runId}/void`.
pub async fn void(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    api.runs.runs.record(visit.tenant(), &run).await?;
    let why = "an agent's own key cannot void runs; use another principal's key";
    api.runs.reviews.refuse_own(&visit.caller, why).await?;
    form.required("reason")?;
    let reason = reason(&form)?.unwrap_or_default();
    let runs = &api.runs.runs;
    runs.void(&visit.caller, &run, reason, None).await?;
    Ok(back(&run, "voided"))
}

/// `POST /console/runs/{runId}/tags`.
pub async fn tags(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    // A tag to remove may have spaces at its ends.
    let change = TagRequest {
        add: form
            .get("add")
            .map(|it| it.trim().to_owned())
            .into_iter()
            .collect(),
        remove: form.get("remove").map(str::to_owned).into_iter().collect(),
    };
    api.runs.runs.record(visit.tenant(), &run).await?;
    let runs = &api.runs.runs;
    runs.change_tags(visit.tenant(), &run, &change).await?;
    Ok(back(&run, "tagged"))
}
