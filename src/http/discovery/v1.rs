//! The document of major 1 (OpenWOP capabilities, RFC 0031).

use serde_json::{Value, json};

use crate::http::discovery::facts::{ENGINE_VERSION, FORK_MODES, Facts, Members, members};
use touchstone_host::http::answer::encoding::ENCODINGS;
use touchstone_kit::webhook::SCHEMES;
use touchstone_openwop::events::DrainPolicy;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;

const IDEMPOTENCY_RETENTION_SECONDS: u64 = 86_400;

/// Families that only test keys can use: mock providers and test seams.
pub const OF_TEST_KEYS: &[&str] = &["testing", "observability"];

pub fn document(facts: &Facts<'_>) -> Members {
    let mut document = members(json!({
        "protocolVersion": Major::V1.version(),
        "protocolVersions": facts.versions(),
        "preferredVersion": facts.preferred_version(),
        "engineVersion": ENGINE_VERSION,
        "eventLogSchemaVersion": LogMark::of_new(Major::V1).era(),
        "implementation": Facts::implementation(),
        "supportedTransports": ["rest"],
        // The root requires both members.
        "supportedEnvelopes": facts.envelopes(),
        "schemaVersions": facts.envelope_versions(),
        "limits": facts.limits(),
        "agents": {
            "supported": true,
            "manifestRuntime": supported(Facts::manifest_runtime()),
            "liveRuntime": supported(facts.live_runtime()),
            "evalSuite": supported(facts.eval_suites()),
            "deployment": supported(facts.deployment()),
        },
        "authorization": supported(facts.authorization()),
        "auth": auth(facts),
        "providerUsage": supported(Facts::provider_usage()),
        "budget": supported(facts.budget()),
        "idempotency": {
            "supported": true,
            "layer1RetentionSeconds": IDEMPOTENCY_RETENTION_SECONDS,
            "crossRegion": "single-region",
        },
        "feedback": supported(Facts::feedback()),
        "replay": {
            "supported": true,
            "modes": FORK_MODES,
            "sideEffectSuppression": "recorded-outcome",
        },
        "debugBundle": {"supported": true},
        "compliance": Facts::compliance(),
        "webhooks": {
            "supported": true,
            "signatureAlgorithms": SCHEMES,
            "durable": false,
            "secretRotation": Facts::secret_rotation(),
        },
        "restTransport": {"conditionalRunGet": true, "contentEncodings": ENCODINGS},
        "runs": {"pauseResume": {"supported": true, "drainPolicies": DrainPolicy::ALL}},
        "secrets": {"supported": false},
    }));
    if let Some(workflows) = facts.workflows() {
        document.insert("fixtures".to_owned(), workflows);
    }
    if let Some(testing) = facts.testing() {
        document.insert("testing".to_owned(), testing);
        document.insert(
            "observability".to_owned(),
            json!({"testSeams": {"debugBundleExport": true}}),
        );
        document.insert(
            "discovery".to_owned(),
            json!({"authScoped": {"supported": true, "mode": "same-endpoint"}}),
        );
    }
    document
}

/// A capability that is offered.
fn supported(mut facets: Members) -> Members {
    facets.insert("supported".to_owned(), Value::Bool(true));
    facets
}

/// The profile of the audit log, with the public key that verifies its checkpoints.
fn auth(facts: &Facts<'_>) -> Value {
    let mut integrity = facts.audit_checkpoints();
    integrity.insert("hashChain".to_owned(), Value::Bool(true));
    json!({
        "profiles": ["openwop-audit-log-integrity"],
        "auditLogIntegrity": integrity,
    })
}
