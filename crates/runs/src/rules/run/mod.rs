//! A run: its immutable record, the fold of its log, its snapshot.

pub mod annotation;
pub mod budget_extension;
pub mod bundle;
pub mod cursor;
pub mod deciders;
pub mod diff;
pub mod effects;
pub mod fold;
pub mod fork;
pub mod listing;
pub mod record;
pub mod request;
pub mod retry;
pub mod search;
pub mod snapshot;
pub mod task_ids;
pub mod trials;
