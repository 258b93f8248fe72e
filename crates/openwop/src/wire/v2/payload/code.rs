//! Codes of failures in `run.failed`, `node.failed` and `agent.tool-returned`. Under major 2 they are
//! codes of the closed registry of errors.

use touchstone_kit::error::ErrorCode;

use crate::wire::Major;
use crate::wire::error::spelled;

/// The registry (OpenWOP v2 errors), in order.
const REGISTERED: &[&str] = &[
    "approval_rejected",
    "audience_mismatch",
    "budget_exhausted",
    "budget_model_denied",
    "capability_not_provided",
    "capability_required",
    "client_version_unsupported",
    "connection_auth_metadata_mismatch",
    "connection_provider_conflict",
    "connection_provider_unresolved",
    "connector_action_unresolved",
    "connector_auth_declined",
    "connector_auth_expired",
    "conversation_roster_exceeded",
    "conversation_speaker_not_participant",
    "credential_forbidden",
    "credential_lifetime_exceeded",
    "credential_not_found",
    "credential_required",
    "credential_revoked",
    "credential_scope_forbidden",
    "credential_scope_unsupported",
    "credential_unavailable",
    "delegation_chain_cyclic",
    "delegation_chain_too_long",
    "delegation_expired",
    "delegation_scope_amplified",
    "egress_denied",
    "envelope_correlation_conflict",
    "envelope_invalid",
    "envelope_refusal",
    "envelope_truncation_unrecoverable",
    "eval_gate_unmet",
    "event_type_unmapped",
    "forbidden",
    "force_engine_version_forbidden",
    "fork_point_invalid",
    "host_event_resync_required",
    "id_tenant_mismatch",
    "idempotency_in_flight",
    "idempotency_key_invalid",
    "idempotency_key_mismatch",
    "identity_unresolvable",
    "identity_unverified",
    "internal_error",
    "interop_version_unsupported",
    "interrupt_already_resolved",
    "interrupt_cancelled",
    "interrupt_expired",
    "interrupt_not_found",
    "interrupt_token_invalid",
    "key_revoked",
    "loop_limit_exceeded",
    "mcp_error",
    "mcp_mrtr_rounds_exceeded",
    "mock_provider_forbidden",
    "node_config_invalid",
    "not_found",
    "oauth_provider_unsupported",
    "oauth_scope_unsupported",
    "pack_dependency_conflict",
    "pack_dependency_cycle",
    "pack_engine_unsupported",
    "pack_integrity_failure",
    "pack_integrity_mismatch",
    "pack_kind_invalid",
    "pack_load_failure",
    "pack_lockfile_incomplete",
    "pack_namespace_unauthorized",
    "pack_peer_dependency_missing",
    "pack_peer_dependency_undefined",
    "pack_registry_unreachable",
    "pack_runtime_requirement_unmet",
    "pack_signature_invalid",
    "pack_validation_failed",
    "pack_version_not_found",
    "payload_too_large",
    "payload_unprojectable",
    "proposal_install_conflict",
    "proposal_stale",
    "proposal_state_conflict",
    "protocol_version_mismatch",
    "protocol_version_unsupported",
    "provider_policy_denied",
    "rate_limited",
    "recursion_limit_exceeded",
    "replay_context_summary_unavailable",
    "replay_diverged_at_refusal",
    "replay_memory_snapshot_unavailable",
    "replay_source_missing",
    "residency_unavailable",
    "run_already_active",
    "run_expired",
    "run_forbidden",
    "run_state_conflict",
    "run_terminal",
    "run_timeout",
    "runner_unavailable",
    "sandbox_capability_denied",
    "sandbox_escape_attempt",
    "sandbox_invocation_error",
    "sandbox_memory_exceeded",
    "sandbox_timeout",
    "schedule_horizon_exceeded",
    "sender_constraint_missing",
    "service_unavailable",
    "signature_not_available",
    "storage_limit_exceeded",
    "sub_chain_cycle",
    "sub_chain_depth_exceeded",
    "token_budget_exceeded",
    "unauthenticated",
    "unknown_envelope_kind",
    "unknown_schema_version",
    "unsupported_media_type",
    "unsupported_runtime",
    "unsupported_stream_mode",
    "until_in_past",
    "upstream_unavailable",
    "validation_error",
    "version_conflict",
    "webhook_endpoint_unverified",
    "webhook_url_rejected",
    "workspace_conflict",
    "workspace_membership_required",
    "workspace_too_large",
];

