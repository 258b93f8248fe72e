//! Interfaces to what is outside.

pub mod announcements;
pub mod bus;
pub mod queues;
