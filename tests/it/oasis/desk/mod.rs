//! Whole evaluations through public interfaces: scripted agents, providers on loopback, hosts on
//! both databases.
//!
//! Two desks: ours, whose provider is the example in this repository, and the Records Desk of the
//! reference, where it is available.

pub mod adversarial;
pub mod agents;
mod disclosure;
pub mod evaluation;
mod expected;
mod faults;
mod gates;
mod lies;
pub mod packs;
mod preflight;
mod reports;
mod restart;
mod shipped;

#[path = "../../../../examples/oasis_provider/provider/mod.rs"]
pub mod provider;
