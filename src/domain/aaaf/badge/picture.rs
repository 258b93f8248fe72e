//! How a badge is pictured, apart from what it says.

/// What is marked across a badge. One that does not hold any more is still shown, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It holds.
    None,
    /// It is past its time.
    Expired,
    /// It was revoked.
    Revoked,
}

impl Mark {
    /// Every mark.
    pub const ALL: [Self; 3] = [Self::None, Self::Expired, Self::Revoked];

    /// The word across it.
    pub const fn text(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Expired => Some("EXPIRED"),
            Self::Revoked => Some("REVOKED"),
        }
    }
}

/// Pixels for each unit of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scale {
    /// 300 by 150.
    #[default]
    One,
    /// 600 by 300.
    Two,
}

impl Scale {
    /// Every scale.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];
}
