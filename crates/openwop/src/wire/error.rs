//! The name and the status of an error under each major (OpenWOP v2 error registry).

use serde_json::Value;

use touchstone_kit::error::{ErrorCode, ErrorEnvelope, Problem};

use crate::wire::version::Majors;
use crate::wire::{Major, id, operation};

/// Members of `details` that say when to try again. Under major 2, only `Retry-After` does.
pub(super) const BACK_OFF: &[&str] = &["retryAfter", "retryAfterMs", "retryAfterSeconds"];

/// Members of `details` that are ids of runs.
const RUN_IDS: &[&str] = &[
    "runId",
    "activeRunId",
    "sourceRunId",
    "baselineRunId",
    "gateRunId",
];
/// The member of `details` that is the path of an interrupt, and the parts of that path around the id of
/// the run.
const RESOLVE_URL: (&str, &str, &str) = ("resolveUrl", "/v1/runs/", "/interrupts/");

/// Where each major is described.
const DESCRIPTION_V1: &str = "/v1/openapi.json";
const DESCRIPTION_V2: &str = "/openapi.json";

/// The problem with the ids and paths of major 2 in `details`, for a caller of this tenant.
#[must_use]
pub fn bound(tenant: &str, mut problem: Problem) -> Problem {
    let text = |problem: &Problem, name: &str| {
        let found = problem.details.get(name).and_then(Value::as_str);
        found.map(str::to_owned)
    };
    for name in RUN_IDS {
        if let Some(run) = text(&problem, name) {
            problem = problem.with(name, id::bound(tenant, &run));
        }
    }
    let (name, begin, further) = RESOLVE_URL;
    if let Some(path) = text(&problem, name)
        && let Some((run, node)) = path
            .strip_prefix(begin)
            .and_then(|it| it.split_once(further))
    {
        let run = id::projected(tenant, run);
        problem = problem.with(name, format!("/runs/{run}{further}{node}"));
    }
    problem
}

/// The problem with links that a host with these majors serves.
#[must_use]
pub fn linked(majors: Majors, mut problem: Problem) -> Problem {
    if majors.has(Major::V1) {
        return problem;
    }
    // The one description that there is.
    problem.message = problem.message.replace(DESCRIPTION_V1, DESCRIPTION_V2);
    let (name, ..) = RESOLVE_URL;
    if let Some(path) = problem.details.get(name).and_then(Value::as_str) {
        let path = operation::link(majors, path.to_owned());
        problem = problem.with(name, path);
    }
    problem
}

