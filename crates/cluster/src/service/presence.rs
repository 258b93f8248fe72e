//! Announces this process, and listens to the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::clock::Clock;
use tracing::{debug, warn};

use crate::ports::announcements::{Announced, Announcements};
use crate::rules::announcements::Topic;
use crate::rules::presence::{EVERY, Member, Members, Presence};
use crate::rules::wire;
use crate::service::contact::BusContact;

/// Pause after a fault of the bus.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// Announces a process until the future is dropped.
pub async fn announce(bus: &dyn Announcements, name: &str, presence: impl Fn() -> Presence) {
    loop {
        let sent = match wire::write(&presence()) {
            Ok(message) => bus.announce(Topic::Presence, name, message).await,
            Err(cause) => {
                debug!(%cause, "the presence of this process was not sent");
                Ok(())
            }
        };
        if let Err(cause) = sent {
            debug!(%cause, "the presence of this process was not sent");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The replicas and workers that this process hears.
pub struct Membership {
    bus: Arc<dyn Announcements>,
    clock: Arc<dyn Clock>,
    contact: Arc<BusContact>,
    members: Mutex<Members>,
}

impl Membership {
    /// `contact` is told of everything that is heard, the announcements of this process included.
    pub fn new(
        bus: Arc<dyn Announcements>,
        clock: Arc<dyn Clock>,
        contact: Arc<BusContact>,
    ) -> Self {
        Self {
            bus,
            clock,
            contact,
            members: Mutex::default(),
        }
    }

    /// All that were heard lately, sorted by name.
    pub fn members(&self) -> Vec<Member> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.current(self.clock.uptime())
    }

    /// Number of replicas and workers beyond [`Self::members`].
    pub fn further_members(&self) -> usize {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.further(self.clock.uptime())
    }

    /// Announces this process and listens until `stop` is cancelled.
    pub async fn take_part(
        &self,
        name: &str,
        presence: impl Fn() -> Presence,
        stop: &CancellationToken,
    ) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = announce(&*self.bus, name, presence) => {}
            () = self.listen() => {}
        }
    }

    async fn listen(&self) {
        loop {
            match self.bus.listen(Topic::Presence).await {
                Ok(announced) => self.hear_all(announced).await,
                Err(cause) => warn!(%cause, "cannot listen to workers and other replicas"),
            }
            tokio::time::sleep(AFTER_FAULT).await;
        }
    }

    async fn hear_all(&self, mut announced: mpsc::Receiver<Announced>) {
        while let Some(announced) = announced.recv().await {
            self.contact.bus_answered();
            let Announced::Message { sender, message } = announced else {
                continue;
            };
            match wire::read::<Presence>(&message) {
                Ok(presence) => {
                    let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
                    members.hear(&sender, presence, self.clock.uptime());
                }
                Err(cause) => debug!(sender, %cause, "a presence could not be read"),
            }
        }
    }
}
