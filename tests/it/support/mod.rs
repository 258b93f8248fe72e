//! Code shared by several areas of the tests.

pub mod asyncapi;
pub mod badges;
pub mod clock;
pub mod evidence;
pub mod host_keys;
pub mod line;
pub mod openapi;
pub mod packs;
pub mod postgres;
pub mod published;
pub mod reference;
mod schemas;
pub mod vectors;

/// A pause between two questions to a host. Questions without one take the processor from the host
/// and are refused above 600 a minute.
pub async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}
