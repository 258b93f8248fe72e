//! Agents: the loop of model turns and tool calls, and budgets.

pub mod assert_command;
pub mod budget;
mod call_metrics;
pub mod calls;
pub mod cli;
mod client_metrics;
pub mod dialogue;
pub mod embedding;
pub mod judge;
pub mod line_process;
pub mod model;
pub mod ports;
pub mod rules;
pub mod runtime;
mod spans;
pub mod tool_calls;
pub mod tools;
