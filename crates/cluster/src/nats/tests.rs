//! Hosts, workers and hostile clients at a NATS server.

mod login;
mod rights;
mod server;
