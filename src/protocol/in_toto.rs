//! What attestations look like on the wire: DSSE envelopes (secure-systems-lab/dsse v1) around in-toto Statements v1.
//!
//! Members that are not known are ignored, as the in-toto parsing rules ask.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `payloadType` of an envelope that holds a [`Statement`].
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// `_type` of a [`Statement`].
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// `predicateType` of a [`TestResult`].
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// A signed payload (DSSE).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The octets that were signed, in base64.
    pub payload: String,
    /// What they are; signed with them.
    pub payload_type: String,
    /// Who signed.
    pub signatures: Vec<EnvelopeSignature>,
}

/// One signature of an [`Envelope`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeSignature {
    /// A hint which key it is; signed by nobody.
    #[serde(default)]
    pub keyid: String,
    /// Base64.
    pub sig: String,
}

/// A claim about artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub kind: String,
    /// What it is about.
    pub subject: Vec<ResourceDescriptor>,
    /// What kind of claim it is.
    pub predicate_type: String,
    /// The claim.
    pub predicate: Value,
}

/// An artifact, by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDescriptor {
    /// For people; nothing is matched by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its digests.
    #[serde(default)]
    pub digest: DigestSet,
}

/// Digests of one artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestSet {
    /// SHA-256, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// How a test came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestOutcome {
    /// It passed.
    Passed,
    /// It passed, with a warning that a person should look at.
    Warned,
    /// It failed.
    Failed,
}

/// The test-result predicate v0.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// The result as a whole.
    pub result: TestOutcome,
    /// By what was tested.
    pub configuration: Vec<ResourceDescriptor>,
    /// Tests that passed, by name.
    pub passed_tests: Vec<String>,
    /// Tests that passed with a warning.
    pub warned_tests: Vec<String>,
    /// Tests that failed.
    pub failed_tests: Vec<String>,
}
