use rstest::rstest;
use serde_json::{Value, json};

use crate::gate::*;
use crate::rules::run::events::{OasisEvent, OasisVerdict};

const NOW: Timestamp = Timestamp::constant(1_780_000_000, 0);
const CANDIDATE: Candidate<'_> = Candidate {
    agent_id: "vendor.acme.clerk.default",
    version: "1.2.0",
    pack_integrity: "sha256-y",
};

/// A run that meets every condition.
struct Sample {
    run: RunId,
    spec: EvalSpec,
    oasis: Option<OasisSpec>,
    state: RunState,
    facts: OasisFacts,
}

impl Sample {
    fn new() -> Self {
        let spec = json!({
            "suiteId": "vendor.acme.evals.desk", "suiteVersion": "1.0.0", "suiteDigest": "sha256-s", "suiteSigned": true,
            "suiteTaskCount": 2, "agentId": CANDIDATE.agent_id, "agentVersion": CANDIDATE.version,
            "packIntegrity": CANDIDATE.pack_integrity, "modelClass": "general", "model": {"provider": "p", "model": "m"},
            "modes": ["golden"], "tasks": ["a", "b"], "concurrency": 1,
        });
        let oasis = json!({"profile": "oasis-profile-desk", "profileVersion": "0.1.0", "tier": 2, "provider": "lab",
            "evaluator": "QA", "profilePack": "sha256-p"});
        let scenario = |id: &str, tolerance: f64| {
            json!({"scenarioId": id, "classification": "safety", "status": "PASS", "tolerance": tolerance,
                "outcome": {"kind": "safety", "violated": false, "soft_deviation": 0.0}})
        };
        let read = |scenario| serde_json::from_value(scenario).unwrap();
        let verdict = json!({"safety": "PASS", "sha256": "sha256-v", "aborted": false, "incomplete": [],
            "aggregateScore": 0.9, "passed": true});
        let facts = OasisFacts {
            scenarios: vec![
                read(scenario("desk.a", 0.0)),
                read(scenario("desk.b", 10.0)),
            ],
            verdict: Some(serde_json::from_value(verdict).unwrap()),
            ..OasisFacts::default()
        };
        let state = RunState {
            status: RunStatus::Completed,
            completed_at: Some(NOW - SignedDuration::from_hours(24)),
            ..RunState::default()
        };
        Self {
            run: "run_1".into(),
            spec: serde_json::from_value(spec).unwrap(),
            oasis: Some(serde_json::from_value(oasis).unwrap()),
            state,
            facts,
        }
    }

    fn verdict(&mut self, change: impl FnOnce(&mut OasisVerdict)) {
        change(self.facts.verdict.as_mut().unwrap());
    }

    fn request(&mut self) -> &mut OasisRequest {
        &mut self.oasis.as_mut().unwrap().request
    }

    /// The spec and the state as they are recorded.
    fn recorded(&self) -> (EvalSpec, RunState) {
        let (mut spec, mut state) = (self.spec.clone(), self.state.clone());
        spec.extensions = self
            .oasis
            .as_ref()
            .map(OasisSpec::extension)
            .unwrap_or_default();
        let scenarios = self.facts.scenarios.iter().cloned();
        let verdict = self.facts.verdict.clone();
        let events = scenarios
            .map(OasisEvent::Scenario)
            .chain(verdict.map(OasisEvent::Verdict));
        for (sequence, event) in (1..).zip(events) {
            state.record(sequence, &event.into(), None, NOW);
        }
        (spec, state)
    }

    fn unmet(&self, policy: Value) -> Vec<&'static str> {
        let mut all = json!({"profile": "oasis-profile-desk", "minimumTier": 2});
        let members = policy.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        let policy: OasisPolicy = serde_json::from_value(all).unwrap();
        let (spec, state) = self.recorded();
        let evaluation = Evaluation::of(&self.run, &spec, &state);
        let unmet = unmet(&policy, CANDIDATE, evaluation, NOW);
        unmet.iter().map(|it| it.condition.as_str()).collect()
    }
}

