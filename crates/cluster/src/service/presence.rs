//! Announces this process, and listens to the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::clock::Clock;
use tracing::{debug, info, warn};

use crate::ports::announcements::{Announced, Announcements};
use crate::ports::bus::BusError;
use crate::rules::announcements::{Order, Topic};
use crate::rules::presence::{EVERY, Member, Members, Presence};
use crate::rules::subjects::is_token;
use crate::rules::wire;
use crate::service::contact::BusContact;

/// Pause after a fault of the bus.
const AFTER_FAULT: Duration = Duration::from_secs(1);
/// How long a worker may take to confirm that it drains. It announces itself at once.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Announces a process until the future is dropped.
pub async fn announce(bus: &dyn Announcements, name: &str, presence: impl Fn() -> Presence) {
    loop {
        announce_once(bus, name, &presence()).await;
        tokio::time::sleep(EVERY).await;
    }
}

/// Announces a process.
pub async fn announce_once(bus: &dyn Announcements, name: &str, presence: &Presence) {
    let sent = match wire::write(presence) {
        Ok(message) => bus.announce(Topic::Presence, name, message).await,
        Err(cause) => {
            debug!(%cause, "the presence of this process was not sent");
            return;
        }
    };
    if let Err(cause) = sent {
        debug!(%cause, "the presence of this process was not sent");
    }
}

/// Follows the orders of hosts to a worker until the future is dropped: `drain` is cancelled if it
/// is to end.
pub async fn follow_orders(bus: &dyn Announcements, worker: &str, drain: &CancellationToken) {
    let mut is_warned = false;
    loop {
        match bus.orders(worker).await {
            Ok(mut orders) => {
                is_warned = false;
                while let Some(message) = orders.recv().await {
                    follow(worker, &message, drain);
                }
            }
            Err(cause) if !is_warned => {
                is_warned = true;
                warn!(%cause, "hosts cannot drain this worker until it can subscribe; SIGTERM drains it");
            }
            Err(_) => {}
        }
        tokio::time::sleep(AFTER_FAULT).await;
    }
}

fn follow(worker: &str, message: &[u8], drain: &CancellationToken) {
    match wire::read::<Order>(message) {
        Ok(Order::Drain) if drain.is_cancelled() => {}
        Ok(Order::Drain) => {
            info!(
                worker,
                "an operator drains the worker; it takes no further tasks"
            );
            drain.cancel();
        }
        Err(cause) => debug!(worker, %cause, "an order of a host was ignored"),
    }
}

/// The replicas and workers that this process hears.
pub struct Membership {
    bus: Arc<dyn Announcements>,
    clock: Arc<dyn Clock>,
    contact: Arc<BusContact>,
    members: Mutex<Members>,
    /// Notifies when a process was heard.
    heard: Notify,
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
            heard: Notify::new(),
        }
    }

    fn heard(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that were heard lately, sorted by name.
    pub fn members(&self) -> Vec<Member> {
        self.heard().current(self.clock.uptime())
    }

    /// Number of replicas and workers beyond [`Self::members`].
    pub fn further_members(&self) -> usize {
        self.heard().further(self.clock.uptime())
    }

    /// Whether each replica and worker that takes part was heard: not directly after the start, and
    /// not while the bus is silent.
    pub fn knows_all(&self) -> bool {
        self.heard().knows_all(self.clock.uptime())
    }

    /// Asks a worker to take no further tasks and to end after those that it has. Returns whether
    /// it has confirmed that.
    ///
    /// # Errors
    /// [`BusError::NoResponder`] if no worker of this name receives orders.
    pub async fn drain(&self, worker: &str) -> Result<bool, BusError> {
        if !is_token(worker) {
            return Err(BusError::NoResponder);
        }
        let message = wire::write(&Order::Drain);
        let message = message.map_err(|cause| BusError::Failed(cause.to_string()))?;
        self.bus.order(worker, message).await?;
        let confirmed = async {
            loop {
                let heard = self.heard.notified();
                if self.heard().is_draining(worker) {
                    return;
                }
                heard.await;
            }
        };
        Ok(tokio::time::timeout(CONFIRMED_WITHIN, confirmed)
            .await
            .is_ok())
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
            self.heard().arrived(self.clock.uptime());
            let Announced::Message { sender, message } = announced else {
                continue;
            };
            match wire::read::<Presence>(&message) {
                Ok(presence) => {
                    self.heard().hear(&sender, presence, self.clock.uptime());
                    self.heard.notify_waiters();
                }
                Err(cause) => debug!(sender, %cause, "a presence could not be read"),
            }
        }
    }
}
