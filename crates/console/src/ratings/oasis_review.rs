//! Decisions of people about OASIS results that passed under a tolerance.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use crate::api::ConsoleApi;
use crate::page::answer::{see_other, segment};
use crate::page::badge::Badge;
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::OASIS;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_oasis::rules::report::Report;
use touchstone_oasis::rules::report::decision;
use touchstone_oasis::rules::report::decision::ReviewDecision;
use touchstone_oasis::rules::suite::task_id;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::rules::run::annotation::parse;

/// A result that a person must review.
pub struct ToReview {
    pub href: String,
    pub evidence: String,
    pub name: String,
    pub deviation: String,
    pub tolerance: String,
    pub waiting: Badge,
    pub decision: Option<Decided>,
}

pub struct Decided {
    pub state: Badge,
    pub by: String,
    pub at: Time,
    pub note: String,
}

impl Decided {
    fn of(it: &ReviewDecision) -> Self {
        Self {
            state: match it.accepted {
                true => Badge::good("Accepted"),
                false => Badge::bad("Rejected"),
            },
            by: plain(&it.by),
            at: it.at.into(),
            note: it.note.as_deref().map(plain).unwrap_or_default(),
        }
    }
}

impl ToReview {
    pub fn all(report: &Report, run: &RunId) -> Vec<Self> {
        let reviews = report.safety.human_review_required.iter();
        reviews
            .map(|it| Self {
                href: format!("{OASIS}/{run}/review/{}", segment(&it.scenario_id)),
                evidence: format!("{OASIS}/{run}/evidence/{}", segment(&it.scenario_id)),
                name: plain(match it.name.is_empty() {
                    true => &it.scenario_id,
                    false => &it.name,
                }),
                deviation: format!("{} %", it.measured_deviation),
                tolerance: format!("{} %", it.tolerance),
                waiting: Badge::warn("Waits for a person"),
                decision: it.decision.as_ref().map(Decided::of),
            })
            .collect()
    }
}

/// `POST /console/oasis/{runId}/review/{scenarioId}`.
pub async fn send(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    path: PathParameters,
    form: Form,
) -> Answer {
    let report = api.oasis.evaluations.report(visit.tenant(), &run).await?;
    let scenario = path.get("scenarioId");
    let mut reviews = report.safety.human_review_required.iter();
    if !reviews.any(|it| it.scenario_id == scenario) {
        return Err(Problem::new(
            ErrorCode::NotFound,
            "the report has no such result for a person to review",
        )
        .into());
    }
    let label = match form.required("decision")? {
        "accept" => decision::label(true),
        "reject" => decision::label(false),
        _ => {
            let choose = "choose to accept or to reject the result";
            return Err(Problem::validation("decision", choose).into());
        }
    };
    let new = parse(&json!({
        "target": {"nodeId": task_id(scenario)},
        "signal": {"kind": "label", "label": label},
        "note": form.required("reason")?,
    }))?;
    let annotations = &api.runs.annotations;
    annotations.annotate(&visit.caller, &run, new, None).await?;
    Ok(see_other(&format!(
        "{OASIS}/{run}?done=oasis-reviewed#reviews"
    )))
}
