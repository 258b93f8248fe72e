//! `POST /v1/runs`: from a request body to a run with every reference pinned.
//!
//! Two pure steps: [`parse`] checks the shape, [`plan`] the content. Every error names the field
//! and the remedy.

mod budget;
pub mod conversation;
pub mod fixtures;
mod options;
mod parse;
mod plan;
pub mod prices;
pub mod selection;
#[cfg(test)]
mod tests;
mod workflow;

pub use options::{MAX_TAG_CHARS, MAX_TAGS, RunOptions};
pub use parse::{CreateRun, Request, parse};
pub use plan::{
    AgentFacts, BaselineFacts, HostLimits, SuiteFacts, SuiteOutline, SuiteOutlineBuilder,
    check_at_host, check_size, pin_labels, plan, scored_modes,
};
pub use workflow::{CreateWorkflow, plan_workflow};