#[rstest]
#[case::plain(json!({}))]
#[case::lower(json!({"minimumTier": 1}))]
#[case::everything(json!({"profileVersion": "0.1.0", "provider": "lab", "maxAgeDays": 1, "maxTolerance": 10}))]
fn an_evaluation_that_meets_the_policy_passes(#[case] policy: Value) {
    assert_eq!(Sample::new().unmet(policy), [""; 0]);
}

#[rstest]
#[case::tier(json!({"minimumTier": 3}), &["oasis-tier"])]
#[case::another_profile(json!({"profile": "oasis-profile-desk-2"}), &["oasis-run"])]
#[case::profile_version(json!({"profileVersion": "0.1.0-rc1"}), &["oasis-profile-version"])]
#[case::provider(json!({"provider": "mock"}), &["oasis-provider"])]
#[case::old(json!({"maxAgeDays": 0}), &["oasis-age"])]
#[case::tolerance(json!({"maxTolerance": 9.9}), &["oasis-tolerance"])]
fn unmet_optional_requirements_are_listed(#[case] policy: Value, #[case] expected: &[&str]) {
    assert_eq!(Sample::new().unmet(policy), expected);
}

#[rstest]
#[case::fail(|it: &mut Sample| it.verdict(|verdict| verdict.safety = "FAIL".to_owned()), &["oasis-safety"])]
#[case::provider_failure(|it: &mut Sample| {
    it.state.status = RunStatus::Failed;
    it.verdict(|verdict| { verdict.safety = "PROVIDER_FAILURE".to_owned(); verdict.aborted = true; });
}, &["oasis-safety"])]
#[case::aborted(|it: &mut Sample| it.verdict(|verdict| verdict.aborted = true), &["oasis-safety"])]
#[case::contradiction(|it: &mut Sample| it.state.status = RunStatus::Failed, &["oasis-safety"])]
#[case::unknown_word(|it: &mut Sample| it.verdict(|verdict| verdict.safety = "pass".to_owned()), &["oasis-safety"])]
#[case::incomplete(|it: &mut Sample| it.verdict(|verdict| verdict.incomplete = vec!["filtered".to_owned()]), &["oasis-complete"])]
#[case::refused(|it: &mut Sample| { it.state.status = RunStatus::Failed; it.facts.verdict = None; }, &["oasis-verdict"])]
#[case::nothing_recorded(|it: &mut Sample| it.facts = OasisFacts::default(), &["oasis-verdict"])]
#[case::under_way(|it: &mut Sample| it.state.status = RunStatus::Running, &["oasis-verdict"])]
#[case::vacuous(|it: &mut Sample| it.facts.scenarios[1].unanswered = Some("timeout".to_owned()), &["oasis-answered"])]
#[case::another_agent(|it: &mut Sample| it.spec.agent_id = "vendor.acme.other.default".into(), &["oasis-agent"])]
#[case::another_version(|it: &mut Sample| it.spec.agent_version = "1.1.0".to_owned(), &["oasis-version"])]
#[case::another_pack(|it: &mut Sample| it.spec.pack_integrity = "sha256-z".to_owned(), &["oasis-content"])]
#[case::unsigned(|it: &mut Sample| it.spec.suite_signed = false, &["oasis-signed-suite"])]
#[case::low_tier(|it: &mut Sample| it.request().tier = 1, &["oasis-tier"])]
#[case::partial_rerun(|it: &mut Sample| {
    it.spec.partial_rerun = serde_json::from_value(json!({"sourceRunId": "run_0", "keptTasks": 1})).unwrap();
}, &["oasis-whole-run"])]
#[case::command(|it: &mut Sample| it.spec.model.provider = "command".to_owned(), &["oasis-own-agent"])]
#[case::remote_agent(|it: &mut Sample| it.spec.model.provider = "a2a".to_owned(), &["oasis-own-agent"])]
#[case::script(|it: &mut Sample| it.spec.model.provider = "scripted".to_owned(), &["oasis-own-agent"])]
#[case::cassette(|it: &mut Sample| it.spec.execution.replayed_from = Some("sha256-c".to_owned()), &["oasis-own-agent"])]
#[case::raised(|it: &mut Sample| it.facts.scenarios[1].profile_tolerance = Some(5.0), &["oasis-raised-tolerance"])]
#[case::raised_in_an_older_record(|it: &mut Sample| {
    it.request().tolerance_overrides.insert("desk.b".to_owned(), 10.0);
}, &["oasis-raised-tolerance"])]
#[case::lowered(|it: &mut Sample| it.facts.scenarios[1].profile_tolerance = Some(25.0), &[])]
#[case::another_kind_of_eval(|it: &mut Sample| it.oasis = None, &["oasis-run"])]
#[case::several(|it: &mut Sample| { it.spec.suite_signed = false; it.request().tier = 1; }, &["oasis-tier", "oasis-signed-suite"])]
fn every_unmet_requirement_is_listed(#[case] change: fn(&mut Sample), #[case] expected: &[&str]) {
    let mut sample = Sample::new();
    change(&mut sample);
    assert_eq!(sample.unmet(json!({})), expected);
}

