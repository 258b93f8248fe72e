//! The command line as people and pipelines use it: the binary, its exit codes, its two output
//! streams.

mod agents;
mod backup;
mod card;
mod codes;
mod demo;
mod deployments;
mod doctor;
mod guide;
mod help;
pub mod home;
mod keys;
mod oasis;
pub mod ratings;
mod readme;
pub mod runs;
mod serve;
