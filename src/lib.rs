//! Touchstone: an OpenWOP-conformant evaluation host. *Is this agent good enough to deploy?*
//!
//! # Modules
//!
//! A folder per feature: [`runs`], [`packs`], [`deployments`], [`oasis`], [`agent_cards`],
//! [`ratings`], [`agents`], over [`host`]. In each, `service` has the use cases, `store` the SQL,
//! `http` the routes, `cli` the commands, `render` their output, `ports` the interfaces; the rules
//! are in the crate of the same name. [`services`] builds all of them once; [`app`] makes a host
//! from a configuration; [`http`] and [`cli`] put routes and commands together.
//!
//! # The life of an eval run
//!
//! A pure function checks `POST /v1/runs`; one transaction stores the run and its queue entry. A
//! worker claims it with a lease and a fencing token. Every task of the suite is an agent
//! invocation whose events are appended to the run's log before they are streamed. Snapshot,
//! summary and scorecard are folds of that log.

pub mod app;
pub mod cli;
pub mod config;
pub mod conformance;
pub mod database;
pub mod demo;
pub mod http;
pub mod kinds;
pub mod services;
