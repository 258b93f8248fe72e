//! States, transitions and outcomes in words.

pub use crate::page::badge::Badge;
use touchstone_host::audit::Outcome;
use touchstone_host::render::words::plain;
use touchstone_openwop::deployment::{DeploymentState, TransitionKind};

pub fn state(state: DeploymentState) -> Badge {
    match state {
        DeploymentState::Draft => Badge::of("", "○", "Draft"),
        DeploymentState::Test => Badge::of("info", "◔", "In test"),
        DeploymentState::Staged => Badge::of("info", "◑", "Staged"),
        DeploymentState::Active => Badge::of("good", "●", "Active"),
        DeploymentState::Paused => Badge::of("warn", "‖", "Paused"),
        DeploymentState::Deprecated => Badge::of("", "⊘", "Deprecated"),
        DeploymentState::RolledBack => Badge::of("bad", "↩", "Rolled back"),
    }
}

pub fn outcome(outcome: Outcome) -> Badge {
    match outcome {
        Outcome::Done => Badge::of("good", "✓", "Done"),
        Outcome::Denied => Badge::of("bad", "⊘", "Denied"),
        Outcome::Refused => Badge::of("bad", "✗", "Refused"),
        Outcome::Pending => Badge::of("warn", "◷", "Waiting"),
    }
}

/// The label of a button.
pub const fn verb(kind: TransitionKind) -> &'static str {
    match kind {
        TransitionKind::Promote => "Promote",
        TransitionKind::Pause => "Pause",
        TransitionKind::Deprecate => "Deprecate",
        TransitionKind::Rollback => "Roll back",
        TransitionKind::AdjustCanary => "Change share",
    }
}

/// The effect of a transition, for a person who decides on it.
pub const fn effect(kind: TransitionKind) -> &'static str {
    match kind {
        TransitionKind::Promote => {
            "The version takes one step towards production, or back into it."
        }
        TransitionKind::Pause => {
            "The version stops serving until a person promotes it again. Its traffic goes to the \
             version before it."
        }
        TransitionKind::Deprecate => {
            "The version never gets new traffic again. Runs that are pinned to it continue."
        }
        TransitionKind::Rollback => {
            "The version is withdrawn permanently, and the version that it replaced serves again."
        }
        TransitionKind::AdjustCanary => {
            "The version gets another share of the traffic. A larger share passes the gate again."
        }
    }
}

/// The name of a group of conditions.
pub fn kind(kind: &str) -> &str {
    match kind {
        "eval" => "Evaluation",
        "approval" => "Approval",
        "rating" => "Rating",
        "agent-card" => "Agent card",
        "oasis" => "OASIS",
        other => other,
    }
}

/// A recorded reason without the code of its condition.
pub fn reason(text: &str) -> String {
    let (code, rest) = text.split_once(": ").unwrap_or_default();
    let is_code = !code.is_empty() && code.bytes().all(|it| it.is_ascii_lowercase() || it == b'-');
    match code {
        "said" => format!("Reason: {}", plain(rest)),
        "tasks" => format!("Tasks: {}", plain(rest)),
        "approval-pending" => format!("the promotion {}", plain(rest)),
        _ if is_code => plain(rest),
        _ => plain(text),
    }
}

/// The short name of a transition in `?done=`.
pub const fn done(kind: TransitionKind) -> &'static str {
    match kind {
        TransitionKind::Promote => "version-promoted",
        TransitionKind::Pause => "version-paused",
        TransitionKind::Deprecate => "version-deprecated",
        TransitionKind::Rollback => "version-rolled-back",
        TransitionKind::AdjustCanary => "share-changed",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("passed: the run did not pass", "the run did not pass")]
    #[case("said: weekly: as agreed", "Reason: weekly: as agreed")]
    #[case("tasks: a, b", "Tasks: a, b")]
    #[case("approval-pending: is waiting", "the promotion is waiting")]
    #[case("no code here", "no code here")]
    #[case("Not a code: but a sentence", "Not a code: but a sentence")]
    fn codes_of_conditions_are_left_out(#[case] recorded: &str, #[case] shown: &str) {
        assert_eq!(reason(recorded), shown);
    }
}
