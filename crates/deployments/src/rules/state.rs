//! The state machine: the target state of each transition (RFC 0082 §C).

use touchstone_openwop::deployment::{DeploymentState, TransitionKind};

/// A transition that the state machine does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTransition {
    /// The state is final.
    #[error("a version that is {0} cannot change state; deploy another version")]
    Final(DeploymentState),
    /// The transition starts from another state.
    #[error("{transition} requires a version that is {expected}, but this one is {from}")]
    NotFrom {
        transition: TransitionKind,
        /// The current state.
        from: DeploymentState,
        /// The required state.
        expected: DeploymentState,
    },
    /// The transition leads to another state.
    #[error(
        "{transition} leads from {from} to {to}, not to {asked}; leave `toState` out or set it to \
         {to}"
    )]
    NotTo {
        transition: TransitionKind,
        /// The current state.
        from: DeploymentState,
        /// The state that the transition leads to.
        to: DeploymentState,
        /// The state that the caller asked for.
        asked: DeploymentState,
    },
}

/// The target state of `transition` from `from`. `asked` is the caller's `toState`, which must
/// match if given.
///
/// # Errors
/// [`InvalidTransition`] for everything outside the table.
pub fn next(
    from: DeploymentState,
    transition: TransitionKind,
    asked: Option<DeploymentState>,
) -> Result<DeploymentState, InvalidTransition> {
    use DeploymentState as S;
    use TransitionKind as T;
    let to = match (from, transition) {
        (S::Deprecated | S::RolledBack, _) => return Err(InvalidTransition::Final(from)),
        (S::Draft, T::Promote) => S::Test,
        (S::Test, T::Promote) => S::Staged,
        (S::Staged | S::Paused, T::Promote) => S::Active,
        (S::Active, T::Pause) => S::Paused,
        (S::Active, T::Deprecate) => S::Deprecated,
        (S::Active, T::Rollback) => S::RolledBack,
        (S::Active, T::AdjustCanary) => S::Active,
        (S::Active, T::Promote) => {
            return Err(InvalidTransition::NotFrom {
                transition,
                from,
                expected: S::Staged,
            });
        }
        (
            S::Draft | S::Test | S::Staged | S::Paused,
            T::Pause | T::Deprecate | T::Rollback | T::AdjustCanary,
        ) => {
            return Err(InvalidTransition::NotFrom {
                transition,
                from,
                expected: S::Active,
            });
        }
    };
    match asked {
        Some(asked) if asked != to => Err(InvalidTransition::NotTo {
            transition,
            from,
            to,
            asked,
        }),
        _ => Ok(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use DeploymentState::{Active, Deprecated, Draft, Paused, RolledBack, Staged, Test};
    use TransitionKind::{AdjustCanary, Deprecate, Pause, Promote, Rollback};

    /// The rows of RFC 0082 §C. Every other combination is illegal.
    const TABLE: &[(DeploymentState, TransitionKind, DeploymentState)] = &[
        (Draft, Promote, Test),
        (Test, Promote, Staged),
        (Staged, Promote, Active),
        (Paused, Promote, Active),
        (Active, Pause, Paused),
        (Active, Deprecate, Deprecated),
        (Active, Rollback, RolledBack),
        (Active, AdjustCanary, Active),
    ];

    #[test]
    fn only_the_transitions_in_the_table_are_legal() {
        let mut legal = 0;
        for &from in DeploymentState::ALL {
            for &transition in TransitionKind::ALL {
                let row = TABLE
                    .iter()
                    .find(|(f, t, _)| (*f, *t) == (from, transition));
                let found = next(from, transition, None).ok();
                assert_eq!(found, row.map(|(_, _, to)| *to), "{transition} from {from}");
                legal += usize::from(found.is_some());
                for &asked in DeploymentState::ALL {
                    let named = next(from, transition, Some(asked)).ok();
                    assert_eq!(
                        named,
                        found.filter(|to| *to == asked),
                        "{transition} from {from} to {asked}"
                    );
                }
            }
        }
        assert_eq!(legal, TABLE.len());
    }

    #[test]
    fn final_states_reject_every_transition() {
        for from in [Deprecated, RolledBack] {
            for &transition in TransitionKind::ALL {
                assert_eq!(
                    next(from, transition, None),
                    Err(InvalidTransition::Final(from))
                );
            }
        }
    }

    #[test]
    fn state_and_transition_names_round_trip() {
        for &state in DeploymentState::ALL {
            assert_eq!(DeploymentState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for &kind in TransitionKind::ALL {
            assert_eq!(TransitionKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(DeploymentState::parse("live"), None);
        assert_eq!(TransitionKind::parse("launch"), None);
    }
}
