//! Touchstone: an OpenWOP-conformant evaluation host. *Is this agent good enough to deploy?*
//!
//! # Modules
//!
//! ```text
//! protocol   wire documents as serde types, schema validators, error envelope; no rules, no IO
//! domain     the rules as pure functions: packs, runs, scoring, gates; no IO, no clock
//! ports      traits for the IO that the rules need
//! service    use cases over domain + ports: runs, executor, packs, suites, keys
//! agent      the agent runtime: model turns, tool calls, retries, model adapters
//! store      event log, work queue and records on SQLite and PostgreSQL
//! registry   where packs come from: a file, a directory, an HTTP registry
//! background spawned work, whose panics are caught and logged
//! system     the real clock and randomness
//! net        the one guarded HTTP client for everything outgoing
//! http       the OpenWOP surface: router, auth, SSE
//! cli        one file per subcommand; speaks to a remote host or an embedded one
//! render     scorecards, JUnit, Markdown: views of recorded facts
//! demo       the two-minute demo and its stand-in model
//! ```
//!
//! `protocol <- domain <- ports <- service <- {http, cli}`; only [`app`] names the adapters
//! (`store`, `agent`, `registry`, `net`).
//!
//! # The life of an eval run
//!
//! A pure function checks `POST /v1/runs`; one transaction stores the run and its queue entry. A
//! worker claims it with a lease and a fencing token. Every task of the suite is an agent
//! invocation whose events are appended to the run's log before they are streamed. Snapshot,
//! summary and scorecard are folds of that log.

pub mod agent_cards;
pub mod agents;
pub mod app;
pub mod cli;
pub mod config;
pub mod conformance;
pub mod demo;
pub mod deployments;
pub mod host;
pub mod http;
pub mod kinds;
pub mod oasis;
pub mod packs;
pub mod ratings;
pub mod runs;
pub mod services;
