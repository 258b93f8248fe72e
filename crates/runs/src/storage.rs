//! Storage of a tenant: quotas, and when a run may be deleted.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

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
}

impl Retention {
    /// Runs created before this time are due for deletion; `None` if runs are kept.
    pub fn due_before(&self, now: Timestamp) -> Option<Timestamp> {
        let age = SignedDuration::from_hours(i64::from(self.runs_days) * 24);
        (self.runs_days > 0).then(|| now.checked_sub(age).unwrap_or(Timestamp::MIN))
    }
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

    #[test]
    fn retention_of_zero_days_keeps_runs() {
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        assert_eq!(Retention::default().due_before(now), None);
        let month = Retention { runs_days: 30 };
        let expected = "2026-10-24T00:00:00Z".parse().unwrap();
        assert_eq!(month.due_before(now), Some(expected));
    }
}
