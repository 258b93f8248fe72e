mod audits;
mod config;
mod issuer_keys;
mod members;
mod suspended;
pub mod webhooks;
