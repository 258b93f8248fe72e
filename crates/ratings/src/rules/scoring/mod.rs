//! Scores of the dimensions and axes (AAAF performance, capability, composite).
//!
//! `selection` keeps the events that count, `task` folds them into task records, `performance` and
//! `capability` measure twelve dimensions, and `composite` combines them into two axes.

mod capability;
pub mod composite;
pub(super) mod digest;
pub mod dimension;
pub mod explanation;
pub(super) mod folded;
pub mod interval;
pub(super) mod mean;
pub mod measure;
mod performance;
pub(super) mod recency;
pub(super) mod selection;
pub(super) mod task;
pub mod tier;
pub mod weights;
