//! OpenWOP v1 documents.

pub mod annotation;
pub mod bundle;
pub mod channel;
pub mod deployment;
pub mod diff;
pub mod events;
pub mod invocation;

pub mod pack;
pub mod run;
pub mod suite;
pub mod summary;
pub mod workflow;
