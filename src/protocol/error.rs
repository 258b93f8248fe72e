//! The error envelope and the closed list of codes this host answers with.
//!
//! Every non-2xx protocol answer is exactly `{"error", "message", "details"?}` (OpenWOP v1 error envelope). Codes are
//! contract: each has one wire name and one usual HTTP status. Messages are for the client and never carry a secret, a
//! path, SQL or task content.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal, $status:literal; )*) => {
        /// A code of the error envelope.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $( $(#[$doc])* $variant, )* }

        impl ErrorCode {
            /// Every code, for tests that walk them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The wire name, as it stands in `error`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The HTTP status the code is answered with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

codes! {
    /// A field of the request is missing, malformed or names something that cannot be used.
    ValidationError = "validation_error", 400;
    /// No credential, or one that is unknown or malformed.
    Unauthenticated = "unauthenticated", 401;
    /// The credential was revoked.
    KeyRevoked = "key_revoked", 401;
    /// The credential has expired.
    KeyExpired = "key_expired", 401;
    /// The credential lacks the scope.
    Forbidden = "forbidden", 403;
    /// No such thing, or another tenant's: the answer is the same.
    NotFound = "not_found", 404;
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405;
    /// Nothing we serve is acceptable to the client.
    NotAcceptable = "not_acceptable", 406;
    /// `fromSeq` is past the end of the run's log.
    InvalidFromSeq = "invalid_from_seq", 422;
    /// The request contradicts the present state.
    Conflict = "conflict", 409;
    /// `X-Dedup: enforce`, and another run of the scope is active.
    RunAlreadyActive = "run_already_active", 409;
    /// An `Idempotency-Key` came back with another body.
    IdempotencyKeyMismatch = "idempotency_key_mismatch", 409;
    /// The first request under this `Idempotency-Key` is still being carried out.
    IdempotencyInFlight = "idempotency_in_flight", 409;
    /// The body is larger than `limits.maxRequestBodyBytes`.
    PayloadTooLarge = "payload_too_large", 413;
    /// The address is longer than any sound one.
    UriTooLong = "uri_too_long", 414;
    /// The headers are more than any sound request has.
    HeaderFieldsTooLarge = "header_fields_too_large", 431;
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// An unknown mock provider.
    UnsupportedMockProvider = "unsupported_mock_provider", 400;
    /// `X-Force-Engine-Version` with a live key.
    ForceEngineVersionForbidden = "force_engine_version_forbidden", 403;
    /// A mock provider asked for with a live key.
    MockProviderForbidden = "mock_provider_forbidden", 403;
    /// No such interrupt.
    InterruptNotFound = "interrupt_not_found", 404;
    /// The interrupt was answered before.
    InterruptAlreadyResolved = "interrupt_already_resolved", 409;
    /// The token of an interrupt is past its time.
    InterruptExpired = "interrupt_expired", 410;
    /// The run was cancelled while the interrupt was pending.
    InterruptCancelled = "interrupt_cancelled", 422;
    /// The gate of a promotion is not met (RFC 0082 §E).
    EvalGateUnmet = "eval_gate_unmet", 403;
    /// No version is active on the channel that is named (RFC 0082 §B).
    NoActiveDeployment = "no_active_deployment", 400;
    /// An unknown stream mode or combination.
    UnsupportedStreamMode = "unsupported_stream_mode", 400;
    /// A webhook's URL leads, or may lead, to where deliveries must not go.
    WebhookUrlRejected = "webhook_url_rejected", 400;
    /// The endpoint of a webhook did not agree to deliveries (RFC 0201).
    WebhookEndpointUnverified = "webhook_endpoint_unverified", 400;
    /// No such webhook subscription, or another tenant's.
    SubscriptionNotFound = "subscription_not_found", 404;
    /// There is no agent card where it should be.
    AgentCardUnreachable = "agent_card_unreachable", 502;
    /// An OASIS evaluation has not ended, so there is no verdict yet.
    OasisRunNotTerminal = "oasis_run_not_terminal", 409;
    /// An OASIS evaluation ended without a verdict; `details.refusal` says why, if it was refused.
    OasisNoVerdict = "oasis_no_verdict", 409;
    /// The tenant stores as much as its quota allows.
    QuotaExceeded = "quota_exceeded", 403;
    /// Too many requests or subscribers.
    RateLimited = "rate_limited", 429;
    /// A fault of ours.
    InternalError = "internal_error", 500;
    /// A capability this host does not advertise.
    CapabilityNotProvided = "capability_not_provided", 501;
    /// Overload or shutdown; try again later.
    Unavailable = "unavailable", 503;

    /// The archive's bytes differ from the promised digest.
    PackIntegrityMismatch = "pack_integrity_mismatch", 400;
    /// The signature is missing, malformed or does not verify.
    PackSignatureInvalid = "pack_signature_invalid", 400;
    /// The key may not sign this pack name.
    PackNamespaceUnauthorized = "pack_namespace_unauthorized", 400;
    /// The signing key is not listed, or not active.
    SignatureUnknownKey = "signature_unknown_key", 400;
    /// No such version, or a yanked one.
    PackVersionNotFound = "pack_version_not_found", 404;
    /// A lockfile is in force and does not list the pack.
    PackLockfileIncomplete = "pack_lockfile_incomplete", 400;
    /// A required peer capability is absent.
    PackPeerDependencyMissing = "pack_peer_dependency_missing", 400;
    /// The pack requires a runtime primitive the host does not grant.
    PackRuntimeRequirementUnmet = "pack_runtime_requirement_unmet", 400;
    /// `engines.openwop` does not cover this protocol version.
    PackEngineUnsupported = "pack_engine_unsupported", 400;
    /// This host's registry publishes no pack of this name, or not this version of it.
    PackNotFound = "pack_not_found", 404;
    /// The registry has no signature for this version.
    SignatureNotAvailable = "signature_not_available", 404;
    /// A pack name that is not `<scope>.<org>.<…>`.
    InvalidPackName = "invalid_pack_name", 400;
    /// A version that is not SemVer.
    InvalidVersion = "invalid_version", 400;
    /// The registry could not be reached or answered nonsense.
    PackRegistryUnreachable = "pack_registry_unreachable", 502;
    /// The pack is not on the allowlist.
    PackNotApproved = "pack_not_approved", 403;
    /// Content of two kinds in one manifest, or a kind that holds no agents.
    PackKindInvalid = "pack_kind_invalid", 400;
    /// A reference, prompt, schema or suite inside the pack is not sound.
    PackValidationFailed = "pack_validation_failed", 400;
    /// `pack.json` violates the manifest schema.
    InvalidManifest = "invalid_manifest", 400;
    /// `engines.openwop` is not a version range.
    InvalidEnginesRange = "invalid_engines_range", 400;
    /// The name inside the archive is not the requested one.
    ManifestNameMismatch = "manifest_name_mismatch", 400;
    /// The version inside the archive is not the requested one.
    ManifestVersionMismatch = "manifest_version_mismatch", 400;
    /// Not one sound gzip member.
    TarballGunzipFailed = "tarball_gunzip_failed", 400;
    /// Compressed or unpacked size, or the number of entries, is over the limit.
    TarballTooLarge = "tarball_too_large", 400;
    /// No `pack.json` at the archive root.
    TarballManifestMissing = "tarball_manifest_missing", 400;
    /// `pack.json` is over its limit.
    TarballManifestTooLarge = "tarball_manifest_too_large", 400;
    /// `pack.json` is not strict JSON.
    TarballManifestNotJson = "tarball_manifest_not_json", 400;
    /// A file the manifest refers to is not in the archive.
    TarballEntryMissing = "tarball_entry_missing", 400;
    /// One entry is over its limit.
    TarballEntryTooLarge = "tarball_entry_too_large", 400;
    /// An entry name that could leave the pack, or an entry that is neither file nor folder.
    TarballPathTraversal = "tarball_path_traversal", 400;
    /// The tar stream is malformed or ambiguous.
    TarballTarParseFailed = "tarball_tar_parse_failed", 400;
    /// A runtime language this host does not execute.
    UnsupportedRuntime = "unsupported_runtime", 400;

    /// Evidence of a type that there is not (AAAF S14, like those that follow).
    InvalidEventType = "INVALID_EVENT_TYPE", 400;
    /// Another assessment of the agent has not ended.
    AssessmentInProgress = "ASSESSMENT_IN_PROGRESS", 409;
    /// There is too little evidence to score.
    InsufficientEvidence = "INSUFFICIENT_EVIDENCE", 422;
    /// Weights of an axis that do not add up to one.
    WeightSumInvalid = "WEIGHT_SUM_INVALID", 422;
    /// An assessment that was completed too long ago to be appealed.
    AppealWindowClosed = "APPEAL_WINDOW_CLOSED", 422;
    /// A dimension that has an open appeal.
    AppealOpen = "APPEAL_OPEN", 409;
    /// A badge that a person has to decide about first.
    ReviewRequired = "REVIEW_REQUIRED", 409;
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one shape of every error answer. Closed; `details` is an object or absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorEnvelope {
    /// The code; clients of other hosts may see codes we do not know, hence text.
    pub error: String,
    /// What went wrong and what to do about it.
    pub message: String,
    /// Machine-readable facts, such as `field`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
}

/// A failure that is answered to a client: a code, a message, perhaps details.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Problem {
    /// The code; decides the status.
    pub code: ErrorCode,
    /// For the client. No secret, no content, no path of this machine.
    pub message: String,
    /// Facts for `details`.
    pub details: Map<String, Value>,
}

impl Problem {
    /// A problem without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// `400 validation_error` that names the field.
    pub fn validation(field: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ValidationError, message).with("field", field)
    }

    /// Adds one fact to `details`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The wire form.
    pub fn envelope(&self) -> ErrorEnvelope {
        ErrorEnvelope {
            error: self.code.as_str().to_owned(),
            message: self.message.clone(),
            details: (!self.details.is_empty()).then(|| self.details.clone()),
        }
    }
}
