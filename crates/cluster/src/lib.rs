//! Workers: processes that execute the agent invocations of a host's eval runs (ADR 66).
//!
//! The host that executes a run stays its owner: it numbers the attempts at a task, keeps the
//! budget, judges, scores and writes the log. A worker executes one attempt with the agent runtime
//! of this version and reports its facts. The message bus between them may lose, repeat and reorder
//! messages.

pub mod cluster_metrics;
pub mod config;
#[cfg(test)]
mod memory;
pub mod nats;
pub mod ports;
pub mod rules;
pub mod service;
#[cfg(test)]
mod simulation;
