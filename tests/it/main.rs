//! All tests through public interfaces, in one binary.

#![expect(
    clippy::disallowed_methods,
    reason = "tests await or drop their tasks, and give or ignore times"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking; clippy exempts test functions, not what they share"
)]

mod agent;
mod agent_cards;
mod architecture;
mod badges;
mod ci;
mod cli;
mod client;
mod clients;
#[cfg(unix)]
mod cluster;
mod config;
mod conformance;
mod console;
mod crash;
mod dist;
mod http;
mod leaks;
mod oasis;
mod operations;
mod pack;
mod process;
mod ratings;
mod runs;
mod safety;
mod specifications;
mod statistics;
mod store;
mod support;
mod telemetry;
mod webhooks;
