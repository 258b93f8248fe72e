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
