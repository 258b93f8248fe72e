//! A parsed card: a strictly parsed JSON object, with no assumptions about its members (A2A 0.3.0
//! §5.5).

use serde_json::{Map, Value};

use super::url_place::UrlPlace;
use touchstone_kit::json;

/// Maximum size of a card in bytes.
pub const MAX_OCTETS: usize = 1024 * 1024;

/// Links other than the endpoint and the provider.
const LINKS: [&str; 4] = [
    "documentationUrl",
    "iconUrl",
    "termsOfServiceUrl",
    "privacyPolicyUrl",
];
/// URLs of an OAuth 2.0 flow.
const FLOW_URLS: [&str; 4] = [
    "authorizationUrl",
    "tokenUrl",
    "refreshUrl",
    "deviceAuthorizationUrl",
];
/// Members that wrap security schemes in the protobuf mapping, for the kinds that have URLs.
const WRAPPERS_WITH_URLS: [&str; 2] = ["oauth2SecurityScheme", "openIdConnectSecurityScheme"];

/// Why a card cannot be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unparseable {
    #[error("it has more than {MAX_OCTETS} bytes")]
    TooLong,
    /// Not strict JSON.
    #[error("it {0}")]
    NotJson(#[from] json::Error),
    #[error("it is JSON, but not an object")]
    NotAnObject,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    members: Map<String, Value>,
}

impl Card {
    /// Parses a card.
    ///
    /// # Errors
    /// [`Unparseable`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Unparseable> {
        if bytes.len() > MAX_OCTETS {
            return Err(Unparseable::TooLong);
        }
        match json::parse_foreign(bytes)? {
            Value::Object(members) => Ok(Self { members }),
            _ => Err(Unparseable::NotAnObject),
        }
    }

    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// A member; `None` if it is absent or null.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// A member that is a non-empty string.
    pub fn text(&self, name: &str) -> Option<&str> {
        text(self.members.get(name))
    }

    /// The elements of an array member; empty for any other value.
    pub fn items(&self, name: &str) -> &[Value] {
        items(self.members.get(name))
    }

    /// The provider's member `name`, if it is a non-empty string.
    pub fn provider_text(&self, name: &str) -> Option<&str> {
        text(self.members.get("provider").and_then(|it| it.get(name)))
    }

    /// The security schemes by name; empty unless `securitySchemes` is an object.
    pub fn security_schemes(&self) -> impl Iterator<Item = (&String, &Value)> {
        let schemes = self
            .members
            .get("securitySchemes")
            .and_then(Value::as_object);
        schemes.into_iter().flatten()
    }

    /// Every URL in the card for people or machines, with its location. Extension identifiers are
    /// names, not locations, and are left out; key set URLs are judged with the signatures.
    pub fn urls(&self) -> Vec<(UrlPlace<'_>, &str)> {
        let mut found = Vec::new();
        let mut add = |place, value| found.extend(text(value).map(|text| (place, text)));
        add(UrlPlace::Own("url"), self.members.get("url"));
        for (index, interface) in self.items("additionalInterfaces").iter().enumerate() {
            add(UrlPlace::Interface(index), interface.get("url"));
        }
        let provider = self.members.get("provider");
        add(UrlPlace::Provider, provider.and_then(|it| it.get("url")));
        for name in LINKS {
            add(UrlPlace::Own(name), self.members.get(name));
        }
        for (name, scheme) in self.security_schemes() {
            scheme_urls(name, None, scheme, &mut add);
            for wrapper in WRAPPERS_WITH_URLS {
                if let Some(inner) = scheme.get(wrapper) {
                    scheme_urls(name, Some(wrapper), inner, &mut add);
                }
            }
        }
        found
    }
}

fn scheme_urls<'a>(
    name: &'a str,
    wrapper: Option<&'static str>,
    scheme: &'a Value,
    add: &mut impl FnMut(UrlPlace<'a>, Option<&'a Value>),
) {
    let place = |flow, member| UrlPlace::Scheme {
        scheme: name,
        wrapper,
        flow,
        member,
    };
    for member in ["openIdConnectUrl", "oauth2MetadataUrl"] {
        add(place(None, member), scheme.get(member));
    }
    let flows = scheme.get("flows").and_then(Value::as_object);
    for (kind, flow) in flows.into_iter().flatten() {
        for member in FLOW_URLS {
            add(place(Some(kind), member), flow.get(member));
        }
    }
}

/// A non-empty string.
pub fn text(value: Option<&Value>) -> Option<&str> {
    value
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
}

/// The elements of an array; empty for any other value.
pub fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
