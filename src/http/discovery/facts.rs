//! What this host offers, without the form of a major.
//!
//! Where both majors describe a capability with the same members, these are here.

use serde_json::{Map, Value, json};

use touchstone_deployments::rules::{Channel, LATEST};
use touchstone_host::access::Roles;
use touchstone_host::audit::checkpoint::{INTERVAL_SECONDS, MAX_ENTRIES};
use touchstone_host::http::HttpSettings;
use touchstone_host::service::keys;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::annotation::SignalKind;
use touchstone_openwop::deployment::DeploymentState;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::version::Majors;
use touchstone_runs::fixtures;
use touchstone_runs::rules::run::fork::ForkMode;
use touchstone_runs::rules::run::request::HostLimits;
use touchstone_runs::rules::workflow::mock::MOCK_PROVIDERS;
use touchstone_runs::service::webhooks::OVERLAP;

pub const ENGINE_VERSION: u64 = 1;
/// The envelope that asks for clarification; only a conformance fixture does.
const CLARIFICATION: &str = "clarification.request";
/// The only envelope that an eval run can produce.
const ERROR: &str = "error";
const ENVELOPE_VERSION: u64 = 1;
pub const FORK_MODES: [ForkMode; 2] = [ForkMode::Replay, ForkMode::Branch];

pub type Members = Map<String, Value>;

/// The parts of a host that its capabilities depend on.
pub struct Facts<'a> {
    pub limits: &'a HostLimits,
    pub settings: &'a HttpSettings,
    pub channels: &'a [Channel],
    pub roles: &'a Roles,
    /// Verifies checkpoints of the audit log.
    pub audit_key: &'a PublicKey,
    /// Whether people sign in with OpenID Connect.
    pub people_sign_in: bool,
}

/// The members of an object.
pub fn members(object: Value) -> Members {
    match object {
        Value::Object(members) => members,
        _ => Members::new(),
    }
}

impl Facts<'_> {
    pub const fn majors(&self) -> Majors {
        self.settings.protocol.majors
    }

    pub fn versions(&self) -> Vec<&'static str> {
        let majors = self.majors().list().iter();
        majors.copied().map(Major::version).collect()
    }

    pub const fn preferred_version(&self) -> &'static str {
        self.majors().preferred().version()
    }

    /// `MAJOR.MINOR` of the oldest client that major 2 answers.
    pub fn min_client_version(&self) -> Option<String> {
        let (major, minor) = self.settings.protocol.min_client?;
        Some(format!("{major}.{minor}"))
    }

    /// Workflows exist only as conformance fixtures.
    pub const fn has_workflows(&self) -> bool {
        self.settings.conformance
    }

    pub fn implementation() -> Value {
        json!({
            "name": "touchstone",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "touchstone",
        })
    }

    pub fn compliance() -> Value {
        json!({"defaultMode": "mask"})
    }

    pub fn limits(&self) -> Members {
        let limits = self.limits;
        let mut members = members(json!({
            // An agent's turn ends with its decision; only a fixture asks for clarification, once.
            "clarificationRounds": u8::from(self.has_workflows()),
            "schemaRounds": 0,
            "envelopesPerTurn": 1,
            "maxNodeExecutions": limits.max_node_executions,
            "maxRunDurationMs": limits.max_run_duration_ms,
            "maxRequestBodyBytes": self.settings.max_body_bytes,
        }));
        // Callers' budgets are clamped to this ceiling.
        if let Some(most) = limits.max_cost_per_suite {
            members.insert("maxBudgetCostUsd".to_owned(), json!(most));
        }
        members
    }

    pub const fn envelopes(&self) -> &'static [&'static str] {
        match self.has_workflows() {
            true => &[CLARIFICATION, ERROR],
            false => &[ERROR],
        }
    }

    /// The version of each envelope.
    pub fn envelope_versions(&self) -> Members {
        let envelopes = self.envelopes().iter();
        envelopes
            .map(|kind| ((*kind).to_owned(), json!(ENVELOPE_VERSION)))
            .collect()
    }

    pub fn manifest_runtime() -> Members {
        members(json!({"handoffValidation": true, "installScope": "tenant"}))
    }

    pub fn live_runtime(&self) -> Members {
        // In one of the workflows an agent takes a step.
        let sources: &[&str] = match self.has_workflows() {
            true => &["run-api", "workflow-node"],
            false => &["run-api"],
        };
        members(json!({
            "structuredOutput": true,
            "confidenceEscalation": false,
            "sources": sources,
        }))
    }

    pub fn eval_suites(&self) -> Members {
        let limits = self.limits;
        let mut members = members(json!({
            "modes": limits.scored_modes,
            "maxTasksPerSuite": limits.max_tasks_per_suite,
        }));
        if let Some(most) = limits.max_cost_per_suite {
            members.insert("maxCostUsdPerSuite".to_owned(), json!(most));
        }
        members
    }

    /// RFC 0082: every state, and this host's channels including the reserved one.
    pub fn deployment(&self) -> Members {
        let mut channels: Vec<&str> = self.channels.iter().map(Channel::as_str).collect();
        channels.push(LATEST);
        members(json!({
            "channels": channels,
            "canary": true,
            "rollback": true,
            "states": DeploymentState::ALL,
        }))
    }

    pub fn provider_usage() -> Members {
        members(json!({"costEstimates": true, "currency": "USD"}))
    }

    pub fn budget(&self) -> Members {
        members(json!({
            "dimensions": ["tokens", "cost", "toolCalls", "retries", "model"],
            "enforce": if self.limits.advisory_budgets { "advisory" } else { "hard" },
            "scopes": ["run"],
        }))
    }

    pub fn feedback() -> Members {
        members(json!({"targets": ["run", "event", "node"], "signals": SignalKind::ALL}))
    }

    /// RFC 0049: the roles of this host.
    pub fn authorization(&self) -> Members {
        let roles = self.roles.iter().map(|(role, scopes)| {
            let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            json!({"role": role, "scopes": scopes})
        });
        members(json!({"failClosed": true, "roles": roles.collect::<Vec<_>>()}))
    }

    /// How checkpoints of the audit log are made and verified.
    pub fn audit_checkpoints(&self) -> Members {
        members(json!({
            "checkpointSignatureAlgorithm": "ed25519",
            "checkpointPublicKey": self.audit_key.to_spki_base64(),
            "checkpointIntervalEntries": MAX_ENTRIES,
            "checkpointIntervalSeconds": INTERVAL_SECONDS,
        }))
    }

    pub fn secret_rotation() -> Value {
        json!({"overlapSeconds": OVERLAP.as_secs()})
    }

    /// Ids of the workflows, if there are any.
    pub fn workflows(&self) -> Option<Value> {
        self.has_workflows().then(|| json!(fixtures::IDS))
    }

    /// What only test keys can use; `None` unless the host is in conformance mode.
    pub fn testing(&self) -> Option<Value> {
        let testing = json!({"mockProviders": MOCK_PROVIDERS, "testKeyPrefix": keys::TEST});
        self.settings.conformance.then_some(testing)
    }
}
