//! The agent runtime, its model adapters and the HTTP client below them.

mod net;
mod raw_server;
mod runtime;
mod support;
