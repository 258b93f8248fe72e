//! Value formats: five checks of 3 points each, and a penalty of 10 for invalid media types.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::rules::document::Card;
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::media_type::is_media_type;
use crate::rules::semantic_version::is_semantic_version;
use crate::rules::transport::{self, Transport};
use crate::rules::web_url;

/// The only protocol version that is scored.
const PROTOCOL_VERSION: &str = "0.3.0";
/// Points for each check.
const EACH: u64 = 3;
/// Penalty for invalid media types, in addition to the lost points.
const MEDIA_TYPE_PENALTY: u64 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FormatCompliance {
    pub score: u64,
    pub max_score: u64,
    /// Whether `version` is a semantic version.
    pub valid_semver: bool,
    /// Whether `protocolVersion` is the scored version.
    pub valid_protocol_version: bool,
    /// Whether `url` is an https URL.
    pub valid_url: bool,
    /// Whether every transport is defined by the protocol.
    pub valid_transports: bool,
    /// Whether every default mode is a media type.
    pub valid_mime_types: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> FormatCompliance {
    let text = |name: &str| card.members().get(name).and_then(Value::as_str);
    let valid_semver = text("version").is_some_and(is_semantic_version);
    let valid_protocol_version = text("protocolVersion") == Some(PROTOCOL_VERSION);
    let valid_url = text("url").and_then(web_url::parse_https).is_some();
    let mut refuse = |valid: bool, code, path: &str, message: &str| {
        if !valid {
            findings.push(Finding::new(code, path, message));
        }
    };
    refuse(
        valid_semver,
        Code::VersionNotSemver,
        "/version",
        "`version` is not a version of Semantic Versioning 2.0.0; write one such as `1.4.2`.",
    );
    refuse(
        valid_protocol_version,
        Code::ProtocolVersionUnsupported,
        "/protocolVersion",
        "`protocolVersion` is not 0.3.0, the only version that can be scored; set it to `0.3.0` if \
        the agent supports that version.",
    );
    refuse(
        valid_url,
        Code::UrlInvalid,
        "/url",
        "`url` must be an https URL without user name and white space; set it to the agent's https \
        endpoint.",
    );
    let valid_transports = transports(card, findings);
    let valid_mime_types = media_types(card, findings);
    interfaces(card, findings);
    let passed = [
        valid_semver,
        valid_protocol_version,
        valid_url,
        valid_transports,
        valid_mime_types,
    ];
    let awarded = EACH * passed.into_iter().filter(|passed| *passed).count() as u64;
    let penalty = if valid_mime_types {
        0
    } else {
        MEDIA_TYPE_PENALTY
    };
    FormatCompliance {
        score: awarded.saturating_sub(penalty),
        max_score: 15,
        valid_semver,
        valid_protocol_version,
        valid_url,
        valid_transports,
        valid_mime_types,
    }
}

fn transports(card: &Card, findings: &mut Findings) -> bool {
    let before = findings.count();
    let mut refuse = |path: String| {
        findings.push(Finding::new(
            Code::TransportInvalid,
            path,
            "The transport is not exactly `JSONRPC`, `GRPC` or `HTTP+JSON`; name one of these.",
        ));
    };
    if transport::preferred(card).is_none() {
        refuse("/preferredTransport".to_owned());
    }
    for (index, interface) in card.items("additionalInterfaces").iter().enumerate() {
        let named = interface.get("transport").and_then(Value::as_str);
        if named.and_then(Transport::named).is_none() {
            refuse(format!("/additionalInterfaces/{index}/transport"));
        }
    }
    findings.count() == before
}

fn media_types(card: &Card, findings: &mut Findings) -> bool {
    let before = findings.count();
    for name in ["defaultInputModes", "defaultOutputModes"] {
        for (index, value) in card.items(name).iter().enumerate() {
            if !is_media_type_value(value) {
                findings.push(Finding::new(
                    Code::MimeTypeInvalid,
                    format!("/{name}/{index}"),
                    "The mode is not a media type; write one such as `text/plain`, not a range \
                    or a bare word.",
                ));
            }
        }
    }
    findings.count() == before
}

pub(super) fn is_media_type_value(value: &Value) -> bool {
    value.as_str().is_some_and(is_media_type)
}

/// Faults of the interfaces that cost no points (A2A 0.3.0 §5.6).
fn interfaces(card: &Card, findings: &mut Findings) {
    if card.member("preferredTransport").is_none() {
        findings.push(Finding::new(
            Code::PreferredTransportDefaulted,
            "/preferredTransport",
            "`preferredTransport` is absent, which means `JSONRPC`; state it.",
        ));
    }
    let main = transport::main_pair(card);
    let listed = card.items("additionalInterfaces");
    let mut declared: HashMap<&str, &str> = main.into_iter().collect();
    for (index, interface) in listed.iter().enumerate() {
        let Some((url, transport)) = transport::pair(interface) else {
            continue;
        };
        if *declared.entry(url).or_insert(transport) != transport {
            findings.push(Finding::new(
                Code::TransportUrlConflict,
                format!("/additionalInterfaces/{index}"),
                "An earlier entry declares the URL with another transport; give each transport \
                its own URL.",
            ));
        }
    }
    let lists_main = main.is_some()
        && listed
            .iter()
            .any(|interface| transport::pair(interface) == main);
    if !listed.is_empty() && !lists_main {
        findings.push(Finding::new(
            Code::MainInterfaceNotListed,
            "/additionalInterfaces",
            "The pair of `url` and `preferredTransport` is not among the interfaces; list it there too.",
        ));
    }
}
