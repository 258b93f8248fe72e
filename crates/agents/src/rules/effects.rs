//! Whether a live tool has side effects, and whether they are allowed (RFC 0081 §D, `live-shadow`).

use serde::{Deserialize, Serialize};

/// The operator's declaration for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declared {
    ReadOnly,
    SideEffecting,
}

/// Hints from the tool's server. Hints are untrusted: they can make a tool count as having side
/// effects, never the reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    /// Whether the tool destroys something.
    pub destructive: Option<bool>,
}

/// Whether a tool may be called, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effects {
    /// Read-only: may be called, and called again after an interruption.
    None,
    /// Has side effects that are allowed: called at most once, even after an interruption.
    Allowed,
    /// Has side effects that are not allowed.
    Refused,
}

impl Effects {
    /// Combines the declaration, the host's setting and the server's hints.
    pub fn of(declared: Declared, allowed: bool, hints: Hints) -> Self {
        let suspect = hints.read_only == Some(false) || hints.destructive == Some(true);
        match (declared, allowed) {
            (Declared::ReadOnly, _) if !suspect => Self::None,
            (_, true) => Self::Allowed,
            (_, false) => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Declared::ReadOnly, false, (None, None), Effects::None)]
    #[case(Declared::ReadOnly, false, (Some(true), Some(false)), Effects::None)]
    #[case(Declared::ReadOnly, true, (Some(true), None), Effects::None)]
    #[case::the_server_knows_worse(Declared::ReadOnly, false, (Some(false), None), Effects::Refused)]
    #[case(Declared::ReadOnly, false, (None, Some(true)), Effects::Refused)]
    #[case(Declared::ReadOnly, true, (Some(false), None), Effects::Allowed)]
    #[case(Declared::SideEffecting, false, (None, None), Effects::Refused)]
    #[case::a_hint_excuses_nothing(Declared::SideEffecting, false, (Some(true), Some(false)), Effects::Refused)]
    #[case(Declared::SideEffecting, true, (Some(true), None), Effects::Allowed)]
    fn tool_hints_can_only_make_declared_effects_stricter(
        #[case] declared: Declared,
        #[case] allowed: bool,
        #[case] (read_only, destructive): (Option<bool>, Option<bool>),
        #[case] effects: Effects,
    ) {
        let hints = Hints {
            read_only,
            destructive,
        };
        assert_eq!(Effects::of(declared, allowed, hints), effects);
    }
}
