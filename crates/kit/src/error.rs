//! The error envelope and the closed list of error codes.
//!
//! Every non-2xx protocol response is exactly `{"error", "message", "details"?}` (OpenWOP v1 error
//! envelope). Codes are part of the contract: each has one wire name and one usual HTTP status.
//! Messages are for the client and never contain a secret, a path, SQL or task content.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal, $status:literal; )*) => {
        /// A code of the error envelope.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $( $(#[$doc])* $variant, )* }

        impl ErrorCode {
            /// Every code, for tests that iterate over them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code with this wire name; of those with the same name, the first.
            pub fn of(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }

            /// The wire name in `error` under major 1. Codes that only other majors tell apart have
            /// the same name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The name inside this host, which no other code has.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// The code with this [`name`](Self::name).
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }

            /// The HTTP status of responses with this code under major 1.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

codes! {
    /// A field of the request is missing, malformed or refers to something that cannot be used.
    ValidationError = "validation_error", 400;
    /// `Idempotency-Key` does not follow the grammar of its major.
    IdempotencyKeyInvalid = "validation_error", 400;
    /// There is no credential, or it is unknown or malformed.
    Unauthenticated = "unauthenticated", 401;
    /// The credential was revoked.
    KeyRevoked = "key_revoked", 401;
    /// The credential has expired.
    KeyExpired = "key_expired", 401;
    /// The credential lacks the scope.
    Forbidden = "forbidden", 403;
    /// The run belongs to another tenant. Only a test seam says so; the API answers `not_found`.
    RunForbidden = "run_forbidden", 403;
    /// The resource does not exist or belongs to another tenant; the response is the same.
    NotFound = "not_found", 404;
    /// The id names another tenant. Whether it exists was not looked up.
    IdTenantMismatch = "not_found", 404;
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// `OpenWOP-Version` names a major that this host does not serve.
    ProtocolVersionUnsupported = "protocol_version_unsupported", 406;
    /// `OpenWOP-Version` names another major than the path.
    ProtocolVersionMismatch = "protocol_version_mismatch", 400;
    /// `OpenWOP-Client-Version` is older than the clients that this host answers.
    ClientVersionUnsupported = "client_version_unsupported", 426;
    /// No representation is acceptable to the client.
    NotAcceptable = "not_acceptable", 406;
    /// `fromSeq` is past the end of the run's log.
    InvalidFromSeq = "invalid_from_seq", 422;
    /// The request conflicts with the current state.
    Conflict = "conflict", 409;
    /// The run has ended, so it cannot be changed any more.
    RunTerminal = "conflict", 409;
    /// The run's status, which `details.runStatus` names, does not permit the operation.
    RunStateConflict = "conflict", 409;
    /// Another request has changed the resource in the meantime.
    VersionConflict = "conflict", 409;
    /// What the operation needs of the run was deleted.
    RunExpired = "conflict", 409;
    /// The run is of a kind that does not have this operation.
    NotOfThisRun = "conflict", 409;
    /// The resource has as many parts as this host keeps.
    LimitReached = "conflict", 409;
    /// The caller has answered this interrupt, which waits for the answers of others.
    AnsweredBefore = "conflict", 409;
    /// `X-Dedup: enforce` is set, and another run of the scope is active.
    RunAlreadyActive = "run_already_active", 409;
    /// An `Idempotency-Key` was reused with a different body.
    IdempotencyKeyMismatch = "idempotency_key_mismatch", 409;
    /// The first request with this `Idempotency-Key` has not finished.
    IdempotencyInFlight = "idempotency_in_flight", 409;
    /// The body is larger than `limits.maxRequestBodyBytes`.
    PayloadTooLarge = "payload_too_large", 413;
    /// The URI exceeds the length limit.
    UriTooLong = "uri_too_long", 414;
    /// The headers exceed the size limit.
    HeaderFieldsTooLarge = "header_fields_too_large", 431;
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// An unknown mock provider.
    UnsupportedMockProvider = "unsupported_mock_provider", 400;
    /// `X-Force-Engine-Version` with a live key.
    ForceEngineVersionForbidden = "force_engine_version_forbidden", 403;
    /// A mock provider was requested with a live key.
    MockProviderForbidden = "mock_provider_forbidden", 403;
    /// The interrupt does not exist.
    InterruptNotFound = "interrupt_not_found", 404;
    /// The text is not a token of this host.
    InterruptTokenInvalid = "interrupt_not_found", 404;
    /// The interrupt has already been answered.
    InterruptAlreadyResolved = "interrupt_already_resolved", 409;
    /// The token of an interrupt has expired.
    InterruptExpired = "interrupt_expired", 410;
    /// The run was cancelled while the interrupt was pending.
    InterruptCancelled = "interrupt_cancelled", 422;
    /// The gate of a promotion is not met (RFC 0082 §E).
    EvalGateUnmet = "eval_gate_unmet", 403;
    /// No version is active on the named channel (RFC 0082 §B).
    NoActiveDeployment = "no_active_deployment", 400;
    /// An unknown stream mode or combination.
    UnsupportedStreamMode = "unsupported_stream_mode", 400;
    /// A webhook's URL points, or may point, to a destination where deliveries are not allowed.
    WebhookUrlRejected = "webhook_url_rejected", 400;
    /// The endpoint of a webhook did not agree to deliveries (RFC 0201).
    WebhookEndpointUnverified = "webhook_endpoint_unverified", 400;
    /// The webhook subscription does not exist or belongs to another tenant.
    SubscriptionNotFound = "subscription_not_found", 404;
    /// There is no agent card at the expected location.
    AgentCardUnreachable = "agent_card_unreachable", 502;
    /// An OASIS evaluation has not ended, so there is no verdict yet.
    OasisRunNotTerminal = "oasis_run_not_terminal", 409;
    /// An OASIS evaluation ended without a verdict; `details.refusal` contains the reason if it was
    /// refused.
    OasisNoVerdict = "oasis_no_verdict", 409;
    /// The tenant has reached its storage quota.
    QuotaExceeded = "quota_exceeded", 403;
    /// Too many requests or subscribers.
    RateLimited = "rate_limited", 429;
    /// A fault of this host.
    InternalError = "internal_error", 500;
    /// The log has a type of event that the major of the request does not have.
    EventTypeUnmapped = "internal_error", 500;
    /// An answer has members that the major of the request has no place for.
    PayloadUnprojectable = "internal_error", 500;
    /// This host does not advertise the capability.
    CapabilityNotProvided = "capability_not_provided", 501;
    /// Overload or shutdown; retry later.
    Unavailable = "unavailable", 503;

    /// The archive's bytes do not match the expected digest.
    PackIntegrityMismatch = "pack_integrity_mismatch", 400;
    /// The signature is missing, malformed or does not verify.
    PackSignatureInvalid = "pack_signature_invalid", 400;
    /// The key may not sign this pack name.
    PackNamespaceUnauthorized = "pack_namespace_unauthorized", 400;
    /// The signing key is not listed, or not active.
    SignatureUnknownKey = "signature_unknown_key", 400;
    /// The version does not exist or was yanked.
    PackVersionNotFound = "pack_version_not_found", 404;
    /// A lockfile is in force and does not list the pack.
    PackLockfileIncomplete = "pack_lockfile_incomplete", 400;
    /// A required peer capability is absent.
    PackPeerDependencyMissing = "pack_peer_dependency_missing", 400;
    /// The pack requires a runtime primitive that the host does not grant.
    PackRuntimeRequirementUnmet = "pack_runtime_requirement_unmet", 400;
    /// `engines.openwop` does not cover this protocol version.
    PackEngineUnsupported = "pack_engine_unsupported", 400;
    /// This host's registry does not publish a pack with this name, or not this version.
    PackNotFound = "pack_not_found", 404;
    /// The registry has no signature for this version.
    SignatureNotAvailable = "signature_not_available", 404;
    /// A pack name that is not `<scope>.<org>.<…>`.
    InvalidPackName = "invalid_pack_name", 400;
    /// A version that is not SemVer.
    InvalidVersion = "invalid_version", 400;
    /// The registry could not be reached or returned an invalid response.
    PackRegistryUnreachable = "pack_registry_unreachable", 502;
    /// The pack is not on the allowlist.
    PackNotApproved = "pack_not_approved", 403;
    /// A manifest with two kinds of content, or a pack kind that cannot contain agents.
    PackKindInvalid = "pack_kind_invalid", 400;
    /// A reference, prompt, schema or suite inside the pack is invalid.
    PackValidationFailed = "pack_validation_failed", 400;
    /// `pack.json` violates the manifest schema.
    InvalidManifest = "invalid_manifest", 400;
    /// `engines.openwop` is not a version range.
    InvalidEnginesRange = "invalid_engines_range", 400;
    /// The name inside the archive differs from the requested one.
    ManifestNameMismatch = "manifest_name_mismatch", 400;
    /// The version inside the archive differs from the requested one.
    ManifestVersionMismatch = "manifest_version_mismatch", 400;
    /// The archive is not exactly one valid gzip member.
    TarballGunzipFailed = "tarball_gunzip_failed", 400;
    /// The compressed or unpacked size, or the number of entries, exceeds the limit.
    TarballTooLarge = "tarball_too_large", 400;
    /// No `pack.json` at the archive root.
    TarballManifestMissing = "tarball_manifest_missing", 400;
    /// `pack.json` exceeds its size limit.
    TarballManifestTooLarge = "tarball_manifest_too_large", 400;
    /// `pack.json` is not strict JSON.
    TarballManifestNotJson = "tarball_manifest_not_json", 400;
    /// A file that the manifest refers to is not in the archive.
    TarballEntryMissing = "tarball_entry_missing", 400;
    /// An entry exceeds its size limit.
    TarballEntryTooLarge = "tarball_entry_too_large", 400;
    /// An entry name that could escape the pack, or an entry that is neither a file nor a folder.
    TarballPathTraversal = "tarball_path_traversal", 400;
    /// The tar stream is malformed or ambiguous.
    TarballTarParseFailed = "tarball_tar_parse_failed", 400;
    /// A runtime language this host does not execute.
    UnsupportedRuntime = "unsupported_runtime", 400;

    /// Evidence of an unknown type (AAAF S14, as for the codes below).
    InvalidEventType = "INVALID_EVENT_TYPE", 400;
    /// Another assessment of the agent has not finished.
    AssessmentInProgress = "ASSESSMENT_IN_PROGRESS", 409;
    /// There is too little evidence to score.
    InsufficientEvidence = "INSUFFICIENT_EVIDENCE", 422;
    /// The weights of an axis do not add up to one.
    WeightSumInvalid = "WEIGHT_SUM_INVALID", 422;
    /// The assessment was completed too long ago to be appealed.
    AppealWindowClosed = "APPEAL_WINDOW_CLOSED", 422;
    /// The dimension already has an open appeal.
    AppealOpen = "APPEAL_OPEN", 409;
    /// A person must decide on the badge first.
    ReviewRequired = "REVIEW_REQUIRED", 409;
}

impl ErrorCode {
    /// The page of the documentation about this code, as a path in the repository.
    pub fn page(self) -> String {
        let code = self.as_str();
        let folder = match code.starts_with(|first: char| first.is_ascii_uppercase()) {
            true => "docs/errors/ratings",
            false => "docs/errors",
        };
        format!("{folder}/{code}.md")
    }
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

/// The code of a rating that has too little evidence. Commands end as inconclusive on it.
pub const INSUFFICIENT_EVIDENCE: &str = "INSUFFICIENT_EVIDENCE";

/// The shape of every error response. The set of members is closed; `details` is an object or
/// absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorEnvelope {
    /// The code as a string, because clients of other hosts may receive codes that this host does
    /// not define.
    pub error: String,
    /// The problem and its remedy.
    pub message: String,
    /// Machine-readable facts, such as `field`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
}

/// A failure that is returned to a client: a code, a message and optional details.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Problem {
    /// The code; determines the status.
    pub code: ErrorCode,
    /// For the client. Contains no secret, content or local path.
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

    /// A `400 validation_error` that names the field.
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
