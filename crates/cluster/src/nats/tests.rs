//! Hosts, workers and hostile clients at a NATS server.

mod lanes;
mod login;
mod rights;
mod server;
