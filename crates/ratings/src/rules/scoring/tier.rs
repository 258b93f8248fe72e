//! Stored scores, their tiers and their display (AAAF storage and tiers).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rules::scoring::dimension::Axis;

/// The score 1, in ten-thousandths.
const ONE: u16 = 10_000;

/// Names and lower bounds in ten-thousandths; every tier ends where the next begins.
const PERFORMANCE: [(&str, u16); 5] = [
    ("Novice", 0),
    ("Competent", 4000),
    ("Proficient", 6000),
    ("Expert", 7500),
    ("Elite", 9000),
];
const CAPABILITY: [(&str, u16); 5] = [
    ("Narrow", 0),
    ("Functional", 3000),
    ("Versatile", 5000),
    ("Specialist", 7000),
    ("Full-Stack", 8500),
];

const fn table(axis: Axis) -> &'static [(&'static str, u16); 5] {
    match axis {
        Axis::Performance => &PERFORMANCE,
        Axis::Capability => &CAPABILITY,
    }
}

/// A score 0..=1 with four decimals, as it is stored, compared and assigned to a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u16);

impl Score {
    /// Rounds half up. The guard makes binary and exact arithmetic agree. Values outside 0..=1 are
    /// clamped.
    pub fn of(raw: f64) -> Self {
        let rounded = (raw * f64::from(ONE) + 0.5 + 1e-9).floor();
        Self(rounded.clamp(0.0, f64::from(ONE)) as u16)
    }

    /// The score in ten-thousandths.
    pub const fn ten_thousandths(self) -> u16 {
        self.0
    }

    /// The score as a number 0..=1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }

    /// Two decimals, rounded half up, but truncated where rounding would show the number of the
    /// next tier.
    pub fn display(self, axis: Axis) -> String {
        let up = (self.0 + 50) / 100;
        let shown = if Tier::of(axis, Self(up * 100)) == Tier::of(axis, self) {
            up
        } else {
            self.0 / 100
        };
        format!("{}.{:02}", shown / 100, shown % 100)
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&raw) {
            Ok(Self::of(raw))
        } else {
            Err(de::Error::custom("a score must be between 0 and 1"))
        }
    }
}

/// A tier of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    axis: Axis,
    rank: u8,
}

impl Tier {
    /// The tier that a stored score reaches.
    pub fn of(axis: Axis, score: Score) -> Self {
        let reached = table(axis).iter().filter(|(_, from)| score.0 >= *from);
        Self {
            axis,
            // Every score reaches the lowest tier.
            rank: reached.count().saturating_sub(1) as u8,
        }
    }

    /// All tiers of an axis, lowest first.
    pub fn all(axis: Axis) -> impl Iterator<Item = Self> {
        (0..5).map(move |rank| Self { axis, rank })
    }

    pub const fn axis(self) -> Axis {
        self.axis
    }

    /// From 0, the lowest, to 4.
    pub const fn rank(self) -> u8 {
        self.rank
    }

    pub fn name(self) -> &'static str {
        let named = table(self.axis).get(usize::from(self.rank));
        named.map_or("", |(name, _)| name)
    }

    /// The lowest score that reaches the tier.
    pub fn lower_bound(self) -> Score {
        let named = table(self.axis).get(usize::from(self.rank));
        Score(named.map_or(ONE, |(_, from)| *from))
    }

    pub const fn is_top(self) -> bool {
        self.rank == 4
    }

    /// The next lower tier; the lowest returns itself.
    #[must_use]
    pub const fn lower(self) -> Self {
        Self {
            axis: self.axis,
            rank: self.rank.saturating_sub(1),
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a tier; the performance tiers are Novice, Competent, Proficient, Expert and \
    Elite, the capability tiers Narrow, Functional, Versatile, Specialist and Full-Stack"
)]
pub struct UnknownTier(String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Self, UnknownTier> {
        let mut all = Axis::ALL.into_iter().flat_map(Self::all);
        all.find(|tier| tier.name() == name)
            .ok_or_else(|| UnknownTier(name.to_owned()))
    }
}

impl Serialize for Tier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Tier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}
