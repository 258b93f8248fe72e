//! Touchstone: an OpenWOP-conformant evaluation host. *Is this agent good enough to deploy?*
//!
//! # The rooms
//!
//! ```text
//! protocol   wire documents as serde types, schema validators, error envelope; no rules, no IO
//! domain     the rules as pure functions: packs, runs, scoring, gates; no IO, no clock
//! ports      what the rules need from the world, as small traits
//! service    use cases over domain + ports: runs, executor, packs, suites, keys
//! agent      the agent runtime: model turns, tool calls, retries, model adapters
//! store      event log, work queue and records on SQLite and PostgreSQL
//! registry   where packs come from: a file, a directory, an HTTP registry
//! system     the real clock and randomness
//! net        the one guarded HTTP client for everything outgoing
//! http       the OpenWOP surface: router, auth, SSE
//! cli        one file per subcommand; speaks to a remote host or an embedded one
//! render     scorecards, JUnit, Markdown: views of recorded facts
//! demo       the two-minute demo and its stand-in model
//! ```
//!
//! `protocol <- domain <- ports <- service <- {http, cli}`; the adapters (`store`, `agent`, `registry`, `net`) are named
//! only in [`app`].
//!
//! # The life of an eval run
//!
//! `POST /v1/runs` is checked (pure), recorded with its queue entry in one transaction, claimed by a worker under a lease
//! with a fencing token, and executed: every task of the suite is an agent invocation whose events are appended to the
//! run's log. Only then are they streamed. Snapshot, summary and scorecard are folds of that log.

pub mod agent;
pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod domain;
pub mod http;
pub mod net;
pub mod ports;
pub mod protocol;
pub mod registry;
pub mod render;
pub mod service;
pub mod store;
pub mod system;
pub mod telemetry;
