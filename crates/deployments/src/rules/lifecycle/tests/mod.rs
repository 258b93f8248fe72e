mod left_over;
mod rollback;
mod soundness;

use rstest::rstest;
use serde_json::{Value, json};

use super::super::{InvalidTransition, LATEST};
use super::*;
use DeploymentState::{Active, Deprecated, Draft, Paused, RolledBack, Staged};

fn agent() -> AgentId {
    "vendor.acme.triage.default".into()
}

fn v(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn channel(name: &str) -> Channel {
    name.parse().unwrap()
}

fn ask(version: &str, transition: TransitionKind) -> TransitionRequest {
    TransitionRequest {
        version: v(version),
        transition,
        to_state: None,
        channel: None,
        share: None,
        evidence: None,
        approval_gate: None,
        pack_integrity: None,
        reason: None,
    }
}

fn promote(version: &str) -> TransitionRequest {
    ask(version, TransitionKind::Promote)
}

fn into(version: &str, name: &str, share: u8) -> TransitionRequest {
    TransitionRequest {
        channel: Some(channel(name)),
        share: Some(share),
        ..promote(version)
    }
}

fn adjust(version: &str, share: u8) -> TransitionRequest {
    TransitionRequest {
        share: Some(share),
        ..ask(version, TransitionKind::AdjustCanary)
    }
}

/// The deployments after the given moves, each of which must succeed.
fn after(start: &Lifecycle, moves: &[TransitionRequest]) -> Lifecycle {
    moves.iter().fold(start.clone(), |lifecycle, asked| {
        lifecycle.apply(&agent(), asked).unwrap().0
    })
}

fn staged(versions: &[&str]) -> Lifecycle {
    let moves: Vec<TransitionRequest> = versions
        .iter()
        .flat_map(|version| [promote(version), promote(version)])
        .collect();
    after(&Lifecycle::default(), &moves)
}

/// `1.0.0` has all of stable; `1.1.0` joins with a share.
fn canary(share: u8) -> Lifecycle {
    after(
        &staged(&["1.0.0", "1.1.0"]),
        &[into("1.0.0", "stable", 100), into("1.1.0", "stable", share)],
    )
}

/// The shown state, share and channels of each version.
fn shown(lifecycle: &Lifecycle) -> Vec<(String, DeploymentState, Option<u8>, Vec<String>)> {
    lifecycle
        .records(&agent(), [])
        .into_iter()
        .map(|record| {
            (
                record.version,
                record.state,
                record.canary_percent,
                record.channels,
            )
        })
        .collect()
}

fn row(
    version: &str,
    state: DeploymentState,
    share: Option<u8>,
    channels: &[&str],
) -> (String, DeploymentState, Option<u8>, Vec<String>) {
    let channels = channels.iter().map(|name| (*name).to_owned()).collect();
    (version.to_owned(), state, share, channels)
}

fn raises_another(version: &str, share: u8, given: u8) -> TransitionError {
    TransitionError::RaisesAnother(ShareExceeded {
        version: v(version),
        channel: channel("stable"),
        share,
        given,
    })
}

fn serving(lifecycle: &Lifecycle, name: &str, draw: u8) -> Option<String> {
    lifecycle
        .resolve(&channel(name), draw)
        .ok()
        .map(Version::to_string)
}

#[test]
fn installed_versions_are_drafts_and_records_are_sorted_by_version() {
    let lifecycle = staged(&["1.9.0"]);
    let installed = [v("1.10.0"), v("1.9.0"), v("1.10.0-rc.1")];
    let records = lifecycle.records(&agent(), &installed);
    let found: Vec<(&str, DeploymentState)> = records
        .iter()
        .map(|record| (record.version.as_str(), record.state))
        .collect();
    assert_eq!(
        found,
        [("1.9.0", Staged), ("1.10.0-rc.1", Draft), ("1.10.0", Draft)]
    );
}

#[test]
fn a_canary_shares_its_channel_with_the_one_before() {
    let lifecycle = canary(10);
    assert_eq!(
        shown(&lifecycle),
        [
            row("1.0.0", Active, Some(90), &["stable"]),
            row("1.1.0", Active, Some(10), &["stable"]),
        ]
    );
    let to = |draw| serving(&lifecycle, "stable", draw).unwrap();
    assert_eq!(
        (to(0), to(9), to(10), to(99)),
        (
            "1.1.0".to_owned(),
            "1.1.0".to_owned(),
            "1.0.0".to_owned(),
            "1.0.0".to_owned()
        )
    );
}

#[test]
fn at_full_traffic_the_prior_version_stays_active_and_leaves_the_channel() {
    let lifecycle = after(&canary(10), &[adjust("1.1.0", 100)]);
    assert_eq!(
        shown(&lifecycle),
        [
            row("1.0.0", Active, None, &[]),
            row("1.1.0", Active, Some(100), &["stable"]),
        ]
    );
    let back = after(&lifecycle, &[adjust("1.1.0", 40)]);
    assert_eq!(shown(&back)[0], row("1.0.0", Active, Some(60), &["stable"]));
}

#[test]
fn raising_the_share_of_one_version_lowers_the_share_of_the_other() {
    let lifecycle = after(&canary(50), &[adjust("1.0.0", 70)]);
    assert_eq!(
        shown(&lifecycle),
        [
            row("1.0.0", Active, Some(70), &["stable"]),
            row("1.1.0", Active, Some(30), &["stable"]),
        ]
    );
}

#[test]
fn a_raised_share_is_detected_and_never_a_side_effect() {
    let before = canary(10);
    let raises = |version: &str, share| {
        let asked = adjust(version, share);
        after(&before, std::slice::from_ref(&asked)).raises(&before, &asked.version)
    };
    assert!(raises("1.1.0", 11));
    assert!(!raises("1.1.0", 10));
    assert!(!raises("1.1.0", 9));
    assert!(
        !raises("1.0.0", 95),
        "the remaining share is not a promotion"
    );
    let refused = before.apply(&agent(), &adjust("1.0.0", 89)).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 11, 10));
}

