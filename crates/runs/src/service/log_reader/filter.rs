//! The events of each stream mode (OpenWOP stream-modes, OpenWOP v2 events).
//!
//! Kinds are those of the major that reads: its names differ, and what each mode shows.

use touchstone_openwop::wire::Major;

/// A selection of a run's events: the union of stream modes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Transitions and results.
    pub updates: bool,
    /// Chunks of model output.
    pub messages: bool,
    /// Every entry.
    pub debug: bool,
}

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
    "workspace.updated",
];

/// The reason why a task has no `eval.scored`, in `updates` of major 1. Major 2 shows this host's
/// own types in `debug` alone.
const UNJUDGED: &str = "touchstone.task.unjudged";

impl Filter {
    pub const UPDATES: Self = Self {
        updates: true,
        messages: false,
        debug: false,
    };
    pub const MESSAGES: Self = Self {
        updates: false,
        messages: true,
        debug: false,
    };
    pub const DEBUG: Self = Self {
        updates: false,
        messages: false,
        debug: true,
    };
    pub const UPDATES_AND_MESSAGES: Self = Self {
        updates: true,
        messages: true,
        debug: false,
    };

    /// Number of filters.
    pub(super) const COUNT: usize = 8;

    /// A number below [`COUNT`](Self::COUNT).
    pub(super) fn index(self) -> usize {
        usize::from(self.updates) + 2 * usize::from(self.messages) + 4 * usize::from(self.debug)
    }

    /// Whether it has more than one mode.
    pub fn is_mixed(self) -> bool {
        u8::from(self.updates) + u8::from(self.messages) + u8::from(self.debug) > 1
    }

    /// Whether an event of this type is part of the selection.
    pub fn passes(self, major: Major, kind: &str) -> bool {
        self.admitting(major, kind).is_some()
    }

    /// The first of `updates`, `messages` and `debug` that has an event of this type.
    pub fn admitting(self, major: Major, kind: &str) -> Option<&'static str> {
        if self.updates && is_update(major, kind) {
            Some("updates")
        } else if self.messages && kind == chunk(major) {
            Some("messages")
        } else if self.debug {
            Some("debug")
        } else {
            None
        }
    }
}

/// The type of a chunk of a model's text.
pub(super) const fn chunk(major: Major) -> &'static str {
    match major {
        Major::V1 => "ai.message.chunk",
        Major::V2 => "output.chunk",
    }
}

fn is_update(major: Major, kind: &str) -> bool {
    let of_family = UPDATE_FAMILIES
        .iter()
        .any(|family| kind.starts_with(family));
    of_family || UPDATE_TYPES.contains(&kind) || (major == Major::V1 && kind == UNJUDGED)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ALL: Filter = Filter {
        updates: true,
        messages: true,
        debug: true,
    };

    #[rstest]
    #[case("run.started", Some("updates"))]
    #[case("eval.scored", Some("updates"))]
    #[case("node.completed", Some("updates"))]
    #[case("node.started", Some("debug"))]
    #[case("output.chunk", Some("messages"))]
    #[case("ai.message.chunk", Some("debug"))]
    #[case("agent.tool-called", Some("debug"))]
    #[case("touchstone.task.unjudged", Some("debug"))]
    fn the_first_mode_admits_an_event(#[case] kind: &str, #[case] mode: Option<&str>) {
        assert_eq!(ALL.admitting(Major::V2, kind), mode);
    }

    #[rstest]
    #[case(Filter::UPDATES, "touchstone.task.unjudged", true, false)]
    #[case(Filter::UPDATES, "touchstone.task.judged", false, false)]
    #[case(Filter::UPDATES, "deployment.promoted", true, true)]
    #[case(Filter::MESSAGES, "ai.message.chunk", true, false)]
    #[case(Filter::MESSAGES, "output.chunk", false, true)]
    #[case(Filter::DEBUG, "touchstone.task.judged", true, true)]
    #[case(Filter::UPDATES_AND_MESSAGES, "node.started", false, false)]
    fn majors_have_their_own_selections(
        #[case] filter: Filter,
        #[case] kind: &str,
        #[case] v1: bool,
        #[case] v2: bool,
    ) {
        let found = [Major::V1, Major::V2].map(|major| filter.passes(major, kind));
        assert_eq!(found, [v1, v2]);
    }
}
