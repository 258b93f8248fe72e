//! Judges: how far they agree with people, and with each other.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::render::words::plain;
use touchstone_runs::rules::eval::rubric::calibration::{
    Calibration, CalibrationShortfall, MIN_AGREEMENT, MIN_SAMPLES, shortfall,
};
use touchstone_runs::rules::run::listing::{RunKind, RunListing, RunQuery};
use touchstone_runs::service::runs::reading::list::MAX_RUNS;

/// Runs that are shown.
const RUNS: usize = 50;
/// The scale of Landis and Koch for κ: from this value on, and its word.
const SCALE: [(f64, &str); 5] = [
    (0.8, "almost complete"),
    (0.6, "substantial"),
    (0.4, "moderate"),
    (0.2, "fair"),
    (0.0, "slight"),
];

#[derive(Template)]
#[template(path = "compare/judges.html")]
struct Page {
    chrome: Chrome,
    /// `None` without the right to read calibrations.
    judges: Option<Vec<Judge>>,
    runs: Vec<Run>,
    searched: String,
    least: String,
    samples: usize,
}

struct Judge {
    model: String,
    identity: String,
    suite: String,
    samples: String,
    agreement: String,
    interval: String,
    state: Badge,
    calibrated: Time,
    valid_until: Time,
}

struct Run {
    id: String,
    subject: String,
    agent: String,
    started: Time,
    judges: usize,
    decisions: String,
    observed: String,
    kappa: String,
}

impl Judge {
    fn of(calibration: &Calibration, now: jiff::Timestamp) -> Self {
        let model = &calibration.judge.model;
        let identity = plain(&calibration.judge.identity);
        Self {
            model: plain(&format!("{} ({})", model.model, model.provider)),
            identity: identity.chars().take(19).collect(),
            suite: plain(&calibration.suite),
            samples: count(calibration.samples),
            agreement: format!("{:.3}", calibration.spearman),
            interval: calibration
                .interval
                .map_or_else(String::new, |it| format!("{:.3} to {:.3}", it.low, it.high)),
            state: match shortfall(Some(calibration), MIN_AGREEMENT, now) {
                None => Badge::good("Reliable"),
                Some(CalibrationShortfall::Disagrees(_)) => Badge::bad("Disagrees with people"),
                Some(CalibrationShortfall::Few(_)) => Badge::warn("Too few samples"),
                Some(_) => Badge::warn("Expired"),
            },
            calibrated: calibration.calibrated_at.into(),
            valid_until: calibration.valid_until.into(),
        }
    }
}

impl Run {
    /// `None` for a run that one judge or none scored.
    fn of(run: &RunListing) -> Option<Self> {
        let found = run.result.as_ref()?.judge_agreement?;
        let suite = run.subject.suite.as_ref()?;
        let agent = run.subject.agent.as_ref()?;
        Some(Self {
            id: run.run_id.to_string(),
            subject: plain(&format!("{}@{}", suite.suite_id, suite.version)),
            agent: plain(&format!("{}@{}", agent.agent_id, agent.version)),
            started: run.created_at.into(),
            judges: found.judges,
            decisions: count(found.decisions),
            observed: format!("{:.0} %", found.observed * 100.0),
            kappa: found.kappa.map_or_else(
                || "– (all decisions are the same)".to_owned(),
                |kappa| format!("{kappa:.2} ({})", word(kappa)),
            ),
        })
    }
}

fn word(kappa: f64) -> &'static str {
    let found = SCALE.iter().find(|(from, _)| kappa >= *from);
    found.map_or("less than by chance", |(_, word)| word)
}

/// `GET /console/judges`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let runs = &api.runs.runs;
    let now = api.host.clock.now();
    let judges = match visit.may(Scope::ManifestRead) {
        true => {
            let found = runs.calibrations(visit.tenant()).await?;
            Some(found.iter().map(|it| Judge::of(it, now)).collect())
        }
        false => None,
    };
    let query = RunQuery {
        kind: Some(RunKind::Eval),
        limit: usize::try_from(MAX_RUNS).unwrap_or(usize::MAX),
        ..RunQuery::default()
    };
    let newest = runs.list(visit.tenant(), &query).await?;
    html(&Page {
        chrome: visit.chrome(Section::Judges),
        judges,
        runs: newest.runs.iter().filter_map(Run::of).take(RUNS).collect(),
        searched: count(newest.runs.len()),
        least: format!("{MIN_AGREEMENT:.2}"),
        samples: MIN_SAMPLES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_has_a_word() {
        let words = [-0.1, 0.0, 0.39, 0.4, 0.79, 1.0].map(word);
        let expected = [
            "less than by chance",
            "slight",
            "fair",
            "moderate",
            "substantial",
            "almost complete",
        ];
        assert_eq!(words, expected);
    }
}
