use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::{Illegal, LATEST};
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

fn ask(version: &str, transition: TransitionKind) -> Move {
    Move {
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

fn promote(version: &str) -> Move {
    ask(version, TransitionKind::Promote)
}

fn into(version: &str, name: &str, share: u8) -> Move {
    Move {
        channel: Some(channel(name)),
        share: Some(share),
        ..promote(version)
    }
}

fn adjust(version: &str, share: u8) -> Move {
    Move {
        share: Some(share),
        ..ask(version, TransitionKind::AdjustCanary)
    }
}

/// The deployments after some moves, each of which must be possible.
fn after(start: &Lifecycle, moves: &[Move]) -> Lifecycle {
    moves.iter().fold(start.clone(), |lifecycle, asked| {
        lifecycle.apply(&agent(), asked).unwrap().0
    })
}

fn staged(versions: &[&str]) -> Lifecycle {
    let moves: Vec<Move> = versions
        .iter()
        .flat_map(|version| [promote(version), promote(version)])
        .collect();
    after(&Lifecycle::default(), &moves)
}

/// `1.0.0` has all of stable, `1.1.0` has come with a share.
fn canary(share: u8) -> Lifecycle {
    after(
        &staged(&["1.0.0", "1.1.0"]),
        &[into("1.0.0", "stable", 100), into("1.1.0", "stable", share)],
    )
}

/// What is shown of each version: state, share, channels.
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

fn serving(lifecycle: &Lifecycle, name: &str, draw: u8) -> Option<String> {
    lifecycle
        .resolve(&channel(name), draw)
        .ok()
        .map(Version::to_string)
}

#[test]
fn what_is_installed_is_a_draft_and_records_are_in_version_order() {
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
fn at_all_of_the_traffic_the_one_before_stays_active_and_loses_the_channel() {
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
fn what_one_of_two_is_given_the_other_one_loses() {
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
fn a_larger_share_is_seen_and_no_version_gets_one_by_the_way() {
    let before = canary(10);
    let raises = |version: &str, share| {
        let asked = adjust(version, share);
        after(&before, std::slice::from_ref(&asked)).raises(&before, &asked.version)
    };
    assert!(raises("1.1.0", 11));
    assert!(!raises("1.1.0", 10));
    assert!(!raises("1.1.0", 9));
    assert!(!raises("1.0.0", 95), "what was left over is no promotion");
    let refused = before.apply(&agent(), &adjust("1.0.0", 89)).unwrap_err();
    let raised = v("1.1.0");
    assert_eq!(refused, Refused::RaisesAnother { raised });
}

#[test]
fn an_adjustment_tells_from_where_to_where() {
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
fn alone_on_a_channel_a_share_is_all_and_none_is_none(
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
fn a_resume_is_a_change_of_state_and_a_promotion_is_a_promotion() {
    let kinds = |lifecycle: &Lifecycle, asked: &Move| -> Vec<&'static str> {
        let (_, events) = lifecycle.apply(&agent(), asked).unwrap();
        events.iter().map(Event::kind).collect()
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
    let asked = Move {
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
fn a_rollback_restores_the_one_before_and_points_to_it() {
    let lifecycle = after(
        &canary(10),
        &[adjust("1.1.0", 100), ask("1.1.0", TransitionKind::Rollback)],
    );
    assert_eq!(
        shown(&lifecycle),
        [
            row("1.0.0", Active, Some(100), &["stable"]),
            row("1.1.0", RolledBack, None, &[]),
        ]
    );
    let record = lifecycle.record(&agent(), &v("1.1.0"));
    assert_eq!(record.rollback_pointer.as_deref(), Some("1.0.0"));
    assert_eq!(serving(&lifecycle, "stable", 99).as_deref(), Some("1.0.0"));
}

#[test]
fn a_rollback_brings_a_paused_version_back_if_no_other_serves() {
    let lifecycle = after(&canary(100), &[ask("1.0.0", TransitionKind::Pause)]);
    let (rolled, events) = lifecycle
        .apply(&agent(), &ask("1.1.0", TransitionKind::Rollback))
        .unwrap();
    assert_eq!(rolled.state(&v("1.0.0")), Active);
    let kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    assert_eq!(
        kinds,
        ["deployment.rolled-back", "deployment.state.changed"]
    );
}

#[test]
fn a_rollback_passes_over_what_is_final() {
    let three = after(
        &staged(&["1.0.0", "1.1.0", "1.2.0"]),
        &[
            into("1.0.0", "stable", 100),
            into("1.1.0", "stable", 100),
            into("1.2.0", "stable", 100),
            ask("1.1.0", TransitionKind::Deprecate),
            ask("1.2.0", TransitionKind::Rollback),
        ],
    );
    assert_eq!(serving(&three, "stable", 0).as_deref(), Some("1.0.0"));
}

#[test]
fn without_a_version_before_it_nothing_is_rolled_back() {
    let alone = after(&staged(&["1.0.0"]), &[into("1.0.0", "stable", 100)]);
    let refused = alone.apply(&agent(), &ask("1.0.0", TransitionKind::Rollback));
    assert!(
        matches!(refused, Err(Refused::NoPrior { .. })),
        "{refused:?}"
    );
    let gone = after(&canary(100), &[ask("1.0.0", TransitionKind::Deprecate)]);
    let refused = gone.apply(&agent(), &ask("1.1.0", TransitionKind::Rollback));
    assert!(
        matches!(refused, Err(Refused::NoPrior { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_version_that_had_a_channel_to_itself_is_replaced_there_by_the_one_active_before() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0"]),
        &[
            into("1.0.0", "stable", 100),
            into("1.1.0", "canary", 100),
            ask("1.1.0", TransitionKind::Rollback),
        ],
    );
    assert_eq!(
        shown(&lifecycle)[0],
        row("1.0.0", Active, Some(100), &["canary", "stable"])
    );
}

#[test]
fn a_rollback_from_two_channels_asks_which_one_counts() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0", "2.0.0"]),
        &[
            into("1.0.0", "stable", 100),
            into("1.1.0", "canary", 100),
            into("2.0.0", "canary", 100),
            ask("2.0.0", TransitionKind::Pause),
            into("2.0.0", "stable", 100),
        ],
    );
    let back = ask("2.0.0", TransitionKind::Rollback);
    let refused = lifecycle.apply(&agent(), &back);
    assert!(
        matches!(refused, Err(Refused::ManyPriors { .. })),
        "{refused:?}"
    );
    let named = Move {
        channel: Some(channel("canary")),
        ..back
    };
    let (rolled, _) = lifecycle.apply(&agent(), &named).unwrap();
    let record = rolled.record(&agent(), &v("2.0.0"));
    assert_eq!(record.rollback_pointer.as_deref(), Some("1.1.0"));
    assert_eq!(serving(&rolled, "stable", 0).as_deref(), Some("1.0.0"));
    assert_eq!(serving(&rolled, "canary", 0).as_deref(), Some("1.1.0"));
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
#[case::share_of_a_test(Move { share: Some(5), ..promote("2.0.0") }, "canaryPercent")]
#[case::evidence_of_a_pause(Move { evidence: Some("run_1".into()), ..ask("1.0.0", TransitionKind::Pause) }, "evalRunId")]
#[case::channel_of_a_pause(Move { channel: Some(channel("stable")), ..ask("1.0.0", TransitionKind::Pause) }, "channel")]
#[case::share_of_a_rollback(Move { share: Some(5), ..ask("1.0.0", TransitionKind::Rollback) }, "canaryPercent")]
#[case::adjust_without_share(ask("1.0.0", TransitionKind::AdjustCanary), "canaryPercent")]
#[case::not_on_the_channel(Move { channel: Some(channel("canary")), ..adjust("1.0.0", 5) }, "channel")]
#[case::more_for_the_newer_one(adjust("1.0.0", 50), "version")]
#[case::not_rolled_back_there(Move { channel: Some(channel("canary")), ..ask("1.0.0", TransitionKind::Rollback) }, "channel")]
#[case::wrong_way(Move { to_state: Some(Active), ..promote("2.0.0") }, "toState")]
#[case::again(promote("1.0.0"), "transition")]
fn what_makes_no_sense_is_refused_and_named(#[case] asked: Move, #[case] field: &str) {
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
    let granted = Move {
        approval_gate: Some(gate.to_string()),
        ..into("1.0.0", "stable", 100)
    };
    let (moved, events) = asked.apply(&agent(), &granted).unwrap();
    let record = moved.record(&agent(), &v("1.0.0"));
    assert_eq!(record.approval_gate_id.as_deref(), Some(gate.as_str()));
    assert!(matches!(&events[..], [Event::DeploymentPromoted(promoted)]
        if promoted.approval_gate_id.as_deref() == Some(gate.as_str())));
    assert_eq!(moved.gate_of("one"), None, "it is used up");
    assert!(moved.gate_of("other").is_some(), "of another version");
    let paused = after(&moved, &[ask("1.0.0", TransitionKind::Pause)]);
    let record = paused.record(&agent(), &v("1.0.0"));
    assert_eq!(record.approval_gate_id, None, "nobody approved the pause");
}

#[test]
fn a_version_that_a_rollback_brings_back_is_another_than_they_were_asked_about() {
    let mut paused = after(&canary(100), &[ask("1.0.0", TransitionKind::Pause)]);
    paused.ask("resume".to_owned(), v("1.0.0"), RunId::from("run_gate"));
    let back = after(&paused, &[ask("1.1.0", TransitionKind::Rollback)]);
    assert_eq!(back.state(&v("1.0.0")), Active);
    assert_eq!(back.gate_of("resume"), None);
}

#[rstest]
#[case::same_pack(Some("sha256-a"), false)]
#[case::another_pack(Some("sha256-b"), true)]
#[case::not_installed(None, false)]
fn another_pack_under_the_same_version_is_a_draft(
    #[case] installed: Option<&'static str>,
    #[case] anew: bool,
) {
    let held = |asked: Move| Move {
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
fn a_placement_is_what_was_given_and_what_is_served_is_what_is_left() {
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
fn a_final_state_is_told() {
    let gone = after(&canary(10), &[ask("1.1.0", TransitionKind::Rollback)]);
    let refused = gone.apply(&agent(), &promote("1.1.0")).unwrap_err();
    assert_eq!(refused, Refused::Illegal(Illegal::Final(RolledBack)));
}

#[test]
fn deployments_read_back_as_they_were_written() {
    let lifecycle = after(&canary(10), &[ask("1.1.0", TransitionKind::Rollback)]);
    let text = serde_json::to_string(&lifecycle).unwrap();
    assert_eq!(serde_json::from_str::<Lifecycle>(&text).unwrap(), lifecycle);
    assert!(serde_json::from_value::<Lifecycle>(json!({"versions": {}})).is_err());
}

fn any_move() -> impl Strategy<Value = Move> {
    (
        prop::sample::select(vec!["1.0.0", "1.1.0", "2.0.0", "2.1.0-rc.1"]),
        prop::sample::select(TransitionKind::ALL.to_vec()),
        prop::option::of(prop::sample::select(vec!["stable", "canary"])),
        prop::option::of(0_u8..=100),
    )
        .prop_map(|(version, transition, name, share)| Move {
            channel: name.map(channel),
            share,
            ..ask(version, transition)
        })
}

proptest! {
    /// Whatever is asked in whatever order: shares never add up to more than there is, only active versions have any, a
    /// channel with traffic to give resolves for every draw to a version that shows the channel, and a refusal or a
    /// rollback never leaves a channel empty that was served.
    #[test]
    fn the_deployments_stay_sound(moves in prop::collection::vec(any_move(), 0..60)) {
        let mut lifecycle = Lifecycle::default();
        for asked in &moves {
            let before = lifecycle.clone();
            let Ok((after, events)) = lifecycle.apply(&agent(), asked) else { continue };
            prop_assert!(!events.is_empty());
            for event in &events {
                let payload = serde_json::to_value(event).unwrap();
                prop_assert_eq!(payload.get("agentId"), Some(&Value::from(agent().as_str())));
            }
            let records = after.records(&agent(), []);
            for name in ["stable", "canary"] {
                let on: Vec<_> = records
                    .iter()
                    .filter(|record| record.channels.iter().any(|on| on == name))
                    .collect();
                prop_assert!(on.iter().all(|record| record.state == Active));
                let sum: u32 = on.iter().map(|record| u32::from(record.canary_percent.unwrap())).sum();
                prop_assert!(sum <= 100, "{} on {name}", sum);
                for draw in [0, 1, 50, 99] {
                    match after.resolve(&channel(name), draw) {
                        Ok(version) => prop_assert!(on.iter().any(|record| record.version == version.to_string())),
                        Err(NoActiveDeployment) => prop_assert!(sum == 0),
                    }
                }
                if asked.transition == TransitionKind::Rollback && before.split(&channel(name)).is_some() {
                    prop_assert!(after.split(&channel(name)).is_some());
                }
            }
            for record in &records {
                prop_assert_eq!(record.rollback_pointer.is_some(), record.state == RolledBack);
                prop_assert!(record.state == Active || record.canary_percent.is_none());
            }
            lifecycle = after;
        }
        let text = serde_json::to_string(&lifecycle).unwrap();
        prop_assert_eq!(serde_json::from_str::<Lifecycle>(&text).unwrap(), lifecycle);
    }
}