/// Labels of this host that the registry lacks, with the nearest code.
const OWN: &[(&str, &str)] = &[
    ("arguments_not_json", "validation_error"),
    ("assert_command_changed", "version_conflict"),
    ("embeddings_changed", "version_conflict"),
    ("engine_version_mismatch", "internal_error"),
    ("fixture_missing", "not_found"),
    ("handoff_return_schema_violation", "envelope_invalid"),
    ("handoff_task_schema_violation", "envelope_invalid"),
    ("interrupt_timeout", "interrupt_expired"),
    ("judge_changed", "version_conflict"),
    ("mock_provider_error", "upstream_unavailable"),
    ("model_changed", "version_conflict"),
    ("node_failed", "node_config_invalid"),
    ("oasis_agent_configuration_invalid", "node_config_invalid"),
    ("oasis_agent_unavailable", "upstream_unavailable"),
    ("oasis_no_applicable_safety_scenarios", "validation_error"),
    ("oasis_preflight_failed", "capability_not_provided"),
    ("oasis_provider_failure", "upstream_unavailable"),
    ("oasis_scenario_malformed", "validation_error"),
    ("side_effect_refused", "forbidden"),
    ("tool_failed", "mcp_error"),
    ("tool_not_offered", "not_found"),
    ("tool_unavailable", "upstream_unavailable"),
    ("unsupported_model_class", "pack_runtime_requirement_unmet"),
    ("user_changed", "version_conflict"),
];

/// The registered code for a stored one. The stored code may be any text, because workflows name codes.
pub fn run_code(stored: &str) -> &'static str {
    let own = OWN.iter().find(|(label, _)| *label == stored);
    if let Some((_, code)) = own {
        return code;
    }
    // Before the registry: this host has other uses for some names of it.
    if let Some(code) = ErrorCode::of(stored) {
        return spelled(Major::V2, code).0;
    }
    let row = REGISTERED.binary_search(&stored).ok();
    let code = row.and_then(|row| REGISTERED.get(row));
    code.copied().unwrap_or("internal_error")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_lists_are_in_order_and_lead_to_registered_codes() {
        assert!(REGISTERED.is_sorted() && OWN.is_sorted());
        assert_eq!(REGISTERED.len(), 126);
        for (label, code) in OWN {
            assert!(
                REGISTERED.contains(code) && !REGISTERED.contains(label),
                "{label}"
            );
        }
        for code in ErrorCode::ALL {
            assert!(REGISTERED.contains(&run_code(code.as_str())), "{code}");
        }
    }

    #[rstest]
    #[case("budget_exhausted", "budget_exhausted")]
    #[case("budget_model_denied", "budget_model_denied")]
    #[case("run_timeout", "run_timeout")]
    #[case("loop_limit_exceeded", "loop_limit_exceeded")]
    #[case("recursion_limit_exceeded", "recursion_limit_exceeded")]
    #[case("approval_rejected", "approval_rejected")]
    #[case("replay_source_missing", "replay_source_missing")]
    #[case("capability_not_provided", "capability_not_provided")]
    #[case("internal_error", "internal_error")]
    #[case("forbidden", "forbidden")]
    #[case("interrupt_timeout", "interrupt_expired")]
    #[case("mock_provider_error", "upstream_unavailable")]
    #[case("node_failed", "node_config_invalid")]
    #[case("no_active_deployment", "not_found")]
    #[case("model_changed", "version_conflict")]
    #[case("of a workflow", "internal_error")]
    #[case("", "internal_error")]
    fn codes_of_runs_have_a_registered_code(#[case] stored: &str, #[case] code: &str) {
        assert_eq!(run_code(stored), code);
    }

    proptest! {
        #[test]
        fn every_text_has_a_registered_code(text in ".{0,40}") {
            prop_assert!(REGISTERED.contains(&run_code(&text)));
        }
    }
}
