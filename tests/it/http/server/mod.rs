mod access;
mod errors;
mod idempotency;
mod limits;
mod listener;
mod outage;
