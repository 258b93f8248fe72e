//! The OpenWOP surface, through the real router; every answer is held against the API description.

mod access;
mod annotations;
mod contract;
mod dedup;
mod deployments;
mod diff;
mod errors;
mod fork;
mod host;
mod idempotency;
mod interrupts;
mod limits;
mod load;
mod log_reader;
mod outage;
mod pause;
mod recorder;
mod runs;
mod seams;
mod server;
mod sse;
mod streams;
mod surface;
mod walk;
mod webhooks;
mod workflows;
