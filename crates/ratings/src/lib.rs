//! AAAF ratings: evidence, dimensions, tiers, badges, appeals and stress tests.

pub mod cli;
pub mod config;
pub mod credential;
pub mod gate;
pub mod http;
pub mod ports;
pub mod render;
pub mod rules;
pub mod service;
pub mod store;
