//! The document of major 2 (OpenWOP v2 capabilities). Each family is a record whose presence is the
//! claim, and everything is closed.

use serde_json::{Value, json};

use crate::http::discovery::facts::{ENGINE_VERSION, FORK_MODES, Facts, Members, members};
use touchstone_kit::webhook::SCHEMES;
use touchstone_kit::webhook::schedule::{DEAD_LETTER_DAYS, MAX_ATTEMPTS, MAX_DEAD_LETTERS};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_openwop::wire::v2::MAX_PAGE;
use touchstone_openwop::wire::v2::subject::{API_KEYS, SESSIONS};

/// Members that only test keys can use.
pub const OF_TEST_KEYS: &[&str] = &["testing"];

/// How long the experimental families at least stay as they are. Each release moves it.
const UNTIL: &str = "2027-12-31";

// How a claim can be verified: the class that OpenWOP gives to the family.
const GATED: &str = "witnessable-gated";
const BY_SEAM: &str = "seam-gated";
const BY_CLAIM: &str = "claims-check";

pub fn document(facts: &Facts<'_>) -> Members {
    let mut document = metadata(facts);
    for (family, record) in families(facts) {
        document.insert(family.to_owned(), Value::Object(record));
    }
    document
}

fn metadata(facts: &Facts<'_>) -> Members {
    let mut metadata = members(json!({
        "protocolVersion": facts.preferred_version(),
        "protocolVersions": facts.versions(),
        "preferredVersion": facts.preferred_version(),
        "engineVersion": ENGINE_VERSION,
        "eventLogSchemaVersion": LogMark::of_new(Major::V2).era(),
        "implementation": Facts::implementation(),
        "compliance": Facts::compliance(),
    }));
    let optional = [
        (
            "minClientVersion",
            facts.min_client_version().map(Value::from),
        ),
        ("fixtures", facts.workflows()),
        ("testing", facts.testing()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            metadata.insert(name.to_owned(), value);
        }
    }
    metadata
}

fn families(facts: &Facts<'_>) -> [(&'static str, Members); 16] {
    [
        ("limits", stable(facts.limits())),
        (
            "supportedEnvelopes",
            stable(members(json!({"kinds": facts.envelopes()}))),
        ),
        (
            "schemaVersions",
            stable(members(json!({"kinds": facts.envelope_versions()}))),
        ),
        ("agents", experimental(GATED, agents(facts))),
        (
            "interrupt",
            experimental(GATED, members(json!({"tokenAlgs": ["hs256"]}))),
        ),
        (
            "replay",
            experimental(
                GATED,
                members(json!({
                    "modes": FORK_MODES,
                    "effectSeamsManifest": "/host/effect-seams",
                })),
            ),
        ),
        ("webhooks", experimental(GATED, webhooks())),
        ("idempotency", experimental(GATED, Members::new())),
        ("eventLog", experimental(BY_CLAIM, Members::new())),
        (
            "runList",
            experimental(
                GATED,
                members(json!({"maxPageSize": MAX_PAGE, "filters": ["workflowId", "status"]})),
            ),
        ),
        ("feedback", experimental(GATED, Facts::feedback())),
        (
            "providerUsage",
            experimental(GATED, Facts::provider_usage()),
        ),
        ("authorization", experimental(GATED, facts.authorization())),
        ("auth", experimental(BY_SEAM, lanes(facts))),
        (
            "auditLogIntegrity",
            experimental(GATED, facts.audit_checkpoints()),
        ),
        ("budget", experimental(GATED, facts.budget())),
    ]
}

fn stable(facets: Members) -> Members {
    record("stable", GATED, facets)
}

fn experimental(witness: &str, facets: Members) -> Members {
    let mut record = record("experimental", witness, facets);
    record.insert("until".to_owned(), UNTIL.into());
    record
}

fn record(status: &str, witness: &str, mut facets: Members) -> Members {
    facets.insert("status".to_owned(), status.into());
    facets.insert("since".to_owned(), Major::V2.version().into());
    facets.insert("witness".to_owned(), witness.into());
    facets
}

fn agents(facts: &Facts<'_>) -> Members {
    let mut suites = facts.eval_suites();
    suites.insert("baselineSelection".to_owned(), Value::Bool(true));
    suites.insert("recordedFixtures".to_owned(), Value::Bool(true));
    members(json!({
        "manifestRuntime": Facts::manifest_runtime(),
        "liveRuntime": facts.live_runtime(),
        "evalSuite": suites,
        "deployment": facts.deployment(),
    }))
}

fn webhooks() -> Members {
    members(json!({
        "signatureAlgorithms": SCHEMES,
        "retryPolicy": {"maxAttempts": MAX_ATTEMPTS, "backoff": "exponential"},
        "deadLetter": {
            "retentionDays": DEAD_LETTER_DAYS,
            "maxPageSize": MAX_DEAD_LETTERS,
        },
        "secretRotation": Facts::secret_rotation(),
    }))
}

/// Who callers and people are authenticated by. Both stop to be valid with the next request.
fn lanes(facts: &Facts<'_>) -> Members {
    let mut lanes = vec![lane("api-key", API_KEYS)];
    if facts.people_sign_in {
        lanes.push(lane("session", SESSIONS));
    }
    members(json!({"lanes": lanes}))
}

fn lane(lane: &str, issuer: &str) -> Value {
    json!({
        "lane": lane,
        "issuers": [issuer],
        "revocation": "next-request",
        "minimumAssurance": "bearer",
    })
}
