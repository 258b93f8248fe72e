//! A clock that moves only on request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use touchstone_host::ports::clock::Clock;
use touchstone_host::system::SystemClock;

pub struct Told(Mutex<Timestamp>);

impl Told {
    pub fn at_rest() -> Arc<Self> {
        Self::at(crate::store::at(0))
    }

    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(now)))
    }

    pub fn advance(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

impl Clock for Told {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}
