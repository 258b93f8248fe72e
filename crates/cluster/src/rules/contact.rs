//! What an owner knows of the message bus and of all workers from what arrives.
//!
//! Times are those of the owner's monotonic clock.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Contact {
    hold: Duration,
    /// When the bus last delivered or confirmed something.
    bus: Duration,
    /// When a worker was last heard of.
    workers: Duration,
    /// Since when workers are heard of without a long silence.
    since: Duration,
}

impl Contact {
    pub const fn new(hold: Duration, now: Duration) -> Self {
        Self {
            hold,
            bus: now,
            workers: now,
            since: now,
        }
    }

    /// The bus has delivered or confirmed something.
    pub fn bus_answered(&mut self, now: Duration) {
        self.bus = self.bus.max(now);
    }

    /// A worker has sent something.
    pub fn heard_worker(&mut self, now: Duration) {
        self.since = self.heard_since(now);
        self.workers = self.workers.max(now);
        self.bus_answered(now);
    }

    /// Since when workers are heard of: `now` if all are silent. Workers with tasks send heartbeats
    /// each second, so a silence of half a hold (at least 1.5 s) of all of them is a fault of the bus
    /// or of this process, or there is only one.
    pub fn heard_since(&self, now: Duration) -> Duration {
        match now > self.workers.saturating_add(self.hold / 2) {
            true => now,
            false => self.since,
        }
    }

    /// Whether this host should leave its runs to another one: it offers tasks since `since`, and
    /// the bus has been silent for two holds, in which every worker has lost its tasks.
    pub fn is_cut_off(&self, since: Duration, now: Duration) -> bool {
        now >= self.bus.max(since).saturating_add(self.hold * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silence_of_half_a_hold_ends_the_time_in_which_workers_are_heard_of() {
        let mut contact = Contact::new(HOLD, at(0));
        for second in 1..=10 {
            contact.heard_worker(at(second));
        }
        assert_eq!(contact.heard_since(at(14)), at(0));
        assert_eq!(contact.heard_since(at(15)), at(15));
        contact.heard_worker(at(20));
        assert_eq!(contact.heard_since(at(21)), at(20));
    }

    #[test]
    fn a_host_is_cut_off_after_two_holds_without_the_bus() {
        let mut contact = Contact::new(HOLD, at(0));
        contact.heard_worker(at(1));
        assert!(!contact.is_cut_off(at(0), at(16)));
        assert!(contact.is_cut_off(at(0), at(17)));
        assert!(!contact.is_cut_off(at(10), at(25)), "its tasks are younger");
        contact.bus_answered(at(20));
        assert!(!contact.is_cut_off(at(0), at(35)));
        assert!(contact.is_cut_off(at(0), at(36)));
    }
}
