//! Rules that the vectors do not cover: error messages, repeated appeals, notices and long inputs.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_ratings::rules::appeal;
use touchstone_ratings::rules::appeal::Resolution;
use touchstone_ratings::rules::assessment::reassessment::{ReassessmentState, due};
use touchstone_ratings::rules::badge::validity::Validity;
use touchstone_ratings::rules::notice::Topic;
use touchstone_ratings::rules::projection::{Profile, Run, RunEvent, project};
use touchstone_ratings::rules::scoring::weights::Weights;
use touchstone_ratings::rules::{
    Assessment, Axis, Config, Dimension, Event, Override, Scored, ScoringError, Tier, score,
};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[rstest]
#[case(json!({"minimum_task_performance": 3}), "minimum_task_performance")]
#[case(json!({"assessment_window_days": 0}), "assessment_window_days")]
#[case(json!({"level_pass_threshold": 1.5}), "level_pass_threshold")]
#[case(json!({"error_severity_weights": {"grave": 1}}), "grave")]
#[case(json!({"recency_weights": {"0_7_days": 1, "9_14_days": 0.8}}), "day 8")]
#[case(json!({"recency_weights": {"0_7": 1}}), "0_7_days")]
#[case(json!({"recency_weights": {}}), "at least one")]
#[case(json!({"baseline_seconds_by_complexity": {"6": 10}}), "1 to 5")]
#[case(json!({"baseline_seconds_by_domain": {"code": {"1": 0}}}), "baseline_seconds_by_domain.code.1")]
#[case(json!({"domain_taxonomy": ["code", "code"]}), "domain_taxonomy")]
#[case(json!({"learning_min_tasks": 2}), "thirds")]
#[case(json!({"consistency_min_group_size": 1}), "consistency_min_group_size")]
#[case(json!({"performance_weights": {"speed": 1}}), "`task_completion_rate` is missing")]
#[case(json!({"performance_weights": 1}), "performance_weights")]
#[case(json!([]), "JSON object")]
fn invalid_configurations_are_rejected_by_name(#[case] document: Value, #[case] named: &str) {
    let refused = Config::read(&document).unwrap_err();
    assert_eq!(refused.code(), "INVALID_REQUEST");
    assert!(refused.to_string().contains(named), "{refused}");
}

#[rstest]
#[case(Weights::standard(Axis::Performance))]
#[case(Weights::standard(Axis::Capability))]
#[case(Weights::specialist())]
#[case(Weights::generalist())]
fn preset_weights_sum_to_one(#[case] weights: Weights) {
    let axis = if weights.thousandths(Dimension::Speed) > 0 {
        Axis::Performance
    } else {
        Axis::Capability
    };
    let given: BTreeMap<String, f64> = from(json!(weights));
    assert_eq!(Weights::read(axis, &given), Ok(weights));
}

#[test]
fn tiers_are_known_by_their_names() {
    for tier in Axis::ALL.into_iter().flat_map(Tier::all) {
        assert_eq!(tier.name().parse(), Ok(tier));
    }
    assert!(
        "Master"
            .parse::<Tier>()
            .unwrap_err()
            .to_string()
            .contains("Novice")
    );
}

fn completed(more: &Value) -> Value {
    let mut data = json!({"task_id": "t", "completion_status": "accepted", "time_to_complete_seconds": 1,
        "revision_count": 0, "errors": []});
    data.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"agent_id": "a", "type": "task_completed", "timestamp": "2026-06-01T00:00:00Z", "data": data})
}

