//! The configuration as it is in force, for people to read.
//!
//! The configuration holds names of environment variables instead of secrets. What may hold a
//! secret all the same is left out: the user and the query of a URL, and commands.

use std::fmt::Debug;
use std::path::Path;
use std::slice;

use url::Url;

use crate::config::Config;
use touchstone_agents::model::config::ModelConfig;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_console::config::Setting;
use touchstone_console::session::oidc::config::OidcConfig;

/// Settings as rows.
struct Rows(Vec<Setting>);

impl Rows {
    fn add(&mut self, name: impl Into<String>, value: impl ToString) {
        let (name, value) = (name.into(), value.to_string());
        self.0.push(Setting { name, value });
    }

    fn add_list(&mut self, name: &str, values: &[String]) {
        self.add(name, listed(values));
    }

    fn add_option(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        let text = value.map_or_else(|| "not set".to_owned(), |value| value.to_string());
        self.add(name, text);
    }

    /// A variant without members, in lower case.
    fn add_variant(&mut self, name: &str, value: impl Debug) {
        self.add(name, format!("{value:?}").to_ascii_lowercase());
    }
}

/// Every setting of a host.
pub fn settings(config: &Config) -> Vec<Setting> {
    let mut rows = Rows(Vec::new());
    rows.add("listen", &config.listen);
    rows.add("data", config.data.display());
    rows.add_option(
        "database_url",
        config.database_url.as_deref().map(without_user),
    );
    limits(&mut rows, config);
    models(&mut rows, config);
    features(&mut rows, config);
    storage(&mut rows, config);
    telemetry(&mut rows, config);
    rows.0
}

fn limits(rows: &mut Rows, config: &Config) {
    let limits = &config.limits;
    rows.add("limits.max_tasks_per_suite", limits.max_tasks_per_suite);
    rows.add_option(
        "limits.max_cost_usd_per_suite",
        limits.max_cost_usd_per_suite,
    );
    rows.add("limits.max_run_duration_s", limits.max_run_duration_s);
    rows.add("limits.max_node_executions", limits.max_node_executions);
    rows.add(
        "limits.max_request_body_bytes",
        limits.max_request_body_bytes,
    );
    rows.add("limits.default_concurrency", limits.default_concurrency);
    rows.add("limits.max_concurrency", limits.max_concurrency);
    rows.add(
        "limits.max_concurrency_per_tenant",
        limits.max_concurrency_per_tenant,
    );
    rows.add("limits.advisory_budgets", limits.advisory_budgets);
    rows.add("limits.max_subscribers", limits.max_subscribers);
    rows.add("limits.max_connections", limits.max_connections);
    rows.add(
        "limits.max_connections_per_address",
        limits.max_connections_per_address,
    );
    rows.add(
        "limits.max_requests_in_flight",
        limits.max_requests_in_flight,
    );
    rows.add(
        "limits.requests_per_second_per_key",
        limits.requests_per_second_per_key,
    );
    rows.add(
        "limits.requests_per_second_per_tenant",
        limits.requests_per_second_per_tenant,
    );
    rows.add(
        "limits.refused_keys_per_minute_per_address",
        limits.refused_keys_per_minute_per_address,
    );
    rows.add("worker.lease_s", config.lease_s());
    rows.add("worker.max_runs", config.worker.max_runs);
    rows.add("worker.drain_s", config.worker.drain_s);
    rows.add_option(
        "worker.labels",
        sets(slice::from_ref(&config.worker.labels)),
    );
    // A command line may contain secrets.
    for (n, command) in config.worker.commands.iter().enumerate() {
        rows.add(format!("worker.commands[{n}].name"), &command.name);
    }
    cluster(rows, config);
}

fn cluster(rows: &mut Rows, config: &Config) {
    let cluster = &config.cluster;
    rows.add_option("cluster.nats", cluster.nats.as_deref());
    for (name, file) in [
        ("cluster.credentials_file", &cluster.credentials_file),
        ("cluster.nkey_file", &cluster.nkey_file),
        ("cluster.ca_file", &cluster.ca_file),
    ] {
        rows.add_option(name, file.as_ref().map(|file| file.display()));
    }
    rows.add("cluster.insecure", cluster.insecure);
    rows.add("cluster.replicas", cluster.replicas);
    rows.add("cluster.hold_s", cluster.hold_s);
    rows.add("cluster.distribution", cluster.distribution.as_str());
    rows.add_option("cluster.labels", sets(cluster.labels.as_slice()));
    rows.add("cluster.max_task_bytes", cluster.max_task_bytes);
    rows.add("cluster.max_pool_bytes", cluster.max_pool_bytes);
}

/// Sets of labels, unless they are empty.
fn sets(sets: &[WorkerLabels]) -> Option<String> {
    let sets = sets.iter().filter(|it| !it.is_empty());
    let sets: Vec<String> = sets.map(ToString::to_string).collect();
    (!sets.is_empty()).then(|| sets.join("; "))
}

