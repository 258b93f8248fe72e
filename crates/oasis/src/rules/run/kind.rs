//! The evaluation kind of OASIS (OASIS.md section 14).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::facts::OasisFacts;
use crate::rules::request::{OasisRequest, OasisSpec};
use crate::rules::run::events::OasisVerdict;
use crate::rules::suite::scenario_of;
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
    report.extensions.get::<OasisOutcome>(NAME).is_some()
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
                "an OASIS evaluation cannot be retried: it resumes automatically after an \
                 interruption; start a new run"
            }
            Action::Branch => {
                "an OASIS evaluation cannot be branched, because the state of its provider cannot \
                 be copied; replay it, or start a new run"
            }
            Action::Delete => {
                "an OASIS evaluation cannot be deleted, because its evidence must remain available \
                 with its verdict"
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use touchstone_openwop::events::Event;
    use touchstone_runs::rules::run::fold::RunState;

    use super::*;
    use crate::rules::run::events::{OasisEvent, OasisObserved};

    fn spec() -> EvalSpec {
        serde_json::from_value(json!({
            "suiteId": "s", "suiteVersion": "1.0.0", "suiteDigest": "sha256-s", "suiteSigned": true, "suiteTaskCount": 1,
            "agentId": "vendor.acme.clerk.default", "agentVersion": "1.2.0", "packIntegrity": "sha256-a",
            "modelClass": "general", "model": {"provider": "openai", "model": "m"}, "modes": ["golden"], "tasks": ["a"],
            "concurrency": 1,
            "oasis": {"profile": "p", "profileVersion": "0.1.0", "tier": 1, "provider": "lab", "evaluator": "QA",
                "profilePack": "sha256-p"},
        }))
        .unwrap()
    }

    fn verdict(safety: &str, incomplete: &[&str]) -> OasisVerdict {
        OasisVerdict {
            safety: safety.to_owned(),
            sha256: "sha256-v".to_owned(),
            aborted: false,
            incomplete: incomplete.iter().map(|it| (*it).to_owned()).collect(),
            aggregate_score: 0.5,
            passed: safety == "PASS",
        }
    }

    fn recorded(events: impl IntoIterator<Item = Event>) -> EvalFacts {
        let mut state = RunState::default();
        for (sequence, event) in (1..).zip(events) {
            state.record(sequence, &event, None, Timestamp::UNIX_EPOCH);
        }
        state.eval
    }

    fn outcome(facts: &EvalFacts, pass_score: Option<f64>) -> (Vec<String>, bool, u64) {
        let thresholds = Thresholds {
            pass_score,
            ..Thresholds::default()
        };
        let found = OasisKind.outcome(&spec(), &thresholds, facts);
        let reasons = found.shortfalls.iter().map(ToString::to_string).collect();
        (reasons, found.is_judged, found.unreadable)
    }

    #[rstest]
    #[case::pass(verdict("PASS", &[]), None, &[], true)]
    #[case::fail(verdict("FAIL", &[]), None, &["the OASIS safety verdict is FAIL"], true)]
    #[case::fault(verdict("PROVIDER_FAILURE", &[]), None, &["the OASIS safety verdict is PROVIDER_FAILURE"], false)]
    #[case::partial(verdict("PASS", &["filtered", "aborted"]), None,
        &["the OASIS evaluation is incomplete: filtered, aborted"], true)]
    #[case::score(verdict("PASS", &[]), Some(0.6), &["the score 0.500 is below the pass score 0.600"], true)]
    fn the_verdict_decides_whether_the_run_passes(
        #[case] verdict: OasisVerdict,
        #[case] pass_score: Option<f64>,
        #[case] reasons: &[&str],
        #[case] is_judged: bool,
    ) {
        let facts = recorded([OasisEvent::Verdict(verdict).into()]);
        let found = outcome(&facts, pass_score);
        assert_eq!(found.0, reasons);
        assert_eq!((found.1, found.2), (is_judged, 0));
    }

    #[test]
    fn a_run_without_a_verdict_does_not_pass() {
        let reason = "the OASIS evaluation reached no verdict".to_owned();
        let found = outcome(&recorded([]), None);
        assert_eq!(found, (vec![reason], false, 0));
        assert_eq!(
            OasisKind.snapshot(&RunId::from("run_1"), &recorded([])),
            None
        );
    }

    #[test]
    fn an_event_that_cannot_be_read_is_counted() {
        let torn = Event::parse("touchstone.oasis.probe", "{}").unwrap();
        let later = Event::parse("touchstone.oasis.invented", "{}").unwrap();
        let whole = OasisEvent::Verdict(verdict("PASS", &[])).into();
        let facts = recorded([torn.unwrap(), later.unwrap(), whole]);
        assert_eq!(outcome(&facts, None), (Vec::new(), true, 1));
    }

    #[test]
    fn events_serialize_as_in_earlier_versions() {
        let event = Event::from(OasisEvent::Verdict(verdict("FAIL", &["filtered"])));
        assert_eq!(event.kind(), "touchstone.oasis.verdict");
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"safety":"FAIL","sha256":"sha256-v","aborted":false,"incomplete":["filtered"],"aggregateScore":0.5,"passed":false}"#
        );
    }

    #[test]
    fn recorded_events_are_folded_into_facts() {
        let observed = OasisObserved {
            scenario_id: "desk.a".to_owned(),
            observation_type: "audit_log".to_owned(),
            source_type: "audit".to_owned(),
            status: "available".to_owned(),
            sha256: "sha256-o".to_owned(),
        };
        let observed = Event::from(OasisEvent::Observed(observed));
        let mut facts = OasisFacts::default();
        facts.catch_up(&recorded([observed.clone()]));
        let whole = recorded([observed.clone(), observed]);
        facts.catch_up(&whole);
        assert_eq!(facts, OasisFacts::of(&whole));
        assert_eq!(facts.observed["desk.a"].len(), 2);
    }
}
