//! Runs.

pub mod annotations;
pub mod bulk_cancel;
pub mod cancel;
pub mod create;
pub mod debug_bundle;
pub mod diff;
pub mod eval_summary;
pub mod events;
pub mod fork;
pub mod pause;
pub mod poll;
pub mod snapshot;
