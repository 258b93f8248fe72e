//! OpenWOP v1, one file per operation.

pub mod agents;
pub mod audit;
pub mod deployments;
pub mod host;
pub mod interrupts;
pub mod not_offered;
pub mod openapi;
pub mod packs;
pub mod runs;
pub mod sample;
pub mod webhooks;
pub mod workflows;
