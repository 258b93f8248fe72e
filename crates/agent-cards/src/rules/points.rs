//! Exact points: sums are fractions of integers, and a shown value is rounded once, half up to two
//! decimals.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Hundredths of a point, as shown and rated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Points(u64);

impl Points {
    /// An integer number of points.
    pub const fn whole(points: u64) -> Self {
        Self(points * 100)
    }

    /// `numerator / denominator`, rounded half up; 0 for 0/0.
    pub const fn ratio(numerator: u64, denominator: u64) -> Self {
        if denominator == 0 {
            return Self(0);
        }
        Self((numerator * 200 + denominator) / (denominator * 2))
    }

    /// A number from 0 to 100, rounded to hundredths: for thresholds.
    pub fn of_number(points: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 10,000, and not negative"
        )]
        (0.0..=100.0)
            .contains(&points)
            .then(|| Self((points * 100.0).round() as u64))
    }

    pub const fn hundredths(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{whole}"),
            (_, 0) => write!(f, "{whole}.{}", rest / 10),
            _ => write!(f, "{whole}.{rest:02}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a score must be a number from 0 to 100")]
pub struct NotAScore;

impl FromStr for Points {
    type Err = NotAScore;

    fn from_str(text: &str) -> Result<Self, NotAScore> {
        text.parse().ok().and_then(Self::of_number).ok_or(NotAScore)
    }
}

impl Serialize for Points {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(100) {
            return serializer.serialize_u64(self.0 / 100);
        }
        // The double nearest to a number with two decimals is printed with these two decimals.
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 hundredths")]
        serializer.serialize_f64(self.0 as f64 / 100.0)
    }
}

impl<'de> Deserialize<'de> for Points {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of_number(f64::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(NotAScore))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::sixths(480, 9, "53.33")]
    #[case::two_thirds(60, 9, "6.67")]
    #[case::half_goes_up(1, 200, "0.01")]
    #[case::below_half(1, 201, "0")]
    #[case::one_decimal(154, 5, "30.8")]
    #[case::whole(900, 9, "100")]
    #[case::of_nothing(1, 0, "0")]
    fn a_fraction_is_rounded_half_up_to_two_decimals(
        #[case] numerator: u64,
        #[case] denominator: u64,
        #[case] shown: &str,
    ) {
        let points = Points::ratio(numerator, denominator);
        assert_eq!(points.to_string(), shown);
        assert_eq!(serde_json::to_string(&points).unwrap(), shown);
    }

    #[rstest]
    #[case("95", Some(Points::whole(95)))]
    #[case("93.33", Some(Points::ratio(9333, 100)))]
    #[case("0", Some(Points::default()))]
    #[case("100", Some(Points::whole(100)))]
    #[case("100.01", None)]
    #[case("-1", None)]
    #[case("NaN", None)]
    #[case("many", None)]
    fn a_threshold_is_a_number_from_0_to_100(#[case] text: &str, #[case] points: Option<Points>) {
        assert_eq!(text.parse().ok(), points);
    }
}
