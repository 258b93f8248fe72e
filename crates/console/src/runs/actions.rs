//! Forms that change a run.

use std::sync::Arc;

use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::see_other;
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::rules::run::listing::TagRequest;

/// `POST /console/runs/{runId}/cancel`.
pub async fn cancel(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let reason = form.get("reason").map(str::to_owned);
    api.runs.runs.cancel(&visit.caller, &run, reason).await?;
    Ok(see_other(&format!("/console/runs/{run}?done=cancelled")))
}

/// `POST /console/runs/{runId}/tags`.
pub async fn tags(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let texts = |name| form.get(name).into_iter().map(|it| it.trim().to_owned());
    let change = TagRequest {
        add: texts("add").collect(),
        remove: texts("remove").collect(),
    };
    api.runs.runs.record(visit.tenant(), &run).await?;
    let runs = &api.runs.runs;
    runs.change_tags(visit.tenant(), &run, &change).await?;
    Ok(see_other(&format!("/console/runs/{run}?done=tagged")))
}
