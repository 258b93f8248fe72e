//! The form that forks a run.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::see_other;
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::service::access::authorise;
use touchstone_kit::error::Problem;
use touchstone_openwop::wire::Major;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::rules::run::fork::parse;

/// `POST /console/runs/{runId}/fork`.
pub async fn fork(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    form: Form,
) -> Answer {
    let runs = &api.runs.runs;
    // Forking a run reads it.
    authorise(&visit.caller, Scope::RunsRead)?;
    runs.record(visit.tenant(), &run).await?;
    let request = parse(&body(&form)?)?;
    let created = runs.fork(&visit.caller, &run, &request, Major::V1, None);
    let created = created.await?;
    let place = format!("/console/runs/{}?done=forked", created.run_id);
    Ok(see_other(&place))
}

/// The body that the API takes.
fn body(form: &Form) -> Result<Value, Problem> {
    match form.get("mode") {
        Some("branch") => {
            let from: Option<u64> = form.required("from")?.parse().ok();
            let from = from.filter(|from| *from > 0).ok_or_else(|| {
                Problem::validation("from", "the event must be a number from 1, such as 1 or 25")
            })?;
            Ok(json!({"mode": "branch", "fromSeq": from}))
        }
        _ => Ok(json!({"mode": "replay"})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_counts_for_a_branch_alone() {
        let read = |text: &str| body(&Form::parse(text.as_bytes()).unwrap());
        assert_eq!(
            read("mode=replay&from=7").unwrap(),
            json!({"mode": "replay"})
        );
        let branch = json!({"mode": "branch", "fromSeq": 7});
        assert_eq!(read("mode=branch&from=7").unwrap(), branch);
        for wrong in ["", "&from=", "&from=0", "&from=-1", "&from=x"] {
            assert!(read(&format!("mode=branch{wrong}")).is_err(), "{wrong}");
        }
    }
}
