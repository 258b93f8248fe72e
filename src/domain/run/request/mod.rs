//! `POST /v1/runs`: from a body to a run with every reference pinned.
//!
//! Two steps, both pure: [`parse`] checks the shape, [`plan`] what it asks for. Every refusal names the field and the remedy.

mod budget;
mod oasis;
mod options;
mod parse;
mod plan;
#[cfg(test)]
mod tests;
mod workflow;

pub use oasis::{OasisFacts, ProfileFacts};
pub use options::RunOptions;
pub use parse::{CreateRun, Request, parse};
pub use plan::{AgentFacts, BaselineFacts, HostLimits, SuiteFacts, plan, scored_modes};
pub use workflow::{CreateWorkflow, plan_workflow};
