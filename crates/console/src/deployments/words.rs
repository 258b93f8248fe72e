//! States, transitions and outcomes in words.

use touchstone_host::audit::Outcome;
use touchstone_openwop::deployment::{DeploymentState, TransitionKind};

/// A state: a sign and a word, and the class of its colour.
pub struct Badge {
    pub class: &'static str,
    pub sign: &'static str,
    pub text: &'static str,
}

const fn badge(class: &'static str, sign: &'static str, text: &'static str) -> Badge {
    Badge { class, sign, text }
}

pub const fn state(state: DeploymentState) -> Badge {
    match state {
        DeploymentState::Draft => badge("", "○", "Draft"),
        DeploymentState::Test => badge("info", "◔", "In test"),
        DeploymentState::Staged => badge("info", "◑", "Staged"),
        DeploymentState::Active => badge("good", "●", "Active"),
        DeploymentState::Paused => badge("warn", "⏸", "Paused"),
        DeploymentState::Deprecated => badge("", "⊘", "Deprecated"),
        DeploymentState::RolledBack => badge("bad", "↩", "Rolled back"),
    }
}

pub const fn outcome(outcome: Outcome) -> Badge {
    match outcome {
        Outcome::Done => badge("good", "✓", "Done"),
        Outcome::Denied => badge("bad", "⊘", "Denied"),
        Outcome::Refused => badge("bad", "✗", "Refused"),
        Outcome::Pending => badge("warn", "◷", "Waits"),
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

/// What a transition does, for a person who decides on it.
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
