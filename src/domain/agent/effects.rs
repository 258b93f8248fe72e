//! What a live tool may do to the world, and whether it is let (RFC 0081 §D, `live-shadow`).

use serde::{Deserialize, Serialize};

/// What the operator says of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declared {
    /// It only looks.
    ReadOnly,
    /// It changes something.
    SideEffecting,
}

/// What the tool's server says of it. Nobody vouches for that: it can make a tool look worse, never better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Whether it only looks.
    pub read_only: Option<bool>,
    /// Whether it destroys something.
    pub destructive: Option<bool>,
}

/// Whether a tool is called, and with how much care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effects {
    /// It only looks: called, and after an interruption called anew.
    None,
    /// It changes something, and is let: called once, whatever happens.
    Allowed,
    /// It changes something, and is not let.
    Refused,
}

impl Effects {
    /// What becomes of a tool.
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
    fn a_hint_only_makes_it_stricter(
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