#[test]
fn a_canary_adjustment_event_has_the_old_and_new_percentages() {
    let (_, events) = canary(10).apply(&agent(), &adjust("1.1.0", 25)).unwrap();
    let payload = serde_json::to_value(&events[0]).unwrap();
    assert_eq!(
        payload,
        json!({"agentId": agent(), "version": "1.1.0", "fromPercent": 10, "toPercent": 25})
    );
}

#[rstest]
#[case(0, None)]
#[case(10, Some("1.0.0"))]
#[case(100, Some("1.0.0"))]
fn a_version_alone_on_a_channel_serves_all_traffic_unless_its_share_is_zero(
    #[case] share: u8,
    #[case] expected: Option<&str>,
) {
    let lifecycle = after(&staged(&["1.0.0"]), &[into("1.0.0", "stable", share)]);
    for draw in [0, 9, 10, 50, 99] {
        assert_eq!(serving(&lifecycle, "stable", draw).as_deref(), expected);
    }
    assert_eq!(shown(&lifecycle)[0].2, Some(share));
}

#[test]
fn a_pause_gives_the_traffic_to_the_one_before_and_a_resume_takes_it_back() {
    let paused = after(&canary(10), &[ask("1.1.0", TransitionKind::Pause)]);
    assert_eq!(
        shown(&paused),
        [
            row("1.0.0", Active, Some(100), &["stable"]),
            row("1.1.0", Paused, None, &[]),
        ]
    );
    assert_eq!(serving(&paused, "stable", 0).as_deref(), Some("1.0.0"));
    assert_eq!(
        after(&paused, &[promote("1.1.0")]).channels,
        canary(10).channels
    );
    let resumed = after(&paused, &[promote("1.1.0")]);
    assert_eq!(shown(&resumed), shown(&canary(10)));
    let other = after(&paused, &[into("1.1.0", "canary", 100)]);
    assert_eq!(serving(&other, "canary", 50).as_deref(), Some("1.1.0"));
}

#[test]
fn a_resume_emits_state_changed_and_a_promotion_emits_promoted() {
    let kinds = |lifecycle: &Lifecycle, asked: &TransitionRequest| -> Vec<String> {
        let (_, events) = lifecycle.apply(&agent(), asked).unwrap();
        events.iter().map(|event| event.kind().to_owned()).collect()
    };
    let paused = after(&canary(10), &[ask("1.1.0", TransitionKind::Pause)]);
    assert_eq!(
        kinds(&paused, &promote("1.1.0")),
        ["deployment.state.changed"]
    );
    assert_eq!(
        kinds(&Lifecycle::default(), &promote("1.0.0")),
        ["deployment.promoted"]
    );
    let deprecate = ask("1.1.0", TransitionKind::Deprecate);
    assert_eq!(kinds(&canary(10), &deprecate), ["deployment.state.changed"]);
    let back = ask("1.1.0", TransitionKind::Rollback);
    assert_eq!(kinds(&canary(10), &back), ["deployment.rolled-back"]);
}

