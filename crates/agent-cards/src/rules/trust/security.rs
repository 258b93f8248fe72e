//! Security of access: only https (10 points), authentication (5), strong authentication (5); minus
//! 10 if any URL is not encrypted.

use serde::Serialize;
use serde_json::Value;

use crate::rules::document::Card;
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::web_url;

/// Strong kinds of schemes (A2A 0.3.0 §5.5.3); API keys and passwords are not strong.
const STRONG: [&str; 3] = ["oauth2", "openIdConnect", "mutualTLS"];
/// Strong kinds of schemes in the protobuf mapping.
const STRONG_WRAPPERS: [&str; 3] = [
    "oauth2SecurityScheme",
    "openIdConnectSecurityScheme",
    "mtlsSecurityScheme",
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    pub score: u64,
    pub max_score: u64,
    /// Whether there are URLs, and all of them are https.
    pub https_only: bool,
    pub has_security_schemes: bool,
    pub has_strong_auth: bool,
    pub has_http_urls: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> Security {
    let urls = card.urls();
    let (mut has_http_urls, mut https_only) = (false, !urls.is_empty());
    for (place, text) in urls {
        if web_url::starts_as_http(text) {
            (has_http_urls, https_only) = (true, false);
            findings.push(Finding::new(
                Code::HttpUrl,
                place.to_string(),
                "The URL is plain http, which can be read and changed in transit; use https.",
            ));
        } else if web_url::parse_https(text).is_none() {
            https_only = false;
            findings.push(Finding::new(
                Code::NonHttpsUrl,
                place.to_string(),
                "The value is not an https URL; give one, or leave the member out.",
            ));
        }
    }
    let has_security_schemes = card.security_schemes().next().is_some();
    let has_strong_auth = card.security_schemes().any(|(_, scheme)| is_strong(scheme));
    if !has_security_schemes {
        findings.push(Finding::new(
            Code::SecuritySchemesMissing,
            "/securitySchemes",
            "The card does not declare how callers authenticate; declare it in `securitySchemes`.",
        ));
    }
    if !has_strong_auth {
        findings.push(Finding::new(
            Code::StrongAuthMissing,
            "/securitySchemes",
            "None of the schemes is OAuth 2.0, OpenID Connect or mutual TLS; offer one of these.",
        ));
    }
    let awarded = 10 * u64::from(https_only)
        + 5 * u64::from(has_security_schemes)
        + 5 * u64::from(has_strong_auth);
    Security {
        score: awarded.saturating_sub(10 * u64::from(has_http_urls)),
        max_score: 20,
        https_only,
        has_security_schemes,
        has_strong_auth,
        has_http_urls,
    }
}

fn is_strong(scheme: &Value) -> bool {
    let kind = scheme.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| STRONG.contains(&kind))
        || STRONG_WRAPPERS
            .iter()
            .any(|wrapper| scheme.get(wrapper).is_some_and(Value::is_object))
}
