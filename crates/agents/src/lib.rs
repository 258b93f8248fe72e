//! Agents: the loop of model turns and tool calls, and budgets.

pub mod budget;
pub mod rules;
