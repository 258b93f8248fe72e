//! The bands of the three dimensions, ordered from worst to best, so that bands can be compared.

use serde::{Deserialize, Serialize};

use super::points::Points;

macro_rules! bands {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum $name { $($(#[$of])* $variant),+ }

        impl $name {
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }
        }
    };
}

bands! {
    ComplianceRating {
        /// Below 60.
        Poor = "Poor",
        /// From 60.
        Fair = "Fair",
        /// From 75.
        Good = "Good",
        /// From 90.
        Excellent = "Excellent",
        /// 100.
        Perfect = "Perfect",
    }
}

bands! {
    TrustRating {
        /// Below 20.
        Untrusted = "Untrusted",
        /// From 20.
        LowTrust = "Low Trust",
        /// From 40.
        ModerateTrust = "Moderate Trust",
        /// From 60.
        Trusted = "Trusted",
        /// From 80.
        HighlyTrusted = "Highly Trusted",
    }
}

bands! {
    AvailabilityRating {
        /// The agent was not tested.
        NotTested = "Not Tested",
        /// Below 40.
        Unavailable = "Unavailable",
        /// From 40.
        Unstable = "Unstable",
        /// From 60.
        Degraded = "Degraded",
        /// From 80.
        Available = "Available",
        /// From 95.
        FullyAvailable = "Fully Available",
    }
}

impl ComplianceRating {
    /// The band of a rounded total.
    pub fn of(total: Points) -> Self {
        match total.hundredths() {
            10_000.. => Self::Perfect,
            9_000.. => Self::Excellent,
            7_500.. => Self::Good,
            6_000.. => Self::Fair,
            _ => Self::Poor,
        }
    }
}

impl TrustRating {
    /// The band of a rounded total.
    pub fn of(total: Points) -> Self {
        match total.hundredths() {
            8_000.. => Self::HighlyTrusted,
            6_000.. => Self::Trusted,
            4_000.. => Self::ModerateTrust,
            2_000.. => Self::LowTrust,
            _ => Self::Untrusted,
        }
    }
}

impl AvailabilityRating {
    /// The band of a rounded total.
    pub fn of(total: Points) -> Self {
        match total.hundredths() {
            9_500.. => Self::FullyAvailable,
            8_000.. => Self::Available,
            6_000.. => Self::Degraded,
            4_000.. => Self::Unstable,
            _ => Self::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(10_000, "PERFECT", "HIGHLY_TRUSTED", "FULLY_AVAILABLE")]
    #[case(9_999, "EXCELLENT", "HIGHLY_TRUSTED", "FULLY_AVAILABLE")]
    #[case(9_500, "EXCELLENT", "HIGHLY_TRUSTED", "FULLY_AVAILABLE")]
    #[case(9_499, "EXCELLENT", "HIGHLY_TRUSTED", "AVAILABLE")]
    #[case(9_000, "EXCELLENT", "HIGHLY_TRUSTED", "AVAILABLE")]
    #[case(8_999, "GOOD", "HIGHLY_TRUSTED", "AVAILABLE")]
    #[case(8_000, "GOOD", "HIGHLY_TRUSTED", "AVAILABLE")]
    #[case(7_999, "GOOD", "TRUSTED", "DEGRADED")]
    #[case(7_500, "GOOD", "TRUSTED", "DEGRADED")]
    #[case(7_499, "FAIR", "TRUSTED", "DEGRADED")]
    #[case(6_000, "FAIR", "TRUSTED", "DEGRADED")]
    #[case(5_999, "POOR", "MODERATE_TRUST", "UNSTABLE")]
    #[case(4_000, "POOR", "MODERATE_TRUST", "UNSTABLE")]
    #[case(3_999, "POOR", "LOW_TRUST", "UNAVAILABLE")]
    #[case(2_000, "POOR", "LOW_TRUST", "UNAVAILABLE")]
    #[case(1_999, "POOR", "UNTRUSTED", "UNAVAILABLE")]
    fn a_band_begins_at_its_lower_end(
        #[case] hundredths: u64,
        #[case] compliance: &str,
        #[case] trust: &str,
        #[case] availability: &str,
    ) {
        let total = Points::ratio(hundredths, 100);
        let codes = serde_json::json!([
            ComplianceRating::of(total),
            TrustRating::of(total),
            AvailabilityRating::of(total)
        ]);
        assert_eq!(codes, serde_json::json!([compliance, trust, availability]));
    }

    #[test]
    fn bands_are_ordered_from_worst_to_best() {
        assert!(ComplianceRating::Poor < ComplianceRating::Perfect);
        assert!(TrustRating::LowTrust < TrustRating::ModerateTrust);
        assert!(AvailabilityRating::Unstable < AvailabilityRating::Degraded);
    }
}
