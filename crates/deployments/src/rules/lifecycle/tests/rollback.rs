use super::*;

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
fn a_rollback_does_not_resume_a_paused_version() {
    let back = ask("1.1.0", TransitionKind::Rollback);
    let lifecycle = after(&canary(100), &[ask("1.0.0", TransitionKind::Pause)]);
    let paused = TransitionError::PausedPrior {
        version: v("1.1.0"),
        prior: v("1.0.0"),
        channel: Some(channel("stable")),
    };
    assert_eq!(lifecycle.apply(&agent(), &back).unwrap_err(), paused);
    // The remedies that the message names.
    let resumed = after(&lifecycle, &[promote("1.0.0")]);
    assert_eq!(shown(&resumed), shown(&canary(100)));
    let rolled = after(&resumed, std::slice::from_ref(&back));
    assert_eq!(serving(&rolled, "stable", 0).as_deref(), Some("1.0.0"));
    let off = after(&lifecycle, &[ask("1.1.0", TransitionKind::Pause)]);
    assert_eq!(serving(&off, "stable", 0), None);
}

#[test]
fn a_rollback_skips_a_paused_version_for_the_one_that_serves() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0", "1.2.0"]),
        &[
            into("1.0.0", "stable", 100),
            into("1.1.0", "stable", 100),
            into("1.2.0", "stable", 100),
            ask("1.1.0", TransitionKind::Pause),
            ask("1.2.0", TransitionKind::Rollback),
        ],
    );
    let record = lifecycle.record(&agent(), &v("1.2.0"));
    assert_eq!(record.rollback_pointer.as_deref(), Some("1.0.0"));
    assert_eq!(lifecycle.state(&v("1.1.0")), Paused);
    assert_eq!(serving(&lifecycle, "stable", 0).as_deref(), Some("1.0.0"));
}

#[test]
fn a_version_on_no_channel_is_rolled_back_to_what_was_active_before_it() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0"]),
        &[promote("1.0.0"), promote("1.1.0")],
    );
    let back = ask("1.1.0", TransitionKind::Rollback);
    let rolled = after(&lifecycle, std::slice::from_ref(&back));
    let record = rolled.record(&agent(), &v("1.1.0"));
    assert_eq!(record.rollback_pointer.as_deref(), Some("1.0.0"));
    // A pause does not change the order.
    let pause = ask("1.0.0", TransitionKind::Pause);
    let paused = after(&lifecycle, &[pause]);
    assert!(matches!(
        paused.apply(&agent(), &back),
        Err(TransitionError::PausedPrior { channel: None, .. })
    ));
    let resumed = after(&paused, &[promote("1.0.0"), back]);
    assert_eq!(resumed.state(&v("1.1.0")), RolledBack);
}

#[test]
fn a_rollback_skips_versions_in_a_final_state() {
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
        matches!(refused, Err(TransitionError::NoPrior { .. })),
        "{refused:?}"
    );
    let gone = after(&canary(100), &[ask("1.0.0", TransitionKind::Deprecate)]);
    let refused = gone.apply(&agent(), &ask("1.1.0", TransitionKind::Rollback));
    assert!(
        matches!(refused, Err(TransitionError::NoPrior { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_rollback_does_not_add_a_version_to_another_channel() {
    let back = ask("1.1.0", TransitionKind::Rollback);
    let none_on = |name: &str| TransitionError::NoPrior {
        version: v("1.1.0"),
        channel: Some(channel(name)),
    };
    let apart = after(
        &staged(&["1.0.0", "1.1.0"]),
        &[into("1.0.0", "stable", 100), into("1.1.0", "canary", 100)],
    );
    assert_eq!(apart.apply(&agent(), &back).unwrap_err(), none_on("canary"));
    // Neither works if only one of its channels has a version to roll back to, whichever channel is
    // named.
    let both = after(
        &apart,
        &[
            ask("1.1.0", TransitionKind::Pause),
            into("1.1.0", "stable", 100),
        ],
    );
    for name in [None, Some("stable"), Some("canary")] {
        let back = TransitionRequest {
            channel: name.map(channel),
            ..back.clone()
        };
        assert_eq!(both.apply(&agent(), &back).unwrap_err(), none_on("canary"));
    }
}

/// A version that reached `canary` without a strict gate does not reach `stable` by a rollback
/// there.
#[test]
fn a_rollback_does_not_bypass_the_gate_of_another_channel() {
    let lifecycle = after(
        &staged(&["1.0.0", "1.1.0", "1.2.0"]),
        &[
            into("1.0.0", "stable", 100),
            ask("1.0.0", TransitionKind::Deprecate),
            into("1.1.0", "canary", 100),
            into("1.2.0", "stable", 100),
        ],
    );
    let back = ask("1.2.0", TransitionKind::Rollback);
    let refused = lifecycle.apply(&agent(), &back).unwrap_err();
    assert!(
        refused.to_string().contains("on channel stable"),
        "{refused}"
    );
    assert!(
        matches!(refused, TransitionError::NoPrior { .. }),
        "{refused:?}"
    );
}
