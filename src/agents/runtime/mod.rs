//! The agent runtime: drives the pure conversation of `domain::agent` against a model endpoint.
//!
//! [`Runtime`] implements the `AgentRuntime` port, [`RubricJudge`] the `Judge` port,
//! [`model::ModelCatalog`] the `Models` port, [`tools::ToolCatalog`] the `LiveTools` port. The
//! runtime handles what the pure rules must not depend on: concurrency per endpoint, deadlines,
//! retries, the clock for latencies, and the order in which events are recorded (OpenWOP
//! agent-evaluation; RFC 0077).

pub mod acting;
pub mod calls;
pub mod judge;
pub mod model;
pub mod runtime;
pub mod tools;

pub use crate::agents::runtime::judge::RubricJudge;
pub use crate::agents::runtime::runtime::Runtime;
