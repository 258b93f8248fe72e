//! Storage of a tenant: quotas, and when a run may be deleted.

use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ports::storage::ContentKept;

/// How much one tenant may store. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Installed pack versions.
    pub max_packs: u64,
    /// Imported suites and suites of packs.
    pub max_suites: u64,
    /// Runs, active or ended. Deleted runs do not count.
    pub max_runs: u64,
    /// Bytes of pack archives, suite documents, runs and their logs together.
    pub max_bytes: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            max_packs: 1000,
            max_suites: 2000,
            max_runs: 1_000_000,
            max_bytes: 20 << 30,
        }
    }
}

/// The current storage of a tenant, or an addition to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub packs: u64,
    pub suites: u64,
    pub runs: u64,
    /// Bytes of pack archives, suite documents, runs and their logs.
    pub bytes: u64,
}

/// A quota that an addition would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The setting, such as `max_packs`.
    pub quota: &'static str,
    /// Plural name of the counted items.
    pub unit: &'static str,
    /// The value of the setting.
    pub limit: u64,
    /// The current usage.
    pub used: u64,
}

impl Quotas {
    /// The first quota that `used` plus `adding` exceeds. A quota that is already exceeded rejects
    /// only what adds to it.
    pub fn exceeded(&self, used: &Usage, adding: &Usage) -> Option<Exceeded> {
        [
            (
                "max_packs",
                "packs",
                self.max_packs,
                used.packs,
                adding.packs,
            ),
            (
                "max_suites",
                "suites",
                self.max_suites,
                used.suites,
                adding.suites,
            ),
            ("max_runs", "runs", self.max_runs, used.runs, adding.runs),
            (
                "max_bytes",
                "bytes",
                self.max_bytes,
                used.bytes,
                adding.bytes,
            ),
        ]
        .into_iter()
        .find(|&(_, _, limit, used, adding)| {
            limit > 0 && adding > 0 && used.saturating_add(adding) > limit
        })
        .map(|(quota, unit, limit, used, _)| Exceeded {
            quota,
            unit,
            limit,
            used,
        })
    }
}

/// Automatic deletion of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Age in days, from creation, at which an ended run is deleted. 0 keeps runs until a request
    /// deletes them.
    pub runs_days: u32,
    /// Age in days, from creation, at which the log of an ended run is compressed. 0 compresses none.
    pub compress_days: u32,
}

impl Retention {
    /// Runs created before this time are due for deletion; `None` if runs are kept.
    pub fn due_before(&self, now: Timestamp) -> Option<Timestamp> {
        days_before(now, self.runs_days)
    }

    /// The logs of runs created before this time are due for compression; `None` if none are.
    pub fn compressed_before(&self, now: Timestamp) -> Option<Timestamp> {
        days_before(now, self.compress_days)
    }
}

fn days_before(now: Timestamp, days: u32) -> Option<Timestamp> {
    let age = SignedDuration::from_hours(i64::from(days) * 24);
    (days > 0).then(|| now.checked_sub(age).unwrap_or(Timestamp::MIN))
}

/// How long the logs of eval runs keep task content after their end. Scores, statistics and digests
/// stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSettings {
    pub retain: ContentRetention,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentRetention {
    /// Until the run is deleted.
    #[default]
    Always,
    /// Only that of tasks that did not pass.
    Failures,
    /// This many days from the run's creation.
    Days(u16),
    /// Until the run has ended.
    Never,
}

impl ContentRetention {
    /// Whether task content is deleted when runs end.
    pub const fn ends_with_runs(self) -> bool {
        matches!(self, Self::Failures | Self::Never)
    }

    /// What logs keep of runs created before a time; `None` if they keep everything.
    pub fn due(self, now: Timestamp) -> Option<(ContentKept, Timestamp)> {
        match self {
            Self::Always => None,
            Self::Failures => Some((ContentKept::Failures, now)),
            Self::Never => Some((ContentKept::None, now)),
            Self::Days(days) => {
                let age = SignedDuration::from_hours(i64::from(days) * 24);
                let before = now.checked_sub(age).unwrap_or(Timestamp::MIN);
                Some((ContentKept::None, before))
            }
        }
    }
}

