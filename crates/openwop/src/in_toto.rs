//! The wire format of attestations: DSSE envelopes (secure-systems-lab/dsse v1) around in-toto
//! Statements v1.
//!
//! Unknown members are ignored, as the in-toto parsing rules require.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `payloadType` of an envelope that contains a [`Statement`].
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// `_type` of a [`Statement`].
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// `predicateType` of a [`TestResult`].
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// `predicateType` of a [`Provenance`].
pub const PROVENANCE_TYPE: &str = "https://slsa.dev/provenance/v1";

/// A signed payload (DSSE).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The signed bytes, in base64.
    pub payload: String,
    /// The type of the payload; part of the signed data.
    pub payload_type: String,
    pub signatures: Vec<EnvelopeSignature>,
}

/// One signature of an [`Envelope`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeSignature {
    /// A hint for finding the key; not part of the signed data.
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
    /// The artifacts that the claim is about.
    pub subject: Vec<ResourceDescriptor>,
    /// The type of the claim.
    pub predicate_type: String,
    pub predicate: Value,
}

/// An artifact, identified by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDescriptor {
    /// For people; not used for matching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(default)]
    pub digest: DigestSet,
}

/// Digests of one artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestSet {
    /// SHA-256, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The id of a commit, for sources.
    #[serde(default, rename = "gitCommit", skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestOutcome {
    Passed,
    /// The test passed, with a warning that a person should review.
    Warned,
    Failed,
}

/// The test-result predicate v0.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// The overall result.
    pub result: TestOutcome,
    /// The configuration that was tested.
    pub configuration: Vec<ResourceDescriptor>,
    /// Tests that passed, by name.
    pub passed_tests: Vec<String>,
    /// Tests that passed with a warning.
    pub warned_tests: Vec<String>,
    pub failed_tests: Vec<String>,
}

/// The SLSA provenance predicate v1: how artifacts were built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    pub build_definition: BuildDefinition,
    pub run_details: RunDetails,
}

/// The inputs of a build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDefinition {
    /// A URI that defines the parameters.
    pub build_type: String,
    /// Parameters that the caller of the build sets.
    pub external_parameters: Value,
    /// Everything else that the build used: sources, lockfiles, tools.
    #[serde(default)]
    pub resolved_dependencies: Vec<ResourceDescriptor>,
}

/// The execution of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDetails {
    pub builder: Builder,
}

/// What executed the build; the signer vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Builder {
    /// A URI.
    pub id: String,
}
