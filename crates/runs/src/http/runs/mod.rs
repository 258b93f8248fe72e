//! Runs: creating, reading and controlling them.

pub mod annotations;
pub mod bulk_cancel;
pub mod cancel;
pub mod create;
pub mod fork;
pub mod pause;
pub mod retry;
pub mod snapshot;
pub mod void;
