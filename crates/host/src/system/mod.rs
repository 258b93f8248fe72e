//! The system's clock, randomness, key files, and the limits and usage of the process.

pub mod host_key;
pub mod open_files;
pub mod private_files;
pub mod process_usage;
pub mod signing_key;

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use crate::ports::clock::Clock;
use crate::ports::ids::Ids;

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::expect_used, reason = "rounding keeps a time in range")]
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "the clock of the host")]
        let now = Timestamp::now();
        // The stores keep microseconds; a stored value must equal the value that was shown.
        Timestamp::from_microsecond(now.as_microsecond()).expect("a time rounds to a valid time")
    }

    #[expect(
        clippy::expect_used,
        reason = "these clocks count from the start of the machine"
    )]
    fn uptime(&self) -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: ClockId = ClockId::Boottime;
        // On other systems this clock counts sleep itself, or no clock does.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: ClockId = ClockId::Monotonic;
        Duration::try_from(clock_gettime(CLOCK)).expect("the uptime is not negative")
    }
}

/// Time-ordered ids and secrets from the operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn mint(&self, prefix: &str) -> String {
        let mut buffer = [0; uuid::fmt::Simple::LENGTH];
        let unique = Uuid::now_v7().simple().encode_lower(&mut buffer);
        let mut id = String::with_capacity(prefix.len() + 1 + unique.len());
        id.push_str(prefix);
        id.push('_');
        id.push_str(unique);
        id
    }

    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn secret(&self) -> [u8; 32] {
        rand::random()
    }
}