/// The envelope of a problem.
pub fn envelope(major: Major, problem: &Problem) -> ErrorEnvelope {
    let mut problem = problem.clone();
    if major == Major::V2 {
        for member in BACK_OFF {
            problem.details.remove(*member);
        }
        // The description of major 2.
        problem.message = problem.message.replace(DESCRIPTION_V1, DESCRIPTION_V2);
        // A generic code names the family of capabilities that refused.
        if problem.code == ErrorCode::NoActiveDeployment {
            problem = problem.with("service", "agents");
        }
    }
    ErrorEnvelope {
        error: spelled(major, problem.code).0.to_owned(),
        ..problem.envelope()
    }
}

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
        | Code::ClientVersionUnsupported
        | Code::UnsupportedRuntime => (code.as_str(), code.status()),

        // Registered with another status.
        Code::EvalGateUnmet => ("eval_gate_unmet", 422),
        Code::CapabilityNotProvided => ("capability_not_provided", 422),
        Code::PackIntegrityMismatch => ("pack_integrity_mismatch", 409),
        Code::PackNamespaceUnauthorized => ("pack_namespace_unauthorized", 403),
        Code::PackRuntimeRequirementUnmet => ("pack_runtime_requirement_unmet", 422),
        Code::PackRegistryUnreachable => ("pack_registry_unreachable", 503),

        // Registered, and one with another code under major 1.
        Code::IdTenantMismatch => ("id_tenant_mismatch", 403),
        Code::IdempotencyKeyInvalid => ("idempotency_key_invalid", 400),
        Code::RunTerminal => ("run_terminal", 409),
        Code::RunStateConflict => ("run_state_conflict", 409),
        Code::RunExpired => ("run_expired", 410),
        Code::InterruptTokenInvalid => ("interrupt_token_invalid", 401),
        Code::EventTypeUnmapped => ("event_type_unmapped", 500),
        Code::PayloadUnprojectable => ("payload_unprojectable", 500),
        Code::NotOfThisRun => ("capability_not_provided", 422),
        Code::LimitReached => ("storage_limit_exceeded", 422),
        Code::AnsweredBefore => ("interrupt_already_resolved", 409),

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
        | Code::VersionConflict
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
    use rstest::rstest;
    use serde_json::json;

    /// Codes of the registry that this host uses, with their statuses.
    const REGISTERED: &[(&str, u16)] = &[
        ("capability_not_provided", 422),
        ("client_version_unsupported", 426),
        ("credential_revoked", 401),
        ("eval_gate_unmet", 422),
        ("event_type_unmapped", 500),
        ("forbidden", 403),
        ("force_engine_version_forbidden", 403),
        ("fork_point_invalid", 422),
        ("id_tenant_mismatch", 403),
        ("idempotency_in_flight", 409),
        ("idempotency_key_invalid", 400),
        ("idempotency_key_mismatch", 409),
        ("internal_error", 500),
        ("interrupt_already_resolved", 409),
        ("interrupt_expired", 410),
        ("interrupt_token_invalid", 401),
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
        ("payload_unprojectable", 500),
        ("protocol_version_mismatch", 400),
        ("protocol_version_unsupported", 406),
        ("rate_limited", 429),
        ("run_already_active", 409),
        ("run_expired", 410),
        ("run_forbidden", 403),
        ("run_state_conflict", 409),
        ("run_terminal", 409),
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

    /// The names and statuses of major 1, which later versions keep.
    const OF_MAJOR_1: &[(&str, u16)] = &[
        ("APPEAL_OPEN", 409),
        ("APPEAL_WINDOW_CLOSED", 422),
        ("ASSESSMENT_IN_PROGRESS", 409),
        ("INSUFFICIENT_EVIDENCE", 422),
        ("INVALID_EVENT_TYPE", 400),
        ("REVIEW_REQUIRED", 409),
        ("WEIGHT_SUM_INVALID", 422),
        ("agent_card_unreachable", 502),
        ("capability_not_provided", 501),
        ("conflict", 409),
        ("eval_gate_unmet", 403),
        ("forbidden", 403),
        ("force_engine_version_forbidden", 403),
        ("header_fields_too_large", 431),
        ("idempotency_in_flight", 409),
        ("idempotency_key_mismatch", 409),
        ("internal_error", 500),
        ("interrupt_already_resolved", 409),
        ("interrupt_cancelled", 422),
        ("interrupt_expired", 410),
        ("interrupt_not_found", 404),
        ("invalid_engines_range", 400),
        ("invalid_from_seq", 422),
        ("invalid_manifest", 400),
        ("invalid_pack_name", 400),
        ("invalid_version", 400),
        ("key_expired", 401),
        ("key_revoked", 401),
        ("manifest_name_mismatch", 400),
        ("manifest_version_mismatch", 400),
        ("method_not_allowed", 405),
        ("mock_provider_forbidden", 403),
        ("no_active_deployment", 400),
        ("not_acceptable", 406),
        ("not_found", 404),
        ("oasis_no_verdict", 409),
        ("oasis_run_not_terminal", 409),
        ("pack_engine_unsupported", 400),
        ("pack_integrity_mismatch", 400),
        ("pack_kind_invalid", 400),
        ("pack_lockfile_incomplete", 400),
        ("pack_namespace_unauthorized", 400),
        ("pack_not_approved", 403),
        ("pack_not_found", 404),
        ("pack_peer_dependency_missing", 400),
        ("pack_registry_unreachable", 502),
        ("pack_runtime_requirement_unmet", 400),
        ("pack_signature_invalid", 400),
        ("pack_validation_failed", 400),
        ("pack_version_not_found", 404),
        ("payload_too_large", 413),
        ("client_version_unsupported", 426),
        ("protocol_version_mismatch", 400),
        ("protocol_version_unsupported", 406),
        ("quota_exceeded", 403),
        ("rate_limited", 429),
        ("run_already_active", 409),
        ("run_forbidden", 403),
        ("signature_not_available", 404),
        ("signature_unknown_key", 400),
        ("subscription_not_found", 404),
        ("tarball_entry_missing", 400),
        ("tarball_entry_too_large", 400),
        ("tarball_gunzip_failed", 400),
        ("tarball_manifest_missing", 400),
        ("tarball_manifest_not_json", 400),
        ("tarball_manifest_too_large", 400),
        ("tarball_path_traversal", 400),
        ("tarball_tar_parse_failed", 400),
        ("tarball_too_large", 400),
        ("unauthenticated", 401),
        ("unavailable", 503),
        ("unsupported_media_type", 415),
        ("unsupported_mock_provider", 400),
        ("unsupported_runtime", 400),
        ("unsupported_stream_mode", 400),
        ("uri_too_long", 414),
        ("validation_error", 400),
        ("webhook_endpoint_unverified", 400),
        ("webhook_url_rejected", 400),
    ];

    #[test]
    fn major_1_keeps_its_names_and_statuses() {
        let mut found: Vec<_> = ErrorCode::ALL
            .iter()
            .map(|it| spelled(Major::V1, *it))
            .collect();
        found.sort_unstable();
        found.dedup();
        let mut expected = OF_MAJOR_1.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case(ErrorCode::RunTerminal, ("conflict", 409), ("run_terminal", 409))]
    #[case(ErrorCode::RunStateConflict, ("conflict", 409), ("run_state_conflict", 409))]
    #[case(ErrorCode::VersionConflict, ("conflict", 409), ("version_conflict", 409))]
    #[case(ErrorCode::RunExpired, ("conflict", 409), ("run_expired", 410))]
    #[case(ErrorCode::NotOfThisRun, ("conflict", 409), ("capability_not_provided", 422))]
    #[case(ErrorCode::LimitReached, ("conflict", 409), ("storage_limit_exceeded", 422))]
    #[case(ErrorCode::AnsweredBefore, ("conflict", 409), ("interrupt_already_resolved", 409))]
    #[case(ErrorCode::IdTenantMismatch, ("not_found", 404), ("id_tenant_mismatch", 403))]
    #[case(ErrorCode::IdempotencyKeyInvalid, ("validation_error", 400), ("idempotency_key_invalid", 400))]
    #[case(ErrorCode::InterruptTokenInvalid, ("interrupt_not_found", 404), ("interrupt_token_invalid", 401))]
    #[case(ErrorCode::PayloadUnprojectable, ("internal_error", 500), ("payload_unprojectable", 500))]
    #[case(ErrorCode::KeyRevoked, ("key_revoked", 401), ("credential_revoked", 401))]
    #[case(ErrorCode::MethodNotAllowed, ("method_not_allowed", 405), ("not_found", 404))]
    #[case(ErrorCode::EvalGateUnmet, ("eval_gate_unmet", 403), ("eval_gate_unmet", 422))]
    fn majors_spell_codes_differently(
        #[case] code: ErrorCode,
        #[case] in_v1: (&str, u16),
        #[case] in_v2: (&str, u16),
    ) {
        assert_eq!(spelled(Major::V1, code), in_v1);
        assert_eq!(spelled(Major::V2, code), in_v2);
    }

    #[test]
    fn links_lead_to_what_a_host_serves() {
        let shown = |majors, url: &str| {
            let problem = Problem::new(ErrorCode::NotFound, "see `/v1/openapi.json`");
            let problem = linked(majors, problem.with("resolveUrl", url));
            (problem.message, problem.details["resolveUrl"].clone())
        };
        let of_v1 = "/v1/runs/run_1/interrupts/gate";
        let expected = ("see `/v1/openapi.json`".to_owned(), json!(of_v1));
        assert_eq!(shown(Majors::Both, of_v1), expected);
        let twin = json!("/host/touchstone/v1/runs/run_1/interrupts/gate");
        let expected = ("see `/openapi.json`".to_owned(), twin);
        assert_eq!(shown(Majors::V2, of_v1), expected);
        let of_v2 = "/runs/acme~2Frun_1/interrupts/gate";
        assert_eq!(shown(Majors::V2, of_v2).1, json!(of_v2));
    }

    #[test]
    fn details_name_the_tenant_under_major_2() {
        let problem = Problem::new(ErrorCode::RunStateConflict, "no")
            .with("activeRunId", "run_1")
            .with("runStatus", "running")
            .with("resolveUrl", "/v1/runs/run_1/interrupts/gate");
        let expected = json!({
            "activeRunId": "acme/run_1",
            "runStatus": "running",
            "resolveUrl": "/runs/acme~2Frun_1/interrupts/gate",
        });
        assert_eq!(
            bound("acme", problem).details,
            *expected.as_object().unwrap()
        );
    }

    #[test]
    fn only_major_1_says_in_details_when_to_try_again() {
        let problem = Problem::new(ErrorCode::RateLimited, "no").with("retryAfterMs", 5);
        let in_v1 = envelope(Major::V1, &problem);
        assert_eq!(in_v1, problem.envelope());
        let in_v2 = envelope(Major::V2, &problem.with("scope", "key"));
        assert_eq!(in_v2.details, json!({"scope": "key"}).as_object().cloned());
        let bare = Problem::new(ErrorCode::RateLimited, "no").with("retryAfter", 5);
        assert_eq!(envelope(Major::V2, &bare).details, None);
    }
}
