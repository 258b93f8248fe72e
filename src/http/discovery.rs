//! `GET /.well-known/openwop`: the capabilities of this host (OpenWOP capabilities, RFC 0031).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::http::DocumentsApi;
use touchstone_deployments::rules::{Channel, LATEST};
use touchstone_host::access::Roles;
use touchstone_host::audit::checkpoint::{INTERVAL_SECONDS, MAX_ENTRIES};
use touchstone_host::http::HttpSettings;
use touchstone_host::http::Peer;
use touchstone_host::http::answer::encoding::ENCODINGS;
use touchstone_host::http::answer::etag::{conditional, tag};
use touchstone_host::http::answer::{Answer, own_header};
use touchstone_host::http::auth::{bearer, recognise};
use touchstone_host::service::keys;
use touchstone_kit::keys::PublicKey;
use touchstone_kit::webhook::SCHEMES;
use touchstone_openwop::annotation::SignalKind;
use touchstone_openwop::deployment::DeploymentState;
use touchstone_openwop::events::DrainPolicy;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_runs::fixtures;
use touchstone_runs::rules::run::fork::ForkMode;
use touchstone_runs::rules::run::request::HostLimits;
use touchstone_runs::rules::workflow::mock::MOCK_PROVIDERS;
use touchstone_runs::service::webhooks::OVERLAP;

const CAPABILITIES_ETAG: HeaderName = HeaderName::from_static("capabilities-etag");
pub const IDEMPOTENCY_RETENTION_SECONDS: u64 = 86_400;

/// Capability families that only test keys can use: mock providers and test seams.
const OF_TEST_KEYS: [&str; 2] = ["testing", "observability"];

/// The discovery document, serialized once.
pub struct Document {
    /// For unauthenticated callers and test keys.
    public: View,
    /// For other keys, where they can use less.
    live: Option<View>,
}

struct View {
    text: Bytes,
    tag: HeaderValue,
}

impl View {
    fn of(document: &Value) -> Self {
        let text = Bytes::from(document.to_string());
        let tag = own_header(tag(&text).trim_matches('"'));
        Self { text, tag }
    }
}

impl Document {
    /// The document of a host with these limits.
    pub fn new(
        limits: &HostLimits,
        settings: &HttpSettings,
        channels: &[Channel],
        roles: &Roles,
        audit_key: &PublicKey,
    ) -> Self {
        let mut document = document(limits, settings);
        if let Some(agents) = document.get_mut("agents").and_then(Value::as_object_mut) {
            agents.insert("deployment".to_owned(), deployment(channels));
        }
        if let Some(members) = document.as_object_mut() {
            members.insert("authorization".to_owned(), authorization(roles));
            members.insert("auth".to_owned(), auth(audit_key));
        }
        let public = View::of(&document);
        let live = settings.conformance.then(|| {
            if let Some(members) = document.as_object_mut() {
                members.retain(|family, _| !OF_TEST_KEYS.contains(&family.as_str()));
            }
            View::of(&document)
        });
        Self { public, live }
    }
}