fn models(rows: &mut Rows, config: &Config) {
    for (n, entry) in config.models.iter().enumerate() {
        model(rows, &format!("models[{n}]"), entry);
    }
    let single = [
        ("judge", &config.judge),
        ("embeddings", &config.embeddings),
        ("simulated_user", &config.simulated_user),
    ];
    for (name, entry) in single {
        match entry {
            Some(entry) => model(rows, name, entry),
            None => rows.add(name, "not set"),
        }
    }
    for (n, entry) in config.judges.iter().enumerate() {
        model(rows, &format!("judges[{n}]"), entry);
    }
    rows.add("prices", format!("{} entries", config.prices.len()));
    rows.add(
        "assertions.command",
        is_set(config.assertions.command.is_some()),
    );
    rows.add("assertions.timeout_s", config.assertions.timeout_s);
    rows.add("assertions.memory_mib", config.assertions.memory_mib);
    for server in &config.tools.mcp {
        let name = format!("tools.mcp.{}", server.name);
        let reached = match &server.url {
            Some(url) => shown(url),
            None => "a command".to_owned(),
        };
        rows.add(name, format!("{reached}, {} tools", server.tools.len()));
    }
}

fn model(rows: &mut Rows, name: &str, entry: &ModelConfig) {
    rows.add(format!("{name}.provider"), entry.provider.as_str());
    rows.add_option(
        format!("{name}.base_url"),
        entry.base_url.as_ref().map(shown),
    );
    rows.add_option(format!("{name}.model"), entry.model.as_ref());
    rows.add_option(format!("{name}.api_key_env"), entry.api_key_env.as_ref());
    rows.add(format!("{name}.max_concurrency"), entry.max_concurrency);
    rows.add(format!("{name}.timeout_s"), entry.timeout_s);
    let labels = sets(slice::from_ref(&entry.worker_labels));
    rows.add_option(format!("{name}.worker_labels"), labels);
}

fn features(rows: &mut Rows, config: &Config) {
    for role in &config.roles {
        rows.add_list(&format!("roles.{}", role.name), &role.scopes);
    }
    rows.add_variant("packs.trust", config.packs.trust);
    rows.add_variant("packs.peers", config.packs.peers);
    rows.add(
        "packs.require_full_coverage",
        config.packs.require_full_coverage,
    );
    rows.add("packs.keys", format!("{} keys", config.packs.keys.len()));
    rows.add_list("packs.allow", &config.packs.allow);
    rows.add_option("packs.lockfile", file(config.packs.lockfile.as_deref()));
    let registry = config.packs.registry.as_ref();
    rows.add_option("packs.registry.tenant", registry.map(|it| &it.tenant));
    rows.add_list("deployments.channels", &config.deployments.channels);
    rows.add_option("attest.host_id", config.attest.host_id.as_ref());
    rows.add_option("attest.key_file", file(config.attest.key_file.as_deref()));
    let trusted = config.attest.trusted_keys.len();
    rows.add("attest.trusted_keys", format!("{trusted} keys"));
    rows.add_option("secrets.key_file", file(config.secrets.key_file.as_deref()));
    let openwop = &config.openwop;
    rows.add(
        "openwop.preferred_version",
        openwop.preferred_version.as_str(),
    );
    rows.add_option(
        "openwop.min_client_version",
        openwop.min_client_version.as_deref(),
    );
    rows.add("metrics.allow_loopback", config.metrics.allow_loopback);
    rows.add_list("webhooks.private_targets", &config.webhooks.private_targets);
    let ratings = &config.ratings;
    rows.add_option(
        "ratings.public_url",
        ratings.public_url.as_deref().map(without_user),
    );
    rows.add(
        "ratings.requests_per_minute_per_key",
        ratings.requests_per_minute_per_key,
    );
    rows.add(
        "ratings.events_per_minute_per_key",
        ratings.events_per_minute_per_key,
    );
    rows.add(
        "ratings.assessments_per_hour_per_key",
        ratings.assessments_per_hour_per_key,
    );
    rows.add_list(
        "ratings.reach.private_targets",
        &ratings.reach.private_targets,
    );
    let trusted = file(config.agent_cards.trusted_keys.as_deref());
    rows.add_option("agent_cards.trusted_keys", trusted);
    rows.add_list(
        "agent_cards.trusted_issuers",
        &config.agent_cards.trusted_issuers,
    );
    rows.add_list(
        "agent_cards.private_targets",
        &config.agent_cards.private_targets,
    );
    rows.add_option("oasis.evaluator", config.oasis.evaluator.as_ref());
    for provider in &config.oasis.providers {
        let name = format!("oasis.providers.{}", provider.name);
        rows.add(name, without_user(&provider.url));
    }
    rows.add("conformance.enabled", config.conformance.enabled);
    rows.add("console.enabled", config.console.enabled);
    rows.add("console.open_on_loopback", config.console.open_on_loopback);
    rows.add("console.idle_minutes", config.console.idle_minutes);
    rows.add("console.session_hours", config.console.session_hours);
    if let Some(oidc) = &config.console.oidc {
        single_sign_on(rows, oidc);
    }
}

