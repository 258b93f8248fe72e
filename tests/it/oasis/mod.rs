//! OASIS evaluations: verdicts, providers, whole evaluations.

mod authoring;
pub mod compute;
pub mod desk;
mod mock;
mod profiles;
mod properties;
pub mod provider;
mod provider_config;
mod provider_messages;
mod provider_operations;
mod verdicts;
