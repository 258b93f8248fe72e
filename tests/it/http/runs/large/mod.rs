//! Runs of many tasks.

mod ended;
mod streamed_suites;