impl<'de> Deserialize<'de> for ContentRetention {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Days(u64),
            Word(String),
            Other(serde::de::IgnoredAny),
        }
        let form = Form::deserialize(from)?;
        let days = match &form {
            Form::Days(days) => Some(*days),
            // From an environment variable.
            Form::Word(word) => word.parse().ok(),
            Form::Other(_) => None,
        };
        match (&form, days) {
            (_, Some(days)) => u16::try_from(days)
                .ok()
                .filter(|days| *days > 0)
                .map(Self::Days)
                .ok_or_else(|| D::Error::custom(format!("{days} days are not 1 to {}", u16::MAX))),
            (Form::Word(word), None) if word == "always" => Ok(Self::Always),
            (Form::Word(word), None) if word == "failures" => Ok(Self::Failures),
            (Form::Word(word), None) if word == "never" => Ok(Self::Never),
            (Form::Word(word), None) => Err(D::Error::custom(format!(
                "`{word}` is not `always`, `failures`, `never` or a number of days"
            ))),
            (Form::Days(_) | Form::Other(_), None) => Err(D::Error::custom(format!(
                "must be `always`, `failures`, `never` or a number of days, 1 to {}",
                u16::MAX
            ))),
        }
    }
}

/// How much is stored, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageLimits {
    /// Of each tenant.
    pub quotas: Quotas,
    pub retention: Retention,
    pub content: ContentRetention,
}

/// A legal hold: neither requests nor retention delete the run until the hold is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LegalHold {
    /// The principal who placed it.
    pub placed_by: String,
    pub placed_at: Timestamp,
    /// The reason, 1 to 500 characters.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const QUOTAS: Quotas = Quotas {
        max_packs: 2,
        max_suites: 0,
        max_runs: 5,
        max_bytes: 100,
    };

    fn usage(packs: u64, suites: u64, runs: u64, bytes: u64) -> Usage {
        Usage {
            packs,
            suites,
            runs,
            bytes,
        }
    }

    #[rstest]
    #[case(usage(1, 0, 0, 50), usage(1, 3, 0, 50), None)]
    #[case(usage(2, 0, 0, 0), usage(1, 0, 0, 1), Some("max_packs"))]
    #[case(usage(0, 9_999, 0, 0), usage(0, 1, 0, 0), None)]
    #[case(usage(0, 0, 5, 0), usage(0, 0, 1, 0), Some("max_runs"))]
    #[case(usage(0, 0, 0, 99), usage(0, 0, 0, 2), Some("max_bytes"))]
    #[case(usage(0, 0, 0, u64::MAX), usage(0, 0, 0, u64::MAX), Some("max_bytes"))]
    #[case(usage(9, 0, 9, 0), usage(0, 1, 0, 10), None)]
    fn an_addition_is_refused_only_by_quotas_that_it_increases(
        #[case] used: Usage,
        #[case] adding: Usage,
        #[case] expected: Option<&str>,
    ) {
        let exceeded = QUOTAS.exceeded(&used, &adding);
        assert_eq!(exceeded.map(|exceeded| exceeded.quota), expected);
    }

    #[rstest::rstest]
    #[case(r#"{"retain": "always"}"#, Some(ContentRetention::Always))]
    #[case(r#"{"retain": "failures"}"#, Some(ContentRetention::Failures))]
    #[case(r#"{"retain": "never"}"#, Some(ContentRetention::Never))]
    #[case(r#"{"retain": 30}"#, Some(ContentRetention::Days(30)))]
    #[case(r#"{"retain": "30"}"#, Some(ContentRetention::Days(30)))]
    #[case(r#"{"retain": 0}"#, None)]
    #[case(r#"{"retain": -1}"#, None)]
    #[case(r#"{"retain": "sometimes"}"#, None)]
    #[case(r#"{"keep": "never"}"#, None)]
    fn content_retention_is_a_word_or_a_number_of_days(
        #[case] text: &str,
        #[case] expected: Option<ContentRetention>,
    ) {
        let found = serde_json::from_str::<ContentSettings>(text);
        assert_eq!(found.ok().map(|it| it.retain), expected);
    }

    #[test]
    fn a_retention_of_another_type_names_the_possible_values() {
        for value in ["-1", "1.5", "true"] {
            let fault = serde_json::from_str::<ContentRetention>(value).unwrap_err();
            assert!(fault.to_string().contains("`never`"), "{value}: {fault}");
        }
    }

    #[test]
    fn content_is_due_after_its_days() {
        let now: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let before = "2026-11-22T00:00:00Z".parse().unwrap();
        let due = ContentRetention::Days(2).due(now);
        assert_eq!(due, Some((ContentKept::None, before)));
        assert_eq!(ContentRetention::Always.due(now), None);
    }

    #[test]
    fn zero_days_keep_runs_as_they_are() {
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        assert_eq!(Retention::default().due_before(now), None);
        let month = Retention {
            runs_days: 30,
            compress_days: 7,
        };
        let week = "2026-11-16T00:00:00Z".parse().unwrap();
        assert_eq!(month.compressed_before(now), Some(week));
        assert_eq!(Retention::default().compressed_before(now), None);
        let expected = "2026-10-24T00:00:00Z".parse().unwrap();
        assert_eq!(month.due_before(now), Some(expected));
    }
}
