//! Owners of runs, and workers.

use std::sync::Arc;

use crate::ports::queues::Queues;
use crate::service::owner::Owner;
use crate::service::presence::Membership;
use crate::service::signals::ReplicaSignals;

mod assignment;
mod attempt;
pub mod contact;
pub mod owner;
pub mod presence;
mod server;
pub mod signals;
pub mod status;
pub mod worker;

/// What a host does on the message bus.
#[derive(Clone)]
pub struct Cluster {
    pub owner: Arc<Owner>,
    pub signals: Arc<ReplicaSignals>,
    pub membership: Arc<Membership>,
    pub queues: Arc<dyn Queues>,
}

#[cfg(test)]
pub(crate) mod tests;
