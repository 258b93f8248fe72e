//! Owners of runs, and workers.

use std::sync::Arc;

use crate::cluster_metrics::ReplicaGauges;
use crate::ports::queues::Queues;
use crate::rules::presence::Capacity;
use crate::service::owner::Owner;
use crate::service::presence::Membership;
use crate::service::signals::ReplicaSignals;

mod assignment;
mod attempt;
pub mod contact;
mod limits;
pub mod owner;
pub mod presence;
mod server;
pub mod signals;
pub mod status;
mod turns;
pub mod worker;

/// What a host does on the message bus.
#[derive(Clone)]
pub struct Cluster {
    pub owner: Arc<Owner>,
    pub signals: Arc<ReplicaSignals>,
    pub membership: Arc<Membership>,
    pub queues: Arc<dyn Queues>,
    pub gauges: Arc<ReplicaGauges>,
}

impl Cluster {
    /// Sets the gauges to the state of now.
    pub fn measure(&self) {
        let capacity = Capacity::of(&self.membership.members());
        self.gauges.set(capacity, &self.owner.state());
    }
}

#[cfg(test)]
pub(crate) mod tests;
