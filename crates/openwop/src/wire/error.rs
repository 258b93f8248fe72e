//! The name and the status of an error under each major (OpenWOP v2 error registry).

use touchstone_kit::error::ErrorCode;

use crate::wire::Major;

/// The `error` of an envelope, and the HTTP status of its response.
pub const fn spelled(major: Major, code: ErrorCode) -> (&'static str, u16) {
    match major {
        Major::V1 => (code.as_str(), code.status()),
        Major::V2 => of_v2(code),
    }
}

/// Major 2 has a closed registry: each code has one status, and no host may add a code.
const fn of_v2(code: ErrorCode) -> (&'static str, u16) {
    use ErrorCode as Code;
    match code {
        // Registered with the name and the status of major 1.
        Code::ValidationError
        | Code::Unauthenticated
        | Code::Forbidden
        | Code::RunForbidden
        | Code::NotFound
        | Code::RunAlreadyActive
        | Code::IdempotencyKeyMismatch
        | Code::IdempotencyInFlight
        | Code::PayloadTooLarge
        | Code::UnsupportedMediaType
        | Code::ForceEngineVersionForbidden
        | Code::MockProviderForbidden
        | Code::InterruptAlreadyResolved
        | Code::InterruptExpired
        | Code::UnsupportedStreamMode
        | Code::WebhookUrlRejected
        | Code::WebhookEndpointUnverified
        | Code::RateLimited
        | Code::InternalError
        | Code::PackSignatureInvalid
        | Code::PackVersionNotFound
        | Code::PackLockfileIncomplete
        | Code::PackPeerDependencyMissing
        | Code::PackEngineUnsupported
        | Code::SignatureNotAvailable
        | Code::PackKindInvalid
        | Code::PackValidationFailed
        | Code::ProtocolVersionUnsupported
        | Code::ProtocolVersionMismatch
        | Code::UnsupportedRuntime => (code.as_str(), code.status()),

        // Registered with another status.
        Code::EvalGateUnmet => ("eval_gate_unmet", 422),
        Code::CapabilityNotProvided => ("capability_not_provided", 422),
        Code::PackIntegrityMismatch => ("pack_integrity_mismatch", 409),
        Code::PackNamespaceUnauthorized => ("pack_namespace_unauthorized", 403),
        Code::PackRuntimeRequirementUnmet => ("pack_runtime_requirement_unmet", 422),
        Code::PackRegistryUnreachable => ("pack_registry_unreachable", 503),

        // Not registered.
        Code::KeyRevoked => ("credential_revoked", 401),
        Code::KeyExpired => ("unauthenticated", 401),
        Code::PackNotApproved => ("forbidden", 403),
        Code::MethodNotAllowed
        | Code::InterruptNotFound
        | Code::SubscriptionNotFound
        | Code::NoActiveDeployment
        | Code::PackNotFound => ("not_found", 404),
        Code::InvalidFromSeq => ("fork_point_invalid", 422),
        Code::InterruptCancelled => ("interrupt_already_resolved", 409),
        Code::QuotaExceeded => ("storage_limit_exceeded", 422),
        Code::Unavailable => ("service_unavailable", 503),
        Code::AgentCardUnreachable => ("upstream_unavailable", 502),
        Code::NotAcceptable
        | Code::UriTooLong
        | Code::HeaderFieldsTooLarge
        | Code::UnsupportedMockProvider
        | Code::InvalidEventType
        | Code::InsufficientEvidence
        | Code::WeightSumInvalid
        | Code::AppealWindowClosed => ("validation_error", 400),
        Code::Conflict
        | Code::OasisRunNotTerminal
        | Code::OasisNoVerdict
        | Code::AssessmentInProgress
        | Code::AppealOpen
        | Code::ReviewRequired => ("version_conflict", 409),
        Code::SignatureUnknownKey => ("pack_signature_invalid", 400),
        Code::InvalidPackName
        | Code::InvalidVersion
        | Code::InvalidManifest
        | Code::InvalidEnginesRange
        | Code::ManifestNameMismatch
        | Code::ManifestVersionMismatch
        | Code::TarballGunzipFailed
        | Code::TarballTooLarge
        | Code::TarballManifestMissing
        | Code::TarballManifestTooLarge
        | Code::TarballManifestNotJson
        | Code::TarballEntryMissing
        | Code::TarballEntryTooLarge
        | Code::TarballPathTraversal
        | Code::TarballTarParseFailed => ("pack_validation_failed", 400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of the registry that this host uses, with their statuses.
    const REGISTERED: &[(&str, u16)] = &[
        ("capability_not_provided", 422),
        ("credential_revoked", 401),
        ("eval_gate_unmet", 422),
        ("forbidden", 403),
        ("force_engine_version_forbidden", 403),
        ("fork_point_invalid", 422),
        ("idempotency_in_flight", 409),
        ("idempotency_key_mismatch", 409),
        ("internal_error", 500),
        ("interrupt_already_resolved", 409),
        ("interrupt_expired", 410),
        ("mock_provider_forbidden", 403),
        ("not_found", 404),
        ("pack_engine_unsupported", 400),
        ("pack_integrity_mismatch", 409),
        ("pack_kind_invalid", 400),
        ("pack_lockfile_incomplete", 400),
        ("pack_namespace_unauthorized", 403),
        ("pack_peer_dependency_missing", 400),
        ("pack_registry_unreachable", 503),
        ("pack_runtime_requirement_unmet", 422),
        ("pack_signature_invalid", 400),
        ("pack_validation_failed", 400),
        ("pack_version_not_found", 404),
        ("payload_too_large", 413),
        ("protocol_version_mismatch", 400),
        ("protocol_version_unsupported", 406),
        ("rate_limited", 429),
        ("run_already_active", 409),
        ("run_forbidden", 403),
        ("service_unavailable", 503),
        ("signature_not_available", 404),
        ("storage_limit_exceeded", 422),
        ("unauthenticated", 401),
        ("unsupported_media_type", 415),
        ("unsupported_runtime", 400),
        ("unsupported_stream_mode", 400),
        ("upstream_unavailable", 502),
        ("validation_error", 400),
        ("version_conflict", 409),
        ("webhook_endpoint_unverified", 400),
        ("webhook_url_rejected", 400),
    ];

    #[test]
    fn every_code_has_a_registered_name_and_status_under_major_2() {
        for code in ErrorCode::ALL {
            let spelled = spelled(Major::V2, *code);
            assert!(REGISTERED.contains(&spelled), "{code}: {spelled:?}");
        }
    }

    #[test]
    fn major_1_has_the_names_of_the_codes() {
        for code in ErrorCode::ALL {
            let expected = (code.as_str(), code.status());
            assert_eq!(spelled(Major::V1, *code), expected);
        }
    }
}
