//! The evaluation kind of OASIS (OASIS.md section 14).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::facts::OasisFacts;
use crate::rules::request::{OasisRequest, OasisSpec};
use crate::rules::suite::scenario_of;
use crate::wire::events::OasisVerdict;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;
use touchstone_openwop::suite::{Task, Thresholds};
use touchstone_runs::rules::eval::report::EvalReport;
use touchstone_runs::rules::eval::scoring::{EPSILON, Shortfall};
use touchstone_runs::rules::kind::{Action, EvalKind, Extensions, KindOutcome};
use touchstone_runs::rules::run::fold::EvalFacts;
use touchstone_runs::rules::run::record::EvalSpec;

/// The name of the kind.
pub const NAME: &str = "oasis";

/// OASIS evaluations. Their verdict decides, never a share of passed scenarios.
#[derive(Clone, Copy, Debug)]
pub struct OasisKind;

/// The member `oasis` of a run's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisOutcome {
    /// `PASS`, `FAIL` or `PROVIDER_FAILURE`; absent without a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<String>,
    /// Why it is incomplete; empty if it is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
}

/// Whether a report is about an OASIS evaluation.
pub fn is_reported(report: &EvalReport) -> bool {
    report.extensions.has(NAME)
}

impl OasisSpec {
    /// The OASIS part of a spec; `None` for other eval runs.
    pub fn of(spec: &EvalSpec) -> Option<Self> {
        spec.extensions.get(NAME)
    }

    /// Whether a run is an OASIS evaluation.
    pub fn is_in(spec: &EvalSpec) -> bool {
        spec.extensions.has(NAME)
    }

    /// The member of a spec.
    pub fn extension(&self) -> Extensions {
        member(self)
    }
}

#[expect(
    clippy::expect_used,
    reason = "these types contain only maps whose keys are strings"
)]
fn member(value: &impl Serialize) -> Extensions {
    Extensions::of(NAME, value).expect("a member is JSON")
}

impl EvalKind for OasisKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, members: &Value) -> Result<(), Problem> {
        OasisRequest::read(members).map(drop)
    }

    fn is_expectation_of(&self, task: &Task) -> bool {
        scenario_of(task).is_some()
    }

    fn refusal(&self, action: Action) -> &'static str {
        match action {
            Action::Retry => {
                "an OASIS evaluation runs as a whole and resumes by itself after an interruption, so it \
                 cannot be retried: start a new run"
            }
            Action::Branch => {
                "an OASIS evaluation cannot be branched: its provider's state belongs to this \
                 evaluation; replay it, or start a new run"
            }
            Action::Delete => {
                "the run is an OASIS evaluation, whose evidence stays with its verdict; it cannot be deleted"
            }
        }
    }

    fn outcome(&self, spec: &EvalSpec, thresholds: &Thresholds, facts: &EvalFacts) -> KindOutcome {
        let facts = OasisFacts::of(facts);
        let verdict = facts.verdict;
        let safety = verdict.as_ref().map(|it| it.safety.as_str());
        KindOutcome {
            aggregate_score: verdict.as_ref().map_or(0.0, |it| it.aggregate_score),
            shortfalls: match &verdict {
                None => vec![Shortfall::Kind(
                    "the OASIS evaluation reached no verdict".to_owned(),
                )],
                Some(verdict) => shortfalls(spec, thresholds, verdict),
            },
            is_judged: matches!(safety, Some("PASS" | "FAIL")),
            unreadable: facts.unreadable,
            report: member(&OasisOutcome {
                safety: safety.map(str::to_owned),
                incomplete: verdict.map(|it| it.incomplete).unwrap_or_default(),
            }),
        }
    }

    /// The verdict's status, with links to the verdict and the report.
    fn snapshot(&self, run: &RunId, facts: &EvalFacts) -> Option<Value> {
        let verdict = OasisFacts::verdict_of(facts)?;
        let place = format!("/v1/host/touchstone/runs/{run}");
        Some(json!({
            "safety": verdict.safety,
            "incomplete": verdict.incomplete,
            "verdictUrl": format!("{place}/oasis-verdict"),
            "reportUrl": format!("{place}/oasis-report"),
        }))
    }
}

/// Why an evaluation with this verdict does not pass.
fn shortfalls(spec: &EvalSpec, thresholds: &Thresholds, verdict: &OasisVerdict) -> Vec<Shortfall> {
    let mut found = Vec::new();
    if verdict.safety != "PASS" {
        let reason = format!("the OASIS safety verdict is {}", verdict.safety);
        found.push(Shortfall::Kind(reason));
    }
    let allows_incomplete = OasisSpec::of(spec).is_some_and(|it| it.request.allow_incomplete);
    if !verdict.incomplete.is_empty() && !allows_incomplete {
        let reasons = verdict.incomplete.join(", ");
        let reason = format!("the OASIS evaluation is incomplete: {reasons}");
        found.push(Shortfall::Kind(reason));
    }
    let aggregate = verdict.aggregate_score;
    let pass_score = thresholds.pass_score.unwrap_or(0.0);
    if aggregate + EPSILON < pass_score {
        found.push(Shortfall::Score {
            aggregate,
            pass_score,
        });
    }
    found
}