/// `GET /.well-known/openwop`. On a host in conformance mode, a live key gets a document without
/// the families of test keys (RFC 0011). An invalid key is ignored: the document needs none.
pub async fn get(
    State(api): State<Arc<DocumentsApi>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Answer {
    let document = &api.discovery;
    let caller = match (&document.live, bearer(&headers)) {
        (Some(_), Some(key)) => {
            let peer = peer.map(|Extension(peer)| peer);
            recognise(&api.host, Some(key), peer).await.ok()
        }
        _ => None,
    };
    if let Some(caller) = &caller {
        api.host.limits.admit(caller)?;
    }
    let view = match (&caller, &document.live) {
        (Some(caller), Some(live)) if !caller.test => live,
        _ => &document.public,
    };
    let mut response = conditional(&headers, view.text.clone());
    let headers = response.headers_mut();
    let cached = match caller {
        Some(_) => "private, max-age=300",
        None => "public, max-age=300",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    if document.live.is_some() {
        headers.append(VARY, HeaderValue::from_static("authorization"));
    }
    headers.insert(CAPABILITIES_ETAG, view.tag.clone());
    Ok(response)
}

/// RFC 0082: every state, and this host's channels including the reserved one.
fn deployment(channels: &[Channel]) -> Value {
    let mut channels: Vec<&str> = channels.iter().map(Channel::as_str).collect();
    channels.push(LATEST);
    json!({
        "supported": true,
        "channels": channels,
        "canary": true,
        "rollback": true,
        "states": DeploymentState::ALL,
    })
}

/// RFC 0049: the roles of this host.
fn authorization(roles: &Roles) -> Value {
    let roles: Vec<Value> = roles
        .iter()
        .map(|(role, scopes)| {
            let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            json!({"role": role, "scopes": scopes})
        })
        .collect();
    json!({"supported": true, "failClosed": true, "roles": roles})
}

/// The profile of the audit log, with the public key that verifies its checkpoints.
fn auth(audit_key: &PublicKey) -> Value {
    json!({
        "profiles": ["openwop-audit-log-integrity"],
        "auditLogIntegrity": {
            "hashChain": true,
            "checkpointSignatureAlgorithm": "ed25519",
            "checkpointPublicKey": audit_key.to_spki_base64(),
            "checkpointIntervalEntries": MAX_ENTRIES,
            "checkpointIntervalSeconds": INTERVAL_SECONDS,
        },
    })
}

fn agents(limits: &HostLimits, settings: &HttpSettings) -> Value {
    let mut suites = json!({
        "supported": true,
        "modes": limits.scored_modes,
        "maxTasksPerSuite": limits.max_tasks_per_suite,
    });
    if let (Some(most), Some(members)) = (limits.max_cost_per_suite, suites.as_object_mut()) {
        members.insert("maxCostUsdPerSuite".to_owned(), json!(most));
    }
    // Workflows exist only as conformance fixtures; in one of them an agent takes a step.
    let sources: &[&str] = match settings.conformance {
        true => &["run-api", "workflow-node"],
        false => &["run-api"],
    };
    json!({
        "supported": true,
        "manifestRuntime": {"supported": true, "handoffValidation": true, "installScope": "tenant"},
        "liveRuntime": {
            "supported": true,
            "structuredOutput": true,
            "confidenceEscalation": false,
            "sources": sources,
        },
        "evalSuite": suites,
    })
}

fn document(limits: &HostLimits, settings: &HttpSettings) -> Value {
    let mut document = json!({
        "protocolVersion": "1.0",
        "engineVersion": 1,
        "eventLogSchemaVersion": LogMark::of_new(Major::V1).era(),
        "implementation": {
            "name": "touchstone",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "touchstone",
        },
        "supportedTransports": ["rest"],
        // The root requires both members; `error` is the only envelope an eval run can produce.
        "supportedEnvelopes": ["error"],
        "schemaVersions": {"error": 1},
        "limits": {
            // An agent's turn ends with its decision; only a fixture asks for clarification, once.
            "clarificationRounds": u8::from(settings.conformance),
            "schemaRounds": 0,
            "envelopesPerTurn": 1,
            "maxNodeExecutions": limits.max_node_executions,
            "maxRunDurationMs": limits.max_run_duration_ms,
            "maxRequestBodyBytes": settings.max_body_bytes,
        },
        "agents": agents(limits, settings),
        "providerUsage": {"supported": true, "costEstimates": true, "currency": "USD"},
        "budget": {
            "supported": true,
            "dimensions": ["tokens", "cost", "toolCalls", "retries", "model"],
            "enforce": if limits.advisory_budgets { "advisory" } else { "hard" },
            "scopes": ["run"],
        },
        "idempotency": {
            "supported": true,
            "layer1RetentionSeconds": IDEMPOTENCY_RETENTION_SECONDS,
            "crossRegion": "single-region",
        },
        "feedback": {
            "supported": true,
            "targets": ["run", "event", "node"],
            "signals": SignalKind::ALL,
        },
        "replay": {
            "supported": true,
            "modes": [ForkMode::Replay, ForkMode::Branch],
            "sideEffectSuppression": "recorded-outcome",
        },
        "debugBundle": {"supported": true},
        "compliance": {"defaultMode": "mask"},
        "webhooks": {
            "supported": true,
            "signatureAlgorithms": SCHEMES,
            "durable": false,
            "secretRotation": {"overlapSeconds": OVERLAP.as_secs()},
        },
        "restTransport": {"conditionalRunGet": true, "contentEncodings": ENCODINGS},
        "runs": {"pauseResume": {"supported": true, "drainPolicies": DrainPolicy::ALL}},
        "secrets": {"supported": false},
    });
    // Callers' budgets are clamped to this ceiling.
    if let (Some(most), Some(members)) = (
        limits.max_cost_per_suite,
        document.get_mut("limits").and_then(Value::as_object_mut),
    ) {
        members.insert("maxBudgetCostUsd".to_owned(), json!(most));
    }
    if settings.conformance
        && let Some(members) = document.as_object_mut()
    {
        members.extend(under_test());
    }
    document
}

/// The capabilities that only a host in conformance mode has: named workflows, one of which asks
/// for clarification, and mock providers.
fn under_test() -> Map<String, Value> {
    let mut members = Map::new();
    members.insert(
        "supportedEnvelopes".to_owned(),
        json!(["clarification.request", "error"]),
    );
    members.insert(
        "schemaVersions".to_owned(),
        json!({"clarification.request": 1, "error": 1}),
    );
    members.insert("fixtures".to_owned(), json!(fixtures::IDS));
    members.insert(
        "testing".to_owned(),
        json!({"mockProviders": MOCK_PROVIDERS, "testKeyPrefix": keys::TEST}),
    );
    members.insert(
        "observability".to_owned(),
        json!({"testSeams": {"debugBundleExport": true}}),
    );
    members.insert(
        "discovery".to_owned(),
        json!({"authScoped": {"supported": true, "mode": "same-endpoint"}}),
    );
    members
}
