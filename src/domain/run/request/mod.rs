//! `POST /v1/runs`: from a body to a run with every reference pinned.
//!
//! Two steps, both pure: [`parse`] checks the shape, [`plan`] what it asks for. Every refusal names the field and the remedy.

mod fields;
mod parse;
mod plan;
#[cfg(test)]
mod tests;

pub use parse::{CreateRun, parse};
pub use plan::{AgentFacts, BaselineFacts, HostLimits, SCORED_MODES, SuiteFacts, plan};
