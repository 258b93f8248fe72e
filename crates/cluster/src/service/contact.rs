//! What this host has last heard, shared by all who listen to the message bus.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use touchstone_host::ports::clock::Clock;

use crate::rules::contact::Contact;

pub struct BusContact {
    clock: Arc<dyn Clock>,
    contact: Mutex<Contact>,
}

impl BusContact {
    pub(super) fn new(clock: Arc<dyn Clock>, hold: Duration) -> Self {
        let contact = Mutex::new(Contact::new(hold, clock.uptime()));
        Self { clock, contact }
    }

    fn contact(&self) -> MutexGuard<'_, Contact> {
        self.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bus_answered(&self) {
        self.contact().bus_answered(self.clock.uptime());
    }

    pub(super) fn heard_worker(&self) {
        self.contact().heard_worker(self.clock.uptime());
    }

    pub(super) fn heard_since(&self, now: Duration) -> Duration {
        self.contact().heard_since(now)
    }

    pub(super) fn is_cut_off(&self, since: Duration, now: Duration) -> bool {
        self.contact().is_cut_off(since, now)
    }
}
