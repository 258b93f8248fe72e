//! Webhook deliveries to a real receiver, on both engines.

mod delivery;
pub mod receiver;
