//! The members that A2A 0.3.0 defines at each level of a card (§5.5), to find members that signers
//! left out.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The card itself.
    Card,
    /// `provider`.
    Provider,
    /// An entry of `additionalInterfaces`.
    Interface,
    /// `capabilities`.
    Capabilities,
    /// An entry of `capabilities.extensions`.
    Extension,
    /// An entry of `skills`.
    Skill,
    /// An entry of `securitySchemes`, of the kind that its `type` names.
    Scheme(SchemeKind),
    /// `flows` of a security scheme.
    Flows,
    /// A flow, with its members.
    Flow(&'static [&'static str]),
    /// `securitySchemes`, whose member names are arbitrary.
    Schemes,
    /// Levels without members of the specification: parameters, scopes, requirements. All names are
    /// accepted.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeKind {
    /// `apiKey`.
    ApiKey,
    /// `http`.
    Http,
    /// `oauth2`.
    OAuth2,
    /// `openIdConnect`.
    OpenIdConnect,
    /// `mutualTLS`.
    MutualTls,
    /// Any other.
    Unknown,
}

impl SchemeKind {
    /// The kind named by `type`.
    pub fn named(kind: Option<&str>) -> Self {
        match kind {
            Some("apiKey") => Self::ApiKey,
            Some("http") => Self::Http,
            Some("oauth2") => Self::OAuth2,
            Some("openIdConnect") => Self::OpenIdConnect,
            Some("mutualTLS") => Self::MutualTls,
            _ => Self::Unknown,
        }
    }

    const fn members(self) -> &'static [&'static str] {
        match self {
            Self::ApiKey => &["description", "in", "name", "type"],
            Self::Http => &["bearerFormat", "description", "scheme", "type"],
            Self::OAuth2 => &["description", "flows", "oauth2MetadataUrl", "type"],
            Self::OpenIdConnect => &["description", "openIdConnectUrl", "type"],
            Self::MutualTls => &["description", "type"],
            Self::Unknown => &[
                "bearerFormat",
                "description",
                "flows",
                "in",
                "name",
                "oauth2MetadataUrl",
                "openIdConnectUrl",
                "scheme",
                "type",
            ],
        }
    }
}

impl Level {
    /// Whether the specification defines a member with this name here.
    pub fn knows(self, name: &str) -> bool {
        let members: &[&str] = match self {
            Self::Open | Self::Schemes => return true,
            Self::Card => &[
                "additionalInterfaces",
                "capabilities",
                "defaultInputModes",
                "defaultOutputModes",
                "description",
                "documentationUrl",
                "iconUrl",
                "name",
                "preferredTransport",
                "protocolVersion",
                "provider",
                "security",
                "securitySchemes",
                "signatures",
                "skills",
                "supportsAuthenticatedExtendedCard",
                "url",
                "version",
            ],
            Self::Provider => &["organization", "url"],
            Self::Interface => &["transport", "url"],
            Self::Capabilities => &[
                "extensions",
                "pushNotifications",
                "stateTransitionHistory",
                "streaming",
            ],
            Self::Extension => &["description", "params", "required", "uri"],
            Self::Skill => &[
                "description",
                "examples",
                "id",
                "inputModes",
                "name",
                "outputModes",
                "security",
                "tags",
            ],
            Self::Scheme(kind) => kind.members(),
            Self::Flows => &[
                "authorizationCode",
                "clientCredentials",
                "implicit",
                "password",
            ],
            Self::Flow(members) => members,
        };
        members.contains(&name)
    }

    /// Whether the specification defines the member names here, rather than the card.
    pub fn is_closed(self) -> bool {
        !matches!(self, Self::Open | Self::Schemes)
    }

    /// The level of a member's value, or of its entries if it is an array. A scheme's kind depends
    /// on its value.
    pub fn below(self, name: &str, value: &Value) -> Self {
        match (self, name) {
            (Self::Card, "provider") => Self::Provider,
            (Self::Card, "additionalInterfaces") => Self::Interface,
            (Self::Card, "capabilities") => Self::Capabilities,
            (Self::Card, "skills") => Self::Skill,
            (Self::Card, "securitySchemes") => Self::Schemes,
            (Self::Capabilities, "extensions") => Self::Extension,
            (Self::Schemes, _) => {
                let kind = value.get("type").and_then(Value::as_str);
                Self::Scheme(SchemeKind::named(kind))
            }
            (Self::Scheme(_), "flows") => Self::Flows,
            (Self::Flows, "authorizationCode") => {
                Self::Flow(&["authorizationUrl", "refreshUrl", "scopes", "tokenUrl"])
            }
            (Self::Flows, "implicit") => Self::Flow(&["authorizationUrl", "refreshUrl", "scopes"]),
            (Self::Flows, _) => Self::Flow(&["refreshUrl", "scopes", "tokenUrl"]),
            _ => Self::Open,
        }
    }
}
