//! The agent runtime, its model adapters and the HTTP client below them.

mod catalog;
mod net;
mod openai;
mod raw_server;
mod runtime;
mod support;