#[test]
fn a_promotion_names_the_version_that_had_the_channel_and_the_evidence() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0"]),
        &[into("1.0.0", "stable", 100)],
    );
    let asked = TransitionRequest {
        evidence: Some("run_9".into()),
        approval_gate: Some("gate_1".to_owned()),
        ..into("1.1.0", "stable", 5)
    };
    let (after, events) = lifecycle.apply(&agent(), &asked).unwrap();
    assert_eq!(
        serde_json::to_value(&events[0]).unwrap(),
        json!({"agentId": agent(), "fromVersion": "1.0.0", "toVersion": "1.1.0", "toState": "active",
            "channel": "stable", "canaryPercent": 5, "evalRunId": "run_9", "approvalGateId": "gate_1"})
    );
    let record = after.record(&agent(), &v("1.1.0"));
    assert_eq!(record.eval_run_id, Some("run_9".into()));
    assert_eq!(record.approval_gate_id.as_deref(), Some("gate_1"));
}

#[test]
fn latest_is_the_highest_active_version_whatever_its_channel() {
    let lifecycle = after(
        &staged(&["1.9.0", "1.10.0"]),
        &[promote("1.9.0"), into("1.10.0", "canary", 1)],
    );
    assert_eq!(serving(&lifecycle, LATEST, 99).as_deref(), Some("1.10.0"));
    let paused = after(&lifecycle, &[ask("1.10.0", TransitionKind::Pause)]);
    assert_eq!(serving(&paused, LATEST, 0).as_deref(), Some("1.9.0"));
    assert_eq!(serving(&Lifecycle::default(), LATEST, 0), None);
    assert_eq!(serving(&lifecycle, "stable", 0), None);
}

#[test]
fn a_deprecated_version_takes_no_new_traffic() {
    let lifecycle = after(&canary(50), &[ask("1.1.0", TransitionKind::Deprecate)]);
    assert_eq!(
        shown(&lifecycle),
        [
            row("1.0.0", Active, Some(100), &["stable"]),
            row("1.1.0", Deprecated, None, &[]),
        ]
    );
    assert_eq!(serving(&lifecycle, "stable", 0).as_deref(), Some("1.0.0"));
}

#[rstest]
#[case::channel_of_a_test(into("2.0.0", "stable", 100), "channel")]
#[case::share_of_a_test(TransitionRequest { share: Some(5), ..promote("2.0.0") }, "canaryPercent")]
#[case::evidence_of_a_pause(TransitionRequest { evidence: Some("run_1".into()), ..ask("1.0.0", TransitionKind::Pause) }, "evalRunId")]
#[case::channel_of_a_pause(TransitionRequest { channel: Some(channel("stable")), ..ask("1.0.0", TransitionKind::Pause) }, "channel")]
#[case::share_of_a_rollback(TransitionRequest { share: Some(5), ..ask("1.0.0", TransitionKind::Rollback) }, "canaryPercent")]
#[case::adjust_without_share(ask("1.0.0", TransitionKind::AdjustCanary), "canaryPercent")]
#[case::not_on_the_channel(TransitionRequest { channel: Some(channel("canary")), ..adjust("1.0.0", 5) }, "channel")]
#[case::more_for_the_newer_one(adjust("1.0.0", 50), "version")]
#[case::not_rolled_back_there(TransitionRequest { channel: Some(channel("canary")), ..ask("1.0.0", TransitionKind::Rollback) }, "channel")]
#[case::wrong_way(TransitionRequest { to_state: Some(Active), ..promote("2.0.0") }, "toState")]
#[case::again(promote("1.0.0"), "transition")]
fn invalid_transitions_are_rejected_by_field(
    #[case] asked: TransitionRequest,
    #[case] field: &str,
) {
    let lifecycle = canary(10);
    let refused = lifecycle.apply(&agent(), &asked).unwrap_err();
    assert_eq!(refused.field(), field, "{refused}");
}

#[test]
fn a_consent_is_good_for_one_promotion() {
    let gate = RunId::from("run_gate");
    let mut asked = staged(&["1.0.0", "1.1.0"]);
    asked.ask("one".to_owned(), v("1.0.0"), gate.clone());
    asked.ask("other".to_owned(), v("1.1.0"), RunId::from("run_other"));
    assert_eq!(asked.gate_of("one"), Some(&gate));
    let granted = TransitionRequest {
        approval_gate: Some(gate.to_string()),
        ..into("1.0.0", "stable", 100)
    };
    let (moved, events) = asked.apply(&agent(), &granted).unwrap();
    let record = moved.record(&agent(), &v("1.0.0"));
    assert_eq!(record.approval_gate_id.as_deref(), Some(gate.as_str()));
    assert!(matches!(&events[..], [Event::DeploymentPromoted(promoted)]
        if promoted.approval_gate_id.as_deref() == Some(gate.as_str())));
    assert_eq!(moved.gate_of("one"), None, "the gate was consumed");
    assert!(moved.gate_of("other").is_some(), "of another version");
    let paused = after(&moved, &[ask("1.0.0", TransitionKind::Pause)]);
    let record = paused.record(&agent(), &v("1.0.0"));
    assert_eq!(
        record.approval_gate_id.as_deref(),
        Some(gate.as_str()),
        "it stays on record where it was approved"
    );
}

