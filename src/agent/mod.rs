//! The agent runtime: a loop of model turns and tool calls until the final decision.
