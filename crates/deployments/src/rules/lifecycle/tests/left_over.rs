//! The traffic of a version that leaves goes to the remaining one.

use super::*;

#[rstest]
#[case::pause(TransitionKind::Pause)]
#[case::deprecate(TransitionKind::Deprecate)]
fn pausing_a_version_does_not_raise_the_share_of_another_version(#[case] leave: TransitionKind) {
    let five = canary(5);
    let refused = five.apply(&agent(), &ask("1.0.0", leave)).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 100, 5));
    // In an emergency, the canary leaves first, or every version does.
    let none = after(
        &five,
        &[ask("1.1.0", TransitionKind::Pause), ask("1.0.0", leave)],
    );
    assert_eq!(serving(&none, "stable", 0), None);
    // Or the canary is granted all traffic first.
    let all = after(&five, &[adjust("1.1.0", 100), ask("1.0.0", leave)]);
    assert_eq!(serving(&all, "stable", 99).as_deref(), Some("1.1.0"));
    // A share of zero remains zero.
    let dark = after(&canary(0), &[ask("1.0.0", leave)]);
    assert_eq!(serving(&dark, "stable", 0), None);
}

#[test]
fn other_transitions_do_not_raise_the_share_of_another_version() {
    let three = after(
        &staged(&["1.0.0", "1.1.0", "1.2.0"]),
        &[into("1.0.0", "stable", 100), into("1.1.0", "stable", 5)],
    );
    let half = into("1.2.0", "stable", 50);
    let refused = three.apply(&agent(), &half).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 50, 5));

    let whole = after(&three, &[into("1.2.0", "stable", 100)]);
    let less = adjust("1.2.0", 50);
    let refused = whole.apply(&agent(), &less).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 50, 5));
    // The version before the current one cannot exceed its granted share either.
    let more = adjust("1.1.0", 60);
    let raised = after(&whole, std::slice::from_ref(&more));
    assert!(raised.raises(&whole, &more.version), "it passes the gate");
    let rest = adjust("1.1.0", 5);
    let lowered = after(&whole, std::slice::from_ref(&rest));
    assert!(!lowered.raises(&whole, &rest.version));

    let gone = after(&whole, &[ask("1.0.0", TransitionKind::Pause)]);
    let back = ask("1.2.0", TransitionKind::Rollback);
    let refused = gone.apply(&agent(), &back).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 100, 5));
    let rolled = after(&whole, &[back]);
    assert_eq!(
        shown(&rolled)[..2],
        [
            row("1.0.0", Active, Some(95), &["stable"]),
            row("1.1.0", Active, Some(5), &["stable"]),
        ]
    );

    // A version that returns does not get a larger share than it left.
    let away = after(
        &three,
        &[
            ask("1.1.0", TransitionKind::Pause),
            into("1.2.0", "stable", 20),
        ],
    );
    let refused = away.apply(&agent(), &promote("1.1.0")).unwrap_err();
    assert_eq!(refused, raises_another("1.1.0", 80, 5));
}

/// Putting a version on an empty channel grants it all the traffic, and the message says so.
#[test]
fn promotion_to_an_empty_channel_grants_all_of_its_traffic() {
    let alone = after(&staged(&["1.0.0", "1.1.0"]), &[into("1.0.0", "stable", 5)]);
    let place = &alone.placements(&v("1.0.0"))[0];
    assert_eq!((place.canary_percent, place.alone), (5, true));
    assert!(place.to_string().contains("which is all of it"), "{place}");
    assert_eq!(alone.served(&v("1.0.0")), alone.placements(&v("1.0.0")));
    let back = after(
        &alone,
        &[
            into("1.1.0", "stable", 100),
            ask("1.1.0", TransitionKind::Rollback),
        ],
    );
    assert_eq!(serving(&back, "stable", 99).as_deref(), Some("1.0.0"));
    // A version that was approved to share a channel needs another approval to be alone there.
    let shared = canary(5);
    let paused = after(
        &shared,
        &[
            ask("1.1.0", TransitionKind::Pause),
            ask("1.0.0", TransitionKind::Pause),
        ],
    );
    let resumed = after(&paused, &[promote("1.1.0")]);
    assert!(!shared.placements(&v("1.1.0"))[0].alone);
    assert!(resumed.placements(&v("1.1.0"))[0].alone);
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
        matches!(refused, Err(TransitionError::ManyPriors { .. })),
        "{refused:?}"
    );
    let named = TransitionRequest {
        channel: Some(channel("canary")),
        ..back
    };
    let (rolled, _) = lifecycle.apply(&agent(), &named).unwrap();
    let record = rolled.record(&agent(), &v("2.0.0"));
    assert_eq!(record.rollback_pointer.as_deref(), Some("1.1.0"));
    assert_eq!(serving(&rolled, "stable", 0).as_deref(), Some("1.0.0"));
    assert_eq!(serving(&rolled, "canary", 0).as_deref(), Some("1.1.0"));
}
