//! Invariants under arbitrary sequences of transitions.

use proptest::prelude::*;

use super::*;

fn any_move() -> impl Strategy<Value = TransitionRequest> {
    (
        prop::sample::select(vec!["1.0.0", "1.1.0", "2.0.0", "2.1.0-rc.1"]),
        prop::sample::select(TransitionKind::ALL.to_vec()),
        prop::option::of(prop::sample::select(vec!["stable", "canary"])),
        prop::option::of(0_u8..=100),
    )
        .prop_map(|(version, transition, name, share)| TransitionRequest {
            channel: name.map(channel),
            share,
            ..ask(version, transition)
        })
}

proptest! {
    /// Invariants under arbitrary sequences of transitions: shares never exceed the total, only
    /// active versions have a share, a channel with traffic resolves every draw to a version that
    /// lists the channel, no version takes more of a channel than its gate judged, and a rollback
    /// puts nothing into service or on a channel and never empties a channel that was served.
    #[test]
    fn lifecycle_invariants_hold_after_any_transitions(moves in prop::collection::vec(any_move(), 0..60)) {
        let mut lifecycle = Lifecycle::default();
        let mut judged: BTreeMap<(Version, Channel), u8> = BTreeMap::new();
        for asked in &moves {
            let before = lifecycle.clone();
            let Ok((after, events)) = lifecycle.apply(&agent(), asked) else { continue };
            prop_assert!(!events.is_empty());
            for event in &events {
                let payload = serde_json::to_value(event).unwrap();
                prop_assert_eq!(payload.get("agentId"), Some(&Value::from(agent().as_str())));
            }
            let gated = asked.transition == TransitionKind::Promote
                || asked.transition == TransitionKind::AdjustCanary && after.raises(&before, &asked.version);
            for place in after.placements(&asked.version).into_iter().filter(|_| gated) {
                if let Some(on) = place.channel {
                    let most = if place.alone { 100 } else { place.canary_percent };
                    judged.insert((asked.version.clone(), on), most);
                }
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
                let mut taken: BTreeMap<Version, u8> = BTreeMap::new();
                for draw in 0..100 {
                    if let Ok(version) = after.resolve(&channel(name), draw) {
                        *taken.entry(version.clone()).or_default() += 1;
                    }
                    match after.resolve(&channel(name), draw) {
                        Ok(version) => prop_assert!(on.iter().any(|record| record.version == version.to_string())),
                        Err(NoActiveDeployment) => prop_assert!(sum == 0),
                    }
                }
                for (version, taken) in taken {
                    let most = judged.get(&(version.clone(), channel(name))).copied();
                    prop_assert!(Some(taken) <= most, "{version} takes {taken} of {name}, {most:?} was judged");
                }
                if asked.transition == TransitionKind::Rollback {
                    let on = channel(name);
                    prop_assert!(before.split(&on).is_none() || after.split(&on).is_some());
                    for other in after.versions.keys() {
                        prop_assert!(!after.is_active(other) || before.is_active(other));
                        prop_assert!(!after.channels_of(other).contains(&on) || before.channels_of(other).contains(&on));
                    }
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
