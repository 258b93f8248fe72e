//! OpenWOP v1 documents and their compiled schemas. No rules, no IO.

pub mod annotation;
pub mod bundle;
pub mod channel;
pub mod deployment;
pub mod diff;
pub mod in_toto;
pub mod invocation;
pub mod pack;
pub mod run;
pub mod schema;
pub mod suite;
pub mod summary;
pub mod workflow;
