//! The agent runtime: drives the pure conversation of `touchstone_agents::rules` against a model
//! endpoint.
//!
//! [`runtime::Runtime`] implements the `AgentRuntime` port, [`judge::RubricJudge`] the `Judge` port,
//! [`model::ModelCatalog`] the `Models` port, [`tools::ToolCatalog`] the `LiveTools` port. The
//! runtime handles what the pure rules must not depend on: concurrency per endpoint, deadlines,
//! retries, the clock for latencies, and the order in which events are recorded (OpenWOP
//! agent-evaluation; RFC 0077).

pub mod acting;
pub mod calls;
pub mod cli;
pub mod judge;
pub mod model;
pub mod ports;
pub mod runtime;
pub mod tools;
