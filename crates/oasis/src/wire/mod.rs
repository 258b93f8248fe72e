//! OASIS documents exchanged between this host and others, and the events of a run.

pub mod events;
pub mod provider;
mod reading;
