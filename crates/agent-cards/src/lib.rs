//! Agent cards: compliance, trust and availability.

pub mod cli;
pub mod config;
pub mod gate;
pub mod http;
pub mod ports;
pub mod prober;
pub mod render;
pub mod rules;
pub mod service;
pub mod store;