fn single_sign_on(rows: &mut Rows, oidc: &OidcConfig) {
    rows.add("console.oidc.issuer", without_user(&oidc.issuer));
    rows.add("console.oidc.client_id", &oidc.client_id);
    let secret = oidc.client_secret_env.as_ref();
    rows.add_option("console.oidc.client_secret_env", secret);
    rows.add_list("console.oidc.scopes", &oidc.scopes);
    rows.add("console.oidc.button", &oidc.button);
    rows.add("console.oidc.principal_claim", &oidc.principal_claim);
    rows.add_option("console.oidc.tenant", oidc.tenant.as_ref());
    rows.add_option("console.oidc.tenant_claim", oidc.tenant_claim.as_ref());
    for it in &oidc.tenants {
        let name = format!("console.oidc.tenants.{}", it.value);
        rows.add(name, &it.tenant);
    }
    rows.add("console.oidc.groups_claim", &oidc.groups_claim);
    for it in &oidc.grants {
        let given: Vec<String> = it.scopes.iter().chain(&it.roles).cloned().collect();
        rows.add_list(&format!("console.oidc.grants.{}", it.value), &given);
    }
}

fn storage(rows: &mut Rows, config: &Config) {
    rows.add("quotas.max_packs", config.quotas.max_packs);
    rows.add("quotas.max_suites", config.quotas.max_suites);
    rows.add("quotas.max_runs", config.quotas.max_runs);
    rows.add("quotas.max_bytes", config.quotas.max_bytes);
    rows.add("retention.runs_days", config.retention.runs_days);
    rows.add("retention.compress_days", config.retention.compress_days);
    rows.add_variant("content.retain", config.content.retain);
    let archive = &config.archive;
    rows.add_option("archive.url", archive.url.as_deref());
    rows.add_option(
        "archive.endpoint",
        archive.endpoint.as_deref().map(without_user),
    );
    rows.add_option("archive.region", archive.region.as_ref());
    rows.add("archive.access_key_id_env", &archive.access_key_id_env);
    rows.add(
        "archive.secret_access_key_env",
        &archive.secret_access_key_env,
    );
    rows.add_option(
        "archive.session_token_env",
        archive.session_token_env.as_ref(),
    );
}

fn telemetry(rows: &mut Rows, config: &Config) {
    let telemetry = &config.telemetry;
    let endpoint = telemetry.endpoint.as_deref().map(without_user);
    rows.add_option("telemetry.endpoint", endpoint);
    rows.add("telemetry.protocol", &telemetry.protocol);
    rows.add("telemetry.traces", telemetry.traces);
    rows.add("telemetry.metrics", telemetry.metrics);
    rows.add("telemetry.logs", telemetry.logs);
    rows.add("telemetry.service_name", &telemetry.service_name);
    let attributes = telemetry.resource_attributes.iter();
    let attributes: Vec<String> = attributes
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    rows.add_list("telemetry.resource_attributes", &attributes);
    rows.add("telemetry.sampler", &telemetry.sampler);
    rows.add("telemetry.sampler_arg", telemetry.sampler_arg);
    rows.add("telemetry.capture_content", telemetry.capture_content);
}

fn listed(values: &[String]) -> String {
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join(", "),
    }
}

fn is_set(set: bool) -> &'static str {
    match set {
        true => "set (not shown)",
        false => "not set",
    }
}

fn file(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// A URL without what may be secret.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // A URL that cannot have a user has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.to_string()
}

fn without_user(text: &str) -> String {
    match text.parse::<Url>() {
        Ok(url) if url.has_host() => shown(&url),
        _ => is_set(true).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::user("postgres://dana:s3cret@db.internal/touchstone")]
    #[case::query("postgres://db.internal/touchstone?password=s3cret")]
    #[case::user_of_https("https://dana:s3cret@example.com/v1?key=s3cret")]
    #[case::no_url("dana:s3cret at db")]
    fn a_secret_within_an_address_is_not_shown(#[case] address: &str) {
        let config = Config {
            database_url: Some(address.to_owned()),
            ..Config::default()
        };
        let rows = settings(&config);
        assert!(rows.iter().all(|row| !row.value.contains("s3cret")));
    }

    #[test]
    fn every_setting_appears_once() {
        let rows = settings(&Config::default());
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.contains(&"worker.lease_s") && names.contains(&"quotas.max_runs"));
    }
}
