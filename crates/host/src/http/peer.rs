//! The address of a client.

use std::net::SocketAddr;

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);
