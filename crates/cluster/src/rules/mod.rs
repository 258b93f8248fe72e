//! The protocol between owners and workers as pure rules.

pub mod access;
pub mod announcements;
pub mod contact;
pub mod facts;
pub mod lane;
pub mod offer;
pub mod outbox;
pub mod pauses;
pub mod presence;
pub mod refusals;
pub mod silence;
pub mod subjects;
pub mod turns;
pub mod wire;
