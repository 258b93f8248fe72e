//! OpenWOP v1 documents, run events and compiled schemas. No rules, no IO.

pub mod annotation;
pub mod bundle;
pub mod channel;
pub mod deployment;
pub mod diff;
pub mod dsse;
pub mod events;
pub mod in_toto;
pub mod invocation;
pub mod pack;
pub mod run;
pub mod schema;
pub mod suite;
pub mod summary;
pub mod wire;
pub mod workflow;
