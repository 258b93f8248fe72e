//! The URLs that a live test calls.

use url::Url;

use crate::rules::document::Card;
use crate::rules::transport::{self, Transport};
use crate::rules::{trust, web_url};

/// The URLs that a live test calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The agent's URL, if it can be called.
    pub endpoint: Option<Url>,
    /// The transport of the agent's URL, if it is known.
    pub transport: Option<Transport>,
    /// The additional interfaces, without the agent's URL over its main transport.
    pub interfaces: Vec<Interface>,
    /// Indexes of interfaces whose transport is unknown.
    pub unknown: Vec<usize>,
    /// The provider's site.
    pub provider: Option<Url>,
}

/// An additional interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index in `additionalInterfaces`.
    pub index: usize,
    pub url: Option<Url>,
    pub transport: Transport,
}

impl Interface {
    /// Whether both have the same URL and transport.
    pub fn is_same(&self, other: &Self) -> bool {
        self.url == other.url && self.transport == other.transport
    }
}

impl Plan {
    pub fn of(card: &Card) -> Self {
        let main = transport::main_pair(card);
        let (mut interfaces, mut unknown) = (Vec::new(), Vec::new());
        for (index, interface) in card.items("additionalInterfaces").iter().enumerate() {
            let named = interface.get("transport").and_then(|it| it.as_str());
            let Some(transport) = named.and_then(Transport::named) else {
                unknown.push(index);
                continue;
            };
            if main.is_none() || transport::pair(interface) != main {
                let url = interface.get("url").and_then(|it| it.as_str());
                interfaces.push(Interface {
                    index,
                    url: url.and_then(usable_url),
                    transport,
                });
            }
        }
        Self {
            endpoint: card.text("url").and_then(usable_url),
            transport: transport::preferred(card),
            interfaces,
            unknown,
            provider: trust::site(card),
        }
    }
}

/// A URL that can be called.
pub fn usable_url(text: &str) -> Option<Url> {
    web_url::parse_http(text)
}
