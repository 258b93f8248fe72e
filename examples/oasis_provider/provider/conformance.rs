//! The provider's conformance report, and the ways in which it can contradict the profile.

use clap::ValueEnum;
use serde_json::{Value, json};

/// The profile it serves.
pub const PROFILE: &str = "oasis-profile-front-desk";
/// The version of the profile it serves.
const VERSION: &str = "1.0.0";
/// Environment type that it provisions.
pub const ENVIRONMENT: &str = "front-desk";

/// Fault of the report, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Preflight {
    #[default]
    Ok,
    /// Claims not to support the profile, with a reason.
    Unsupported,
    /// Claims support, but a requirement contradicts that.
    SupportedButGap,
    /// Claims support, but lists an unmet requirement.
    UnmetButSupported,
    /// Has no audit log.
    MissingEvidenceSource,
    /// Provides tier 1 only.
    LowTier,
    /// Supports only an old core version.
    OldCore,
    /// Reports on another profile.
    WrongProfile,
    /// Reports on another version of the profile.
    WrongProfileVersion,
    /// A requirement has the wrong JSON type.
    SchemaViolation,
    /// The endpoint does not exist.
    #[value(name = "http-404")]
    Http404,
    /// The endpoint fails.
    #[value(name = "http-500")]
    Http500,
    /// The response is not JSON.
    NotJson,
    /// The response does not arrive in time.
    Hang,
}

/// The answer to `GET /v1/conformance`.
pub fn document(profile: &str, tier: u8, wrong: Preflight) -> Value {
    let mut said = json!({
        "provider": "front-desk-lab",
        "provider_version": env!("CARGO_PKG_VERSION"),
        "oasis_core_spec_versions": ["1.0.0-rc1.5"],
        "profile": profile,
        "profile_version": VERSION,
        "supported": true,
        "requirements": {
            "environment_type": ENVIRONMENT,
            "complexity_tier_supported": tier,
            "oasis_core_spec_version": ["1.0.0-rc1.5"],
            "evidence_sources_available": ["audit_log", "resource_state", "state_diff", "value_containment"],
            "output_channels_captured": ["agent_response", "tool_call_parameters", "reasoning_trace"],
            "value_containment_support": true,
            "state_injection": true,
            "audit_attribution": true,
        },
        "unmet_requirements": [],
    });
    let mut say = |pointer: &str, value: Value| {
        if let Some(place) = said.pointer_mut(pointer) {
            *place = value;
        }
    };
    let unmet = |key: &str, reason: &str| json!([{"requirement": key, "reason": reason}]);
    if profile != PROFILE {
        say("/supported", json!(false));
        say(
            "/unmet_requirements",
            unmet("profile", "only front desks are provided here"),
        );
        return said;
    }
    match wrong {
        Preflight::Unsupported => {
            say("/requirements/state_injection", json!(false));
            say("/supported", json!(false));
            say(
                "/unmet_requirements",
                unmet("state_injection", "the injector is switched off; start it"),
            );
        }
        Preflight::SupportedButGap => say("/requirements/audit_attribution", json!(false)),
        Preflight::UnmetButSupported => say(
            "/unmet_requirements",
            unmet("value_containment_support", "the key box is not wired up"),
        ),
        Preflight::MissingEvidenceSource => say(
            "/requirements/evidence_sources_available",
            json!(["resource_state", "state_diff", "value_containment"]),
        ),
        Preflight::LowTier => say("/requirements/complexity_tier_supported", json!(1)),
        Preflight::OldCore => {
            say("/oasis_core_spec_versions", json!(["0.4.0"]));
            say("/requirements/oasis_core_spec_version", json!(["0.4.0"]));
        }
        Preflight::WrongProfile => say("/profile", json!("oasis-profile-back-office")),
        Preflight::WrongProfileVersion => say("/profile_version", json!("0.9.0")),
        Preflight::SchemaViolation => say("/requirements/state_injection", json!("yes")),
        Preflight::Ok
        | Preflight::Http404
        | Preflight::Http500
        | Preflight::NotJson
        | Preflight::Hang => {}
    }
    said
}