#[rstest]
#[case(json!({"revision_count": 1.5}), "Invalid value: data.revision_count")]
#[case(json!({"revision_count": -1}), "Invalid value: data.revision_count")]
#[case(json!({"complexity_level": 6}), "Invalid value: data.complexity_level")]
#[case(json!({"autonomy_level": "high"}), "Invalid value: data.autonomy_level")]
#[case(json!({"errors": [{"severity": "secret text"}]}), "Invalid value: data.errors")]
#[case(json!({"errors": null}), "Missing required field: data.errors")]
#[case(json!({"review_checklist": {"tests": "yes"}}), "Invalid value: data.review_checklist")]
#[case(json!({"tools_used": [{"tool": "x", "invocations": 1, "successes": 1, "unnecessary": 2}]}), "Invalid value: data.tools_used")]
#[case(json!({"delegation_decisions": [{"task_fragment": "f", "decision": "self", "selection_score": 2}]}), "Invalid value: data.delegation_decisions")]
#[case(json!({"milestone_fraction": 1.01}), "Invalid value: data.milestone_fraction")]
#[case(json!({"task_id": "x".repeat(257)}), "Invalid value: data.task_id")]
fn an_event_is_refused_by_its_member_and_never_by_its_content(
    #[case] more: Value,
    #[case] told: &str,
) {
    assert_eq!(
        Event::read(&completed(&more)).unwrap_err().to_string(),
        told
    );
}

#[rstest]
#[case(json!({"revision_count": 2.0, "complexity_level": 3.0}))]
#[case(json!({"complexity_level": null, "milestone_fraction": null}))]
#[case(json!({"errors": ["free text", {"code": 1}, 7]}))]
#[case(json!({"cost_usd": 0.1, "something": {"else": []}}))]
fn an_event_may_be_written_in_several_ways(#[case] more: Value) {
    Event::read(&completed(&more)).unwrap();
}

fn vector(name: &str) -> Value {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ratings/vectors");
    serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap()
}

fn read_all(input: &Value) -> Vec<Event> {
    let events = input["events"].as_array().unwrap().iter();
    events.map(|it| Event::read(it).unwrap()).collect()
}

#[test]
fn appeals_follow_one_another_and_touch_only_what_was_challenged() {
    let input = vector("appeal-accepted")["input"].clone();
    let (events, assessment): (Vec<Event>, Assessment) =
        (read_all(&input), from(input["assessment"].clone()));
    let config = Config::default();
    let first = Resolution {
        appeal_id: "appeal-1".to_owned(),
        dimensions: vec![Dimension::Accuracy],
        overrides: from(input["overrides"].clone()),
    };
    let second = Resolution {
        appeal_id: "appeal-2".to_owned(),
        dimensions: vec![Dimension::TaskCompletionRate],
        overrides: vec![Override::ExcludeTask {
            task_id: "job-03".to_owned(),
        }],
    };
    let rate = |all: &[Resolution]| appeal::rate(&events, &assessment, &config, all).unwrap();
    let (before, one, two) = (
        rate(&[]),
        rate(std::slice::from_ref(&first)),
        rate(&[first, second]),
    );
    assert_eq!(appeal::changed(&before, &one), [Dimension::Accuracy]);
    assert_eq!(appeal::changed(&one, &two), [Dimension::TaskCompletionRate]);
    let accuracy = json!(two.performance.dimension(Dimension::Accuracy));
    assert_eq!(accuracy["appeal_id"], "appeal-1");
    assert_eq!(
        accuracy["previous_score"],
        json!(
            before
                .performance
                .dimension(Dimension::Accuracy)
                .unwrap()
                .score()
        )
    );
    assert_eq!(two.capability, before.capability);
    assert_ne!(two.performance.composite_raw, one.performance.composite_raw);
}

#[test]
fn an_override_that_makes_an_event_invalid_is_reported() {
    let events = [Event::read(&{
        let mut event = completed(&json!({}));
        event["id"] = json!("e1");
        event
    })
    .unwrap()];
    let assessment: Assessment = from(json!({"type": "single_dimension", "dimension": "accuracy",
        "window_start": "2026-05-20T00:00:00Z", "window_end": "2026-06-20T00:00:00Z"}));
    let set = |value: Value| {
        let overrides: Vec<Override> = from(
            json!([{"type": "set_field", "event_id": "e1", "field": "quality_score", "value": value}]),
        );
        score(&events, &assessment, &Config::default(), &overrides)
    };
    let Ok(Scored::Single(found)) = set(json!(0.5)) else {
        panic!("not scored")
    };
    assert_eq!(found.result.raw, Some(0.8));
    let Err(ScoringError::Override(fault)) = set(json!(5)) else {
        panic!("taken")
    };
    assert!(
        fault.to_string().contains("`quality_score` in event `e1`"),
        "{fault}"
    );
}

