//! The core versions that a profile is compatible with (OASIS PC 3.8, D3).

use std::cmp::Ordering;

use semver::Version;

/// `>=X`: at least X by the precedence of Semantic Versioning 2.0.0, within the same major version.
/// A bare version matches only versions of equal precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    version: Version,
    at_least: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a version range such as `>=1.0.0-rc1.5`")]
pub struct NotARange;

impl VersionRange {
    /// Reads a range.
    ///
    /// # Errors
    /// The text is not a version range.
    pub fn parse(text: &str) -> Result<Self, NotARange> {
        let text = text.trim();
        let (rest, at_least) = match text.strip_prefix(">=") {
            Some(rest) => (rest.trim_start(), true),
            None => (text, false),
        };
        let version = Version::parse(rest).map_err(|_| NotARange)?;
        Ok(Self { version, at_least })
    }

    /// Whether a version lies in the range; `false` for an invalid version.
    pub fn contains(&self, version: &str) -> bool {
        // Build metadata has no precedence.
        Version::parse(version).is_ok_and(|version| match version.cmp_precedence(&self.version) {
            Ordering::Equal => true,
            Ordering::Greater => self.at_least && version.major == self.version.major,
            Ordering::Less => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc1.5", true)]
    #[case(">= 1.0.0-rc1.5", "1.0.0-rc1.5", true)]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc1.10", true)]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc1.4", false)]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc1", false)]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc2", true)]
    #[case(">=1.0.0-rc1.5", "1.0.0-beta.9", false)]
    #[case(">=1.0.0-rc1.5", "1.0.0", true)]
    #[case(">=1.0.0-rc1.5", "1.3.0-alpha", true)]
    #[case(">=1.0.0-rc1.5", "1.0.0-rc1.5+build.7", true)]
    #[case(">=1.0.0-rc1.5", "2.0.0", false)]
    #[case(">=1.0.0-rc1.5", "2.0.0-rc1.5", false)]
    #[case(">=1.0.0-rc1.5", "0.9.0", false)]
    #[case(">=1.0.0-rc1.5", "1.0", false)]
    #[case(">=1.0.0-rc1.5", "", false)]
    #[case("1.2.3", "1.2.3", true)]
    #[case("1.2.3", "1.2.4", false)]
    fn a_version_range_stays_within_its_major_version(
        #[case] range: &str,
        #[case] version: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(
            VersionRange::parse(range).unwrap().contains(version),
            expected
        );
    }

    #[rstest]
    #[case("")]
    #[case(">=1.0")]
    #[case(">1.0.0")]
    #[case("latest")]
    fn malformed_version_ranges_are_rejected(#[case] text: &str) {
        assert_eq!(VersionRange::parse(text), Err(NotARange));
    }
}
