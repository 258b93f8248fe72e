//! The transports of A2A 0.3.0 (§3.2), and where a card declares them.

use std::fmt;

use serde_json::Value;

use super::document::Card;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// gRPC.
    Grpc,
    /// HTTP with JSON bodies.
    HttpJson,
}

impl Transport {
    /// The transport with this case-sensitive name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "JSONRPC" => Some(Self::JsonRpc),
            "GRPC" => Some(Self::Grpc),
            "HTTP+JSON" => Some(Self::HttpJson),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::Grpc => "GRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of the card's main transport: JSONRPC if the member is absent, `None` if it is not a
/// string.
pub fn preferred_name(card: &Card) -> Option<&str> {
    match card.member("preferredTransport") {
        None => Some(Transport::JsonRpc.name()),
        Some(value) => value.as_str(),
    }
}

/// The main transport, if it is known.
pub fn preferred(card: &Card) -> Option<Transport> {
    preferred_name(card).and_then(Transport::named)
}

/// The endpoint's URL and transport, as written in the card.
pub fn main_pair(card: &Card) -> Option<(&str, &str)> {
    Some((card.text("url")?, preferred_name(card)?))
}

/// The URL and transport of an entry of `additionalInterfaces`, as written in the card.
pub fn pair(interface: &Value) -> Option<(&str, &str)> {
    let url = interface.get("url")?.as_str()?;
    let transport = interface.get("transport")?.as_str()?;
    Some((url, transport))
}