#[test]
fn a_missing_evaluation_does_not_meet_the_policy() {
    let policy = OasisPolicy::of("oasis-profile-desk".to_owned(), 1);
    let unmet = unmet(&policy, CANDIDATE, None, NOW);
    assert_eq!(unmet[0].condition, Condition::OasisRun);
    assert!(unmet[0].message.contains("touchstone oasis run"));
    assert_eq!(unmet.len(), 1);
}

#[test]
fn weaknesses_pass_only_if_the_policy_allows_them() {
    let mut sample = Sample::new();
    sample.facts.scenarios[0].unanswered = Some("timeout".to_owned());
    sample.verdict(|verdict| verdict.incomplete = vec!["phase2_not_run".to_owned()]);
    sample.spec.suite_signed = false;
    sample.facts.scenarios[1].profile_tolerance = Some(0.0);
    sample.spec.model.provider = "command".to_owned();
    let lenient = json!({"allowVacuous": true, "requireComplete": false, "requireSignedSuite": false,
        "allowRaisedTolerances": true, "allowSubstitute": true});
    assert_eq!(sample.unmet(lenient), [""; 0]);
    let strict = [
        "oasis-own-agent",
        "oasis-signed-suite",
        "oasis-complete",
        "oasis-answered",
        "oasis-raised-tolerance",
    ];
    assert_eq!(sample.unmet(json!({})), strict);
}

#[test]
fn a_failed_scenario_without_an_answer_is_not_a_vacuous_pass() {
    let mut sample = Sample::new();
    let scenario = &mut sample.facts.scenarios[0];
    scenario.unanswered = Some("timeout".to_owned());
    scenario.status = Some("FAIL".to_owned());
    assert_eq!(sample.unmet(json!({})), [""; 0], "the verdict says that");
}

#[test]
fn the_age_of_an_evaluation_is_the_age_of_its_reused_facts() {
    let mut sample = Sample::new();
    sample.spec.facts_recorded_at = Some(NOW - SignedDuration::from_hours(24 * 9));
    assert_eq!(sample.unmet(json!({"maxAgeDays": 8})), ["oasis-age"]);
    assert_eq!(sample.unmet(json!({"maxAgeDays": 9})), [""; 0]);
}

#[test]
fn a_long_list_of_scenarios_is_truncated() {
    let mut sample = Sample::new();
    let one = sample.facts.scenarios[1].clone();
    let numbered = |number: usize| OasisScenario {
        scenario_id: format!("desk.{number}"),
        ..one.clone()
    };
    sample.facts.scenarios = (1..=7).map(numbered).collect();
    let mut policy = OasisPolicy::of("oasis-profile-desk".to_owned(), 1);
    policy.max_tolerance = Some(0.0);
    let (spec, state) = sample.recorded();
    let evaluation = Evaluation::of(&sample.run, &spec, &state);
    let unmet = unmet(&policy, CANDIDATE, evaluation, NOW);
    assert!(unmet[0].message.ends_with("desk.5 and 2 more"), "{unmet:?}");
}

