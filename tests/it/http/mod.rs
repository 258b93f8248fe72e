//! The OpenWOP API, through the real router; every response is checked against the API description.

mod agent_cards;
mod contract;
pub mod deployments;
mod keys;
mod majors;
mod registry;
pub mod runs;
mod server;
mod streams;
pub mod support;
mod webhooks;
