//! Which events a stream mode carries (OpenWOP stream-modes).

/// A selection of a run's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// `debug`: every entry.
    Everything,
    /// `updates`: transitions and results.
    Updates,
    /// `messages`: chunks of text as a model writes them.
    Messages,
    /// `updates,messages`.
    UpdatesAndMessages,
}

const MESSAGE: &str = "ai.message.chunk";

/// Families of which every type belongs to `updates`.
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
    // A result like `eval.scored`, which follows it and cannot say it.
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
