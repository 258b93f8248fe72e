//! The command line as people and pipelines use it: the binary, its exit codes, its two output
//! streams.

mod aaaf;
mod adversarial;
mod agent_command;
mod attest;
mod badge;
mod card;
mod cassettes;
mod compare;
mod demo;
mod deploy;
mod eval;
mod help;
pub mod home;
mod inspect;
mod interrupts;
mod judge;
mod keys;
mod live_tools;
mod oasis;
mod ownership;
pub mod rating;
mod readme;
mod serve;
mod small_model;
mod storage;
mod suites;
mod webhooks;
