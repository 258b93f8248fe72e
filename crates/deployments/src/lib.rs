//! Deployments: versions, channels, canary, rollback.

pub mod rules;
