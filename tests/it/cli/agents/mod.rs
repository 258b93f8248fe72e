mod adversarial;
mod agent_command;
mod cassettes;
mod judge;
mod live_tools;
mod small_model;
