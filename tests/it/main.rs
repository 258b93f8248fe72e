//! Everything that is tested through public interfaces, in one binary.

mod agent;
mod store;
mod support;