#[rstest]
#[case(json!({"minimumTier": 2}))]
#[case(json!({"profile": "oasis-profile-desk"}))]
#[case(json!({"profile": "oasis-profile-desk", "minimumTier": "2"}))]
#[case(json!({"profile": "oasis-profile-desk", "minimumTier": 2, "tier": 2}))]
#[case(json!({"profile": "oasis-profile-desk", "minimumTier": 2, "maxAgeDays": -1}))]
fn an_invalid_policy_is_rejected(#[case] policy: Value) {
    assert!(serde_json::from_value::<OasisPolicy>(policy).is_err());
}

#[rstest]
#[case::passed(0.0, None, 10.0, false, false)]
#[case::within_the_tolerance(10.0, None, 10.0, false, false)]
#[case::failed(10.5, None, 10.0, false, true)]
#[case::passed_by_a_raised_tolerance(10.5, Some(10.0), 100.0, false, true)]
#[case::where_that_is_allowed(10.5, Some(10.0), 100.0, true, false)]
#[case::failed_by_a_lowered_tolerance(5.0, Some(10.0), 0.0, false, false)]
fn scenarios_are_held_to_the_tolerance_of_the_profile(
    #[case] deviation: f64,
    #[case] own: Option<f64>,
    #[case] applied: f64,
    #[case] allow_raised: bool,
    #[case] expected: bool,
) {
    let mut sample = Sample::new();
    let scenario = &mut sample.facts.scenarios[1];
    scenario.measured_deviation = Some(deviation);
    scenario.profile_tolerance = own;
    scenario.tolerance = Some(applied);
    let mut policy = OasisPolicy::of("oasis-profile-desk".to_owned(), 1);
    policy.allow_raised_tolerances = allow_raised;
    let all = executed(&sample.facts);
    assert_eq!(has_failed(&policy, &sample.facts, &all), expected);
    // Scenarios that the newest evaluation did not execute are not affected by it.
    let others = BTreeSet::from(["desk.a".to_owned()]);
    assert!(!has_failed(&policy, &sample.facts, &others));
}

#[test]
fn failed_attempts_are_named() {
    let runs = ["run_1", "run_2", "run_3"].map(RunId::from);
    assert_eq!(failed_before(&[]), None);
    let one = failed_before(&runs[..1]).unwrap().message;
    assert!(one.contains("failed in run_1, for the same agent"), "{one}");
    let all = failed_before(&runs).unwrap().message;
    assert!(all.contains("run_1 and 2 more, for"), "{all}");
}

#[rstest]
#[case(json!({"profile": "", "minimumTier": 1}), Err(InvalidPolicy::Empty("oasis.profile")))]
#[case(json!({"profile": "p", "minimumTier": 1, "provider": ""}), Err(InvalidPolicy::Empty("oasis.provider")))]
#[case(json!({"profile": "p", "minimumTier": 0}), Err(InvalidPolicy::Tier))]
#[case(json!({"profile": "p", "minimumTier": 4}), Err(InvalidPolicy::Tier))]
#[case(json!({"profile": "p", "minimumTier": 3, "maxTolerance": 100.5}), Err(InvalidPolicy::Tolerance))]
#[case(json!({"profile": "p", "minimumTier": 3, "maxTolerance": 0}), Ok(()))]
fn a_policy_that_cannot_be_met_is_refused(
    #[case] policy: Value,
    #[case] expected: Result<(), InvalidPolicy>,
) {
    let policy: OasisPolicy = serde_json::from_value(policy).unwrap();
    assert_eq!(policy.check(), expected);
}
