//! Owners of runs, and workers.

use std::sync::Arc;

use crate::service::owner::Owner;
use crate::service::signals::ReplicaSignals;

mod assignment;
mod attempt;
pub mod owner;
mod server;
pub mod signals;
pub mod worker;

/// What a host does on the message bus.
#[derive(Clone)]
pub struct Cluster {
    pub owner: Arc<Owner>,
    pub signals: Arc<ReplicaSignals>,
}

#[cfg(test)]
mod tests;
