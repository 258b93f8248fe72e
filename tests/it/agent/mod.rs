//! The agent runtime, its model adapters and the HTTP client below them.

mod a2a;
mod anthropic;
mod cassette;
mod catalog;
mod faults;
pub mod mcp;
mod net;
mod openai;
mod openwop;
pub mod raw_server;
mod runtime;
mod support;
