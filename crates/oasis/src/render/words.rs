//! Wording of values, shared by the Markdown and HTML reports.

use std::borrow::Borrow;

use serde_json::Value;

use crate::rules::configuration::Setting;
use crate::rules::profile::CoreDimension;
use crate::rules::report::ScenarioDetail;
use crate::rules::report::facts::{Check, EvidenceSource};
use crate::rules::report::results::coverage::CategoryCoverage;
use crate::rules::report::results::exclusion;
use crate::rules::report::results::safety::SafetyScenario;
use crate::rules::scenario::Classification;
use crate::rules::verdict::document::{GeneratorKind, Reproducibility, Status};

/// A status; `no status` for `None`.
pub fn word(status: impl Borrow<Option<Status>>) -> &'static str {
    status.borrow().map_or("no status", Status::as_str)
}

/// A status as a symbol, for readers who do not see colours.
pub fn sign(status: impl Borrow<Option<Status>>) -> &'static str {
    match status.borrow() {
        Some(Status::Pass) => "✓",
        Some(Status::Fail) => "✕",
        Some(Status::ProviderFailure) => "!",
        None => "–",
    }
}

/// The CSS class of a status; always next to its word or symbol.
pub fn class(status: impl Borrow<Option<Status>>) -> &'static str {
    match status.borrow() {
        Some(Status::Pass) => "pass",
        Some(Status::Fail) => "fail",
        Some(Status::ProviderFailure) => "fault",
        None => "none",
    }
}

/// A share as a percentage, for the length of a bar.
pub fn bar(share: impl Borrow<f64>) -> String {
    format!("{:.2}", share.borrow().clamp(0.0, 1.0) * 100.0)
}

/// The evaluated part of the required coverage, for the length of a bar.
pub fn reached(it: &CategoryCoverage) -> String {
    if it.required == 0 {
        return bar(1.0);
    }
    bar(it.evaluated.len() as f64 / it.required as f64)
}

pub const fn minimum(it: &CategoryCoverage) -> &'static str {
    match (it.met, it.due) {
        (true, _) => "met",
        (false, true) => "not met",
        (false, false) => "not due",
    }
}

/// A number with up to six decimals, without trailing zeros.
pub fn number(value: impl Borrow<f64>) -> String {
    let text = format!("{:.6}", value.borrow());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub fn percent(value: impl Borrow<f64>) -> String {
    format!("{} %", number(value))
}

/// The tolerance of a scenario, and the profile's if the evaluator overrode it.
pub fn tolerance(it: &SafetyScenario) -> String {
    let applied = percent(it.safety_tolerance);
    match it.profile_tolerance {
        None => applied,
        Some(own) => format!(
            "{applied} set by the evaluator; the profile's is {}",
            percent(own)
        ),
    }
}

pub fn dimension(dimension: impl Borrow<CoreDimension>) -> &'static str {
    match dimension.borrow() {
        CoreDimension::TaskCompletion => "Task completion",
        CoreDimension::Reliability => "Reliability",
        CoreDimension::Reasoning => "Reasoning",
        CoreDimension::Auditability => "Auditability",
    }
}

pub fn dimensions(all: &[CoreDimension]) -> String {
    let names: Vec<&str> = all.iter().map(|it| dimension(*it)).collect();
    names.join(", ")
}

pub fn phase(classification: impl Borrow<Classification>) -> &'static str {
    match classification.borrow() {
        Classification::Safety => "safety",
        Classification::Capability => "capability",
    }
}

pub fn setting(setting: &Setting) -> String {
    exclusion::written(setting)
}

pub fn json(value: &Value) -> String {
    value.to_string()
}

/// The result of a scenario: status and deviation, or score and band.
pub fn result(detail: &ScenarioDetail) -> String {
    let execution = &detail.execution;
    match (execution.status, execution.score) {
        (Some(status), _) => match execution.deviation {
            Some(deviation) => format!(
                "{}, deviation {} at tolerance {}",
                status.as_str(),
                percent(deviation),
                percent(detail.tolerance)
            ),
            None => status.as_str().to_owned(),
        },
        (None, Some(score)) => match &execution.band {
            Some(band) => format!("score {} ({band})", number(score)),
            None => format!("score {}", number(score)),
        },
        (None, None) => "no result".to_owned(),
    }
}

/// The observation that a check used.
pub fn checked_on(check: &Check) -> String {
    match (&check.observation_type, &check.evidence_source) {
        (Some(kind), Some(from)) => format!("{kind}, {}", source(Some(from))),
        (Some(kind), None) => format!("{kind}, source not stated"),
        (None, _) => "output captured by the evaluator".to_owned(),
    }
}

/// The source of an observation.
pub fn source(source: Option<&EvidenceSource>) -> String {
    match source {
        Some(source) => format!("{}: {}", source.kind, source.status),
        None => "not stated".to_owned(),
    }
}

/// The provider's message about a failure, to append to its cause; empty if there is none.
pub fn provider_said(said: impl Borrow<Option<String>>) -> String {
    said.borrow()
        .as_ref()
        .map(|said| format!(" (provider message: {said})"))
        .unwrap_or_default()
}

pub fn generator(kind: impl Borrow<GeneratorKind>) -> &'static str {
    match kind.borrow() {
        GeneratorKind::Llm => "llm",
        GeneratorKind::Mutation => "mutation",
        GeneratorKind::RedTeam => "red_team",
        GeneratorKind::Hybrid => "hybrid",
        GeneratorKind::Other => "other",
    }
}

pub fn reproducibility(how: impl Borrow<Reproducibility>) -> &'static str {
    match how.borrow() {
        Reproducibility::Deterministic => "deterministic",
        Reproducibility::PartiallyReproducible => "partially_reproducible",
        Reproducibility::NonReproducible => "non_reproducible",
    }
}
