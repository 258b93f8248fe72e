//! Findings about a card: a code, a location and a remedy.
//!
//! A message never repeats the card's content, which is untrusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Info,
    /// Should be improved.
    Warning,
    /// Must be corrected.
    Error,
}

/// A scored dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Conformance to the specification.
    Compliance,
    /// Reliability of the card's claims.
    Trust,
    /// Whether the agent answers.
    Availability,
}

macro_rules! codes {
    ($($dimension:ident $severity:ident { $($code:ident),+ $(,)? })+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum Code { $($($code,)+)+ }

        impl Code {
            pub const fn dimension(self) -> Dimension {
                match self { $($(Self::$code)|+ => Dimension::$dimension,)+ }
            }

            pub const fn severity(self) -> Severity {
                match self { $($(Self::$code)|+ => Severity::$severity,)+ }
            }
        }
    };
}

codes! {
    Compliance Error {
        CardUnparseable, CoreFieldMissing, CoreFieldWrongType, SkillsEmpty, SkillRequiredFieldMissing, SkillIdDuplicate,
        VersionNotSemver, ProtocolVersionUnsupported, UrlInvalid, TransportInvalid, MimeTypeInvalid,
    }
    Compliance Warning {
        SkillTagsMissing, FieldTooLong, SsrfRisk, TransportUrlConflict, SkillModeInvalid, CardContentTypeInvalid,
    }
    Compliance Info { MainInterfaceNotListed, PreferredTransportDefaulted }
    Trust Error { SignatureInvalid, SignatureExpired, HttpUrl }
    Trust Warning {
        SignaturesAbsent, SignatureUnverifiable, SignatureCoveragePartial, SignatureTimeFuture, NonHttpsUrl,
        ProviderOrganizationMissing, ProviderUrlMissing, ProviderUrlUnreachable, SecuritySchemesMissing,
        StrongAuthMissing,
    }
    Trust Info {
        SignatureNotRecent, SignatureTimeUnknown, SignatureKidMissing, SignatureIssuerUnbound, SignaturesNotChecked,
        DocumentationUrlMissing, TermsOfServiceUrlMissing, PrivacyPolicyUrlMissing,
    }
    Availability Error {
        EndpointUnreachable, EndpointServerError, AddressBlocked, PreferredTransportFailed, ResponseStructureInvalid,
        TlsInvalid,
    }
    Availability Warning {
        ResponseSlow, CorsMissing, TlsAbsent, InterfaceFailed, ContentTypeInvalid, ErrorHandlingPoor, AuthRequired,
        LegacyWellKnownPath,
    }
    Availability Info { InterfaceNotTested, AvailabilityNotTested }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    pub dimension: Dimension,
    /// JSON Pointer (RFC 6901) into the card.
    pub path: String,
    /// Message with the remedy.
    pub message: String,
}

impl Finding {
    /// A finding at `path`.
    pub fn new(code: Code, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            dimension: code.dimension(),
            path: path.into(),
            message: message.into(),
        }
    }
}

/// Maximum findings that are kept: a card of 1 MiB can have a fault in every byte.
pub const MAX_KEPT: usize = 1000;
/// Maximum findings per code that are kept, so that a card's author cannot crowd out the other
/// findings.
pub const MAX_OF_CODE: u32 = 100;

/// Collected findings. All are counted; the first [`MAX_KEPT`] are kept, and of each code the first
/// [`MAX_OF_CODE`].
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    count: usize,
    of_code: BTreeMap<Code, u32>,
}

impl Findings {
    pub fn push(&mut self, finding: Finding) {
        self.count += 1;
        let of_code = self.of_code.entry(finding.code).or_default();
        *of_code += 1;
        if self.kept.len() < MAX_KEPT || *of_code <= MAX_OF_CODE {
            self.kept.push(finding);
        }
    }

    /// Number of findings, kept or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The kept findings in order, and the count per code.
    pub fn into_parts(self) -> (Vec<Finding>, BTreeMap<Code, u32>) {
        (self.kept, self.of_code)
    }
}

/// Maximum characters of a name in a pointer: names are untrusted and may be long.
const MAX_TOKEN: usize = 100;

/// A member name as a JSON Pointer token (RFC 6901 §3), truncated if it is very long.
pub fn pointer_token(name: &str) -> String {
    let (kept, cut) = match name.char_indices().nth(MAX_TOKEN) {
        Some((end, _)) => (name.get(..end).unwrap_or_default(), "…"),
        None => (name, ""),
    };
    // Characters that reorder or hide text would make the pointer misleading.
    let kept: String = kept.chars().filter(|it| !is_disguise(*it)).collect();
    kept.replace('~', "~0").replace('/', "~1") + cut
}

/// Control characters and marks that change the direction of text.
fn is_disguise(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_carries_the_dimension_and_severity_of_its_code() {
        let finding = Finding::new(Code::SsrfRisk, "/url", "m");
        assert_eq!(
            serde_json::to_value(&finding).unwrap(),
            serde_json::json!({"code": "SSRF_RISK", "severity": "warning", "dimension": "compliance",
                "path": "/url", "message": "m"})
        );
        assert_eq!(
            serde_json::json!([
                Code::VersionNotSemver,
                Code::NonHttpsUrl,
                Code::MimeTypeInvalid
            ]),
            serde_json::json!(["VERSION_NOT_SEMVER", "NON_HTTPS_URL", "MIME_TYPE_INVALID"])
        );
    }

    #[test]
    fn a_name_is_escaped_in_a_pointer() {
        assert_eq!(pointer_token("a/b~1"), "a~1b~01");
        assert_eq!(pointer_token("a\u{202e}b\u{1b}[0m"), "ab[0m");
        let long = "~".repeat(400_000);
        assert_eq!(pointer_token(&long), "~0".repeat(100) + "…");
    }
}
