//! The events of each stream mode (OpenWOP stream-modes).

/// A selection of a run's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// `debug`: every entry.
    Everything,
    /// `updates`: transitions and results.
    Updates,
    /// `messages`: chunks of model output.
    Messages,
    /// `updates,messages`.
    UpdatesAndMessages,
}

const MESSAGE: &str = "ai.message.chunk";

/// Families whose types all belong to `updates`.
const UPDATE_FAMILIES: &[&str] = &[
    "run.",
    "interrupt.",
    "approval.",
    "clarification.",
    "eval.",
    "deployment.",
];

/// Single types that belong to `updates`.
const UPDATE_TYPES: &[&str] = &[
    "node.completed",
    "node.failed",
    "node.skipped",
    "node.suspended",
    "node.dispatched",
    "artifact.created",
    // The reason why a task has no `eval.scored`.
    "touchstone.task.unjudged",
    "workspace.updated",
];

impl Filter {
    /// Whether an event of this type is part of the selection.
    pub fn passes(self, kind: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Updates => {
                UPDATE_FAMILIES
                    .iter()
                    .any(|family| kind.starts_with(family))
                    || UPDATE_TYPES.contains(&kind)
            }
            Self::Messages => kind == MESSAGE,
            Self::UpdatesAndMessages => Self::Updates.passes(kind) || Self::Messages.passes(kind),
        }
    }
}