#[rstest]
#[case(49, "2026-06-01T00:00:00Z", &[], &[])]
#[case(50, "2026-06-01T00:00:00Z", &[], &[Topic::EvidenceThresholdReached])]
#[case(51, "2026-06-01T00:00:00Z", &[Topic::EvidenceThresholdReached], &[])]
#[case(0, "2026-07-17T00:00:00Z", &[], &[Topic::BadgeExpiring])]
#[case(0, "2026-07-17T00:00:00Z", &[Topic::BadgeExpiring], &[])]
#[case(60, "2026-07-31T00:00:00Z", &[Topic::BadgeExpiring], &[Topic::EvidenceThresholdReached, Topic::BadgeExpired])]
#[case(0, "2026-08-31T00:00:00Z", &[Topic::BadgeExpired], &[])]
fn each_notice_is_given_once(
    #[case] completed_since: u64,
    #[case] now: &str,
    #[case] said: &[Topic],
    #[case] told: &[Topic],
) {
    let state = ReassessmentState {
        completed_since,
        validity: Validity::of(time("2026-05-02T00:00:00Z"), 90),
    };
    assert_eq!(due(&state, 50, time(now), said), told);
    let without = ReassessmentState {
        validity: None,
        ..state
    };
    assert!(
        due(&without, 50, time(now), said)
            .iter()
            .all(|it| *it == Topic::EvidenceThresholdReached)
    );
}

#[test]
fn dependency_chains_of_any_length_are_valid_plans() {
    let long = 50_000;
    let graph: BTreeMap<String, Vec<String>> = (0..long)
        .map(|n: u32| {
            (
                n.to_string(),
                n.checked_sub(1)
                    .map(|it| it.to_string())
                    .into_iter()
                    .collect(),
            )
        })
        .collect();
    let event = |kind: &str, data: Value| {
        Event::read(&json!({"agent_id": "a", "type": kind, "timestamp": "2026-06-01T00:00:00Z", "data": data})).unwrap()
    };
    let events = [
        event(
            "orchestration_plan",
            json!({"task_id": "t", "agents_involved": [], "dependency_graph": graph, "parallel_groups": []}),
        ),
        event(
            "orchestration_result",
            json!({"task_id": "t", "outcome": "success", "failures_injected": 0,
            "failures_recovered": 0, "synthesis_quality_score": 1, "communication_clarity_score": 1}),
        ),
    ];
    let assessment: Assessment = from(
        json!({"type": "single_dimension", "dimension": "orchestration_skills",
        "window_start": "2026-05-20T00:00:00Z", "window_end": "2026-06-20T00:00:00Z"}),
    );
    let Ok(Scored::Single(found)) = score(&events, &assessment, &Config::default(), &[]) else {
        panic!("not scored")
    };
    assert_eq!(found.result.raw, Some(1.0));
}

