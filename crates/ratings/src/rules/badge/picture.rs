//! Properties of a badge's picture other than its content.

/// The mark across a badge. Badges that are no longer valid are still shown, with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    None,
    Expired,
    Revoked,
}

impl Mark {
    pub const ALL: [Self; 3] = [Self::None, Self::Expired, Self::Revoked];

    /// The word on the mark.
    pub const fn text(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Expired => Some("EXPIRED"),
            Self::Revoked => Some("REVOKED"),
        }
    }
}

/// Pixels per unit of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scale {
    /// 300 by 150 pixels.
    #[default]
    One,
    /// 600 by 300 pixels.
    Two,
}

impl Scale {
    pub const ALL: [Self; 2] = [Self::One, Self::Two];
}
