//! What is to be said about a card: a code, where, and what to do about it.
//!
//! A message never repeats what the card says: a stranger wrote that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Should be better.
    Warning,
    /// Is wrong.
    Error,
}

/// What is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Whether the card keeps to the specification.
    Compliance,
    /// Whether it can be relied on.
    Trust,
    /// Whether the agent answers.
    Availability,
}

macro_rules! codes {
    ($($dimension:ident $severity:ident { $($code:ident),+ $(,)? })+) => {
        /// What was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        #[expect(missing_docs, reason = "a code says what it means; the message says it in full")]
        pub enum Code { $($($code,)+)+ }

        impl Code {
            /// The dimension it belongs to.
            pub const fn dimension(self) -> Dimension {
                match self { $($(Self::$code)|+ => Dimension::$dimension,)+ }
            }

            /// How bad it is.
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

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// In which dimension.
    pub dimension: Dimension,
    /// Where: a JSON Pointer (RFC 6901) into the card.
    pub path: String,
    /// In words, with the remedy.
    pub message: String,
}

impl Finding {
    /// Something found at `path`.
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

/// Findings that are kept: a card of a mebibyte can have a fault in every octet.
pub const MAX_KEPT: usize = 1000;
/// Findings of one code that are kept beyond that: whoever wrote the card must not be able to crowd out others.
pub const MAX_OF_CODE: u32 = 100;

/// What was found so far. Everything counts; the first [`MAX_KEPT`] are kept, and the first [`MAX_OF_CODE`] of each code.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    count: usize,
    of_code: BTreeMap<Code, u32>,
}

impl Findings {
    /// Adds something found.
    pub fn push(&mut self, finding: Finding) {
        self.count += 1;
        let of_code = self.of_code.entry(finding.code).or_default();
        *of_code += 1;
        if self.kept.len() < MAX_KEPT || *of_code <= MAX_OF_CODE {
            self.kept.push(finding);
        }
    }

    /// How many there are, kept or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those that were kept, in order, and how many there are of each code.
    pub fn into_parts(self) -> (Vec<Finding>, BTreeMap<Code, u32>) {
        (self.kept, self.of_code)
    }
}

/// Characters of a name that stand in a pointer: strangers write names, too.
const MAX_TOKEN: usize = 100;

/// A member name as it stands in a JSON Pointer (RFC 6901 §3). Of a very long one, its beginning.
pub fn pointer_token(name: &str) -> String {
    let (kept, cut) = match name.char_indices().nth(MAX_TOKEN) {
        Some((end, _)) => (name.get(..end).unwrap_or_default(), "…"),
        None => (name, ""),
    };
    // What would turn the text around or hide it is of no use in a place.
    let kept: String = kept.chars().filter(|it| !is_disguise(*it)).collect();
    kept.replace('~', "~0").replace('/', "~1") + cut
}

/// Controls and marks that change the direction of text.
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