#[test]
fn ten_thousand_events_are_scored_at_once() {
    let input = vector("full-assessment")["input"].clone();
    let kept = read_all(&input);
    let mut events = Vec::new();
    for round in 0..=10_000 / kept.len() {
        events.extend(kept.iter().cloned().map(|mut event| {
            event.id = event.id.map(|id| format!("{id}-{round}"));
            event.task_id = format!("{}-{round}", event.task_id);
            event.timestamp -= SignedDuration::from_secs(i64::try_from(round).unwrap());
            event
        }));
    }
    assert!(events.len() >= 10_000);
    let assessment: Assessment = from(input["assessment"].clone());
    let mut times: Vec<std::time::Duration> = Vec::new();
    // The limit allows for an unoptimized build; optimized, it takes a fraction of this. Other tests
    // may delay an attempt.
    while times.last().is_none_or(|took| took.as_secs() >= 10) {
        assert!(times.len() < 3, "took {times:?}");
        let begun = std::time::Instant::now();
        let scored = score(&events, &assessment, &Config::default(), &[]).unwrap();
        times.push(begun.elapsed());
        let Scored::Rating(rating) = scored else {
            panic!("one dimension")
        };
        assert!(rating.tasks_performance > 1000);
    }
    eprintln!("{} events in {times:?}", events.len());
}

#[rstest]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "task": {}}), "task")]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "tasks": {"t": {"complexityLevel": 9}}}), "tasks.t.complexityLevel")]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "defaults": {"baselineSeconds": 0}}), "defaults.baselineSeconds")]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "tasks": {"t": {"delegation": [
    {"fragment": "f", "groundTruth": "self"}, {"fragment": "f", "groundTruth": "delegate"}]}}}), "tasks.t.delegation")]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "defaults": [null]}), "defaults: must be an object")]
#[case(json!({"suiteId": "s", "suiteVersion": "1", "tasks": {"t": {"delegation": [["f", "self"]]}}}), "tasks.t.delegation[0]")]
fn invalid_profiles_are_rejected_by_name(#[case] document: Value, #[case] named: &str) {
    let refused = Profile::read(&document).unwrap_err();
    assert!(refused.to_string().contains(named), "{refused}");
}

#[test]
fn a_projection_is_evidence_and_always_the_same() {
    for name in [
        "projection-basic",
        "projection-tools-delegation",
        "projection-orchestration",
    ] {
        let input = vector(name)["input"].clone();
        let (run, profile): (Run, _) = (
            from(input["run"].clone()),
            Profile::read(&input["profile"]).unwrap(),
        );
        let mut log: Vec<RunEvent> = from(input["run_events"].clone());
        let once = project("a", &run, Some(&profile), &log, &BTreeMap::new()).unwrap();
        log.reverse();
        let again = project("a", &run, Some(&profile), &log, &BTreeMap::new()).unwrap();
        assert_eq!(once, again);
        assert!(!once.events.is_empty());
        for event in &once.events {
            Event::read(event).unwrap_or_else(|fault| panic!("{fault}: {event}"));
        }
    }
}

#[test]
fn an_inconsistent_log_is_rejected_with_its_event() {
    let input = vector("projection-basic")["input"].clone();
    let (run, profile): (Run, _) = (
        from(input["run"].clone()),
        Profile::read(&input["profile"]).unwrap(),
    );
    let mut log: Vec<RunEvent> = from(input["run_events"].clone());
    let scored = log.iter_mut().find(|it| it.kind == "eval.scored").unwrap();
    scored.payload["score"] = json!("high");
    let sequence = scored.sequence;
    let fault = project("a", &run, Some(&profile), &log, &BTreeMap::new()).unwrap_err();
    assert!(
        fault.to_string().contains(&format!(
            "event {sequence} of the run is not a valid `eval.scored`"
        )),
        "{fault}"
    );
}

#[test]
fn evidence_of_live_runs_is_marked() {
    let input = vector("projection-basic")["input"].clone();
    let (run, profile): (Run, _) = (
        from(input["run"].clone()),
        Profile::read(&input["profile"]).unwrap(),
    );
    let mut log: Vec<RunEvent> = from(input["run_events"].clone());
    let started = log.iter_mut().find(|it| it.kind == "eval.started").unwrap();
    started.payload["modes"] = json!(["live-shadow"]);
    let made = project("a", &run, Some(&profile), &log, &BTreeMap::new()).unwrap();
    assert!(
        made.events
            .iter()
            .all(|event| event["data"]["mode"] == "live-shadow")
    );
}
