//! The state of the database and its disk, for the operator of the host.

use jiff::SignedDuration;

use crate::ports::clock::Clock;
use crate::store::database::Database;
use crate::store::space::DiskSpace;

/// Clocks that differ by more confuse the order of what replicas record.
const LARGEST_DIFFERENCE: SignedDuration = SignedDuration::from_secs(2);
/// Free space, in bytes, below which a disk is nearly full.
const LEAST_FREE: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseHealth {
    pub engine: &'static str,
    /// In bytes; `None` if the database does not answer.
    pub size: Option<u64>,
    /// `None` on PostgreSQL.
    pub disk: Option<DiskSpace>,
    /// By how much the clock of the database is ahead of the host's clock; `None` if the database
    /// does not answer.
    pub clock_ahead: Option<SignedDuration>,
}

impl DatabaseHealth {
    pub async fn of(database: &Database, clock: &dyn Clock) -> Self {
        let time = database.time().await.ok();
        Self {
            engine: database.engine_name(),
            size: database.size().await.ok(),
            disk: database.disk(),
            clock_ahead: time.map(|it| it.duration_since(clock.now())),
        }
    }

    /// Whether the clocks of database and host agree.
    pub fn clocks_agree(&self) -> bool {
        self.clock_ahead
            .is_none_or(|it| it.abs() <= LARGEST_DIFFERENCE)
    }
}

impl DiskSpace {
    /// Whether the disk is nearly full: less than 1 GiB and less than a tenth of it is free.
    pub fn is_low(self) -> bool {
        self.free < LEAST_FREE && self.free < self.total / 10
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1 << 20, 100 << 30, true)]
    #[case(2 << 30, 100 << 30, false)]
    #[case(512 << 20, 1 << 30, false)]
    fn a_disk_is_nearly_full(#[case] free: u64, #[case] total: u64, #[case] expected: bool) {
        assert_eq!(DiskSpace { free, total }.is_low(), expected);
    }

    #[rstest]
    #[case(None, true)]
    #[case(Some(-2), true)]
    #[case(Some(3), false)]
    #[case(Some(-3), false)]
    fn clocks_agree_within_two_seconds(#[case] ahead: Option<i64>, #[case] expected: bool) {
        let health = DatabaseHealth {
            engine: "SQLite",
            size: None,
            disk: None,
            clock_ahead: ahead.map(SignedDuration::from_secs),
        };
        assert_eq!(health.clocks_agree(), expected);
    }
}
