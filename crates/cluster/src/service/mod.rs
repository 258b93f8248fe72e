//! Owners of runs, and workers.

use std::sync::Arc;

use crate::cluster_metrics::ReplicaGauges;
use crate::ports::queues::Queues;
use crate::rules::presence::{Capacity, ReplicaState, Unserved};
use crate::service::owner::Owner;
use crate::service::presence::Membership;
use crate::service::signals::ReplicaSignals;

mod assignment;
mod attempt;
pub mod contact;
mod limits;
pub mod owner;
pub mod presence;
mod room;
mod server;
pub mod signals;
pub mod status;
mod turns;
mod watching;
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
        self.gauges.set(capacity, &self.state());
    }

    /// What this replica announces.
    pub fn state(&self) -> ReplicaState {
        let members = self.membership.members();
        // A worker that was not heard may serve a task.
        let knows_all = self.membership.knows_all();
        self.owner.state(|model, needs| {
            let unserved = Unserved::of(&members, model, needs);
            unserved.filter(|_| knows_all)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