#[rstest]
#[case::same_pack(Some("sha256-a"), false)]
#[case::another_pack(Some("sha256-b"), true)]
#[case::not_installed(None, false)]
fn another_pack_under_the_same_version_is_a_draft(
    #[case] installed: Option<&'static str>,
    #[case] anew: bool,
) {
    let held = |asked: TransitionRequest| TransitionRequest {
        pack_integrity: Some("sha256-a".to_owned()),
        ..asked
    };
    let other = staged(&["2.0.0"]);
    let test = after(&other, &[held(promote("1.0.0"))]);
    let all = [
        test.clone(),
        after(&test, &[held(promote("1.0.0"))]),
        after(
            &test,
            &[
                held(promote("1.0.0")),
                held(into("1.0.0", "stable", 100)),
                held(ask("1.0.0", TransitionKind::Deprecate)),
            ],
        ),
    ];
    for before in all {
        let now = before.as_installed(|version| installed.filter(|_| *version == v("1.0.0")));
        if anew {
            assert_eq!(now.state(&v("1.0.0")), Draft);
            assert!(!now.knows(&v("1.0.0")));
            assert_eq!(now.record(&agent(), &v("2.0.0")).state, Staged);
        } else {
            assert_eq!(now, before);
        }
    }
}

#[test]
fn placements_show_granted_shares_and_served_shows_remaining_shares() {
    let lifecycle = canary(10);
    let on = |percent| Placement::new(Some(channel("stable")), Some(percent));
    assert_eq!(lifecycle.placements(&v("1.0.0")), [on(100)]);
    assert_eq!(lifecycle.served(&v("1.0.0")), [on(90)]);
    assert_eq!(lifecycle.placements(&v("1.1.0")), [on(10)]);
    let nowhere = after(&staged(&["2.0.0"]), &[promote("2.0.0")]);
    assert_eq!(
        nowhere.placements(&v("2.0.0")),
        [Placement::new(None, None)]
    );
    assert_eq!(staged(&["2.0.0"]).placements(&v("2.0.0")), []);
}

#[test]
fn a_transition_from_a_final_state_is_rejected() {
    let gone = after(&canary(10), &[ask("1.1.0", TransitionKind::Rollback)]);
    let refused = gone.apply(&agent(), &promote("1.1.0")).unwrap_err();
    assert_eq!(
        refused,
        TransitionError::InvalidTransition(InvalidTransition::Final(RolledBack))
    );
}

#[test]
fn deployments_read_back_as_they_were_written() {
    let lifecycle = after(&canary(10), &[ask("1.1.0", TransitionKind::Rollback)]);
    let text = serde_json::to_string(&lifecycle).unwrap();
    assert_eq!(serde_json::from_str::<Lifecycle>(&text).unwrap(), lifecycle);
    assert!(serde_json::from_value::<Lifecycle>(json!({"versions": {}})).is_err());
}

#[test]
fn the_traffic_of_a_channel_names_every_version_that_serves() {
    let start = Lifecycle::default();
    let steps = [
        promote("1.0.0"),
        promote("1.0.0"),
        into("1.0.0", "stable", 100),
        promote("1.1.0"),
        promote("1.1.0"),
        into("1.1.0", "stable", 10),
    ];
    let shares = |lifecycle: &Lifecycle| {
        let traffic = lifecycle.traffic();
        assert_eq!(traffic.len(), 1);
        assert_eq!(traffic[0].channel, channel("stable"));
        traffic[0].shares.clone()
    };
    assert!(start.traffic().is_empty());
    assert_eq!(shares(&after(&start, &steps[..3])), [(v("1.0.0"), 100)]);
    let both = after(&start, &steps);
    assert_eq!(shares(&both), [(v("1.1.0"), 10), (v("1.0.0"), 90)]);
    let back = after(&both, &[ask("1.1.0", TransitionKind::Rollback)]);
    assert_eq!(shares(&back), [(v("1.0.0"), 100)]);
}
