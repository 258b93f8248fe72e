//! Settings that are valid one by one but contradict each other, or have no effect.

use std::net::SocketAddr;

use crate::cli::doctor::finding::{Area, Finding};
use crate::config::Config;
use touchstone_agents::model::config::{ModelConfig, Provider};
use touchstone_agents::rules::prices;
use touchstone_host::cli::context::program;
use touchstone_host::cli::shell::quoted;
use touchstone_packs::rules::trust::TrustMode;
use touchstone_runs::storage::ContentRetention;

/// The contradictions in a configuration.
pub fn contradictions(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |text: String, remedy: &str| {
        found.push(Finding::warning(Area::Configuration, text, remedy));
    };
    let limits = &config.limits;
    if limits.default_concurrency > limits.max_concurrency {
        warn(
            format!(
                "`limits.default_concurrency` is {}, more than `limits.max_concurrency`, which is {}",
                limits.default_concurrency, limits.max_concurrency
            ),
            "set `limits.default_concurrency` to at most `limits.max_concurrency`",
        );
    }
    if usize::try_from(limits.max_concurrency)
        .is_ok_and(|it| it > limits.max_concurrency_per_tenant)
    {
        warn(
            format!(
                "`limits.max_concurrency` is {}, but a tenant has at most {} tasks in flight",
                limits.max_concurrency, limits.max_concurrency_per_tenant
            ),
            "raise `limits.max_concurrency_per_tenant`, or lower `limits.max_concurrency`",
        );
    }
    if limits.max_cost_usd_per_suite.is_some() {
        for (name, model) in remote(config) {
            if !has_price(config, model) {
                warn(
                    format!(
                        "`limits.max_cost_usd_per_suite` is set, but the price of `{name}` is not known: its runs are refused"
                    ),
                    "set input_usd_per_mtok and output_usd_per_mtok of the entry, or add a [[prices]] entry",
                );
            }
        }
    }
    let runs_days = config.retention.runs_days;
    if let ContentRetention::Days(days) = config.content.retain
        && runs_days > 0
        && u32::from(days) >= runs_days
    {
        warn(
            format!(
                "`content.retain` is {days} days, but `retention.runs_days` deletes runs after {runs_days}"
            ),
            "set `content.retain` to fewer days than `retention.runs_days`, or remove it",
        );
    }
    let (attest, secrets) = (&config.attest.key_file, &config.secrets.key_file);
    if attest.is_some() && attest == secrets {
        warn(
            "`attest.key_file` and `secrets.key_file` are the same file, so the host key cannot be rotated".to_owned(),
            "copy the file and set `attest.key_file` to the copy",
        );
    }
    if crate::app::database_file(config).is_none() {
        if attest.is_none() {
            warn(
                "`database_url` is set without `attest.key_file`, so the host signs no verdicts"
                    .to_owned(),
                &format!("{}, and set `attest.key_file`", create_signing_key()),
            );
        }
        if secrets.is_none() {
            warn(
                "`database_url` is set without `secrets.key_file`, so replicas on other machines cannot decrypt secrets".to_owned(),
                "set `secrets.key_file` to a copy of secrets.pem of the data folder, the same on every machine",
            );
        }
    }
    if config.conformance.enabled {
        warn(
            "`conformance.enabled` opens test endpoints, which are not for production".to_owned(),
            "set `conformance.enabled` to false",
        );
    }
    if config.packs.trust == TrustMode::Open {
        warn(
            "`packs.trust` is \"open\": unsigned packs of anyone are installed".to_owned(),
            "set `packs.trust` to \"verified\" and add [[packs.keys]]",
        );
    }
    if config.console.oidc.is_some() && !config.console.enabled {
        warn(
            "`[console.oidc]` has no effect, because `console.enabled` is false".to_owned(),
            "set `console.enabled` to true, or remove `[console.oidc]`",
        );
    }
    if config.models.is_empty() {
        warn(
            "there is no [[models]] entry: runs need --model-url, or an enrolled agent with its own endpoint".to_owned(),
            "add a [[models]] entry; docs/providers.md lists the providers",
        );
    }
    found
}

/// How to create the key that signs verdicts.
pub fn create_signing_key() -> String {
    let program = program();
    let program = quoted(&program);
    format!("create a key with `{program} pack keygen --out attest.pem --key-id host-1`")
}

/// Whether other machines can reach the host; `None` if `listen` is a name.
pub fn listens_publicly(config: &Config) -> Option<bool> {
    let address: SocketAddr = config.listen.parse().ok()?;
    Some(!address.ip().is_loopback())
}

/// Entries of models, by the names of their settings.
pub fn entries(config: &Config) -> Vec<(String, &ModelConfig)> {
    let mut entries: Vec<(String, &ModelConfig)> = Vec::new();
    for (n, entry) in config.models.iter().enumerate() {
        entries.push((format!("models[{n}]"), entry));
    }
    for (n, entry) in config.judges.iter().enumerate() {
        entries.push((format!("judges[{n}]"), entry));
    }
    let single = [
        ("judge", &config.judge),
        ("embeddings", &config.embeddings),
        ("simulated_user", &config.simulated_user),
    ];
    for (name, entry) in single {
        entries.extend(entry.as_ref().map(|entry| (name.to_owned(), entry)));
    }
    entries
}

fn remote(config: &Config) -> impl Iterator<Item = (String, &ModelConfig)> {
    let entries = entries(config).into_iter();
    entries.filter(|(_, entry)| entry.provider != Provider::Scripted)
}

fn has_price(config: &Config, entry: &ModelConfig) -> bool {
    let listed = || {
        let (url, model) = (entry.base_url.as_ref()?, entry.model.as_deref()?);
        prices::price(&config.prices, url, model)
    };
    entry.own_price().or_else(listed).is_some()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn config(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("touchstone.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(Some(&file)).unwrap()
    }

    const MODEL: &str = "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";

    #[rstest]
    #[case::models("", "[[models]]")]
    #[case::concurrency(
        "[limits]\ndefault_concurrency = 9\nmax_concurrency = 8\n",
        "limits.default_concurrency"
    )]
    #[case::tenant(
        "[limits]\nmax_concurrency = 600\n",
        "limits.max_concurrency_per_tenant"
    )]
    #[case::price(
        "[limits]\nmax_cost_usd_per_suite = 1.0\n[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n",
        "input_usd_per_mtok"
    )]
    #[case::content(
        "[retention]\nruns_days = 30\n[content]\nretain = 30\n",
        "content.retain"
    )]
    #[case::same_key(
        "[attest]\nkey_file = \"a.pem\"\n[secrets]\nkey_file = \"a.pem\"\n",
        "attest.key_file"
    )]
    #[case::signing("database_url = \"postgres://db/t\"\n", "keygen")]
    #[case::shared("database_url = \"postgres://db/t\"\n", "secrets.key_file")]
    #[case::conformance("[conformance]\nenabled = true\n", "conformance.enabled")]
    #[case::trust("[packs]\ntrust = \"open\"\n", "packs.trust")]
    fn a_contradiction_has_a_remedy(#[case] text: &str, #[case] remedy: &str) {
        let found = contradictions(&config(text));
        let named = found.iter().any(|it| {
            let text = it.remedy.as_deref().unwrap();
            text.contains(remedy)
        });
        assert!(named, "{found:#?}");
    }

    #[test]
    fn a_usual_configuration_has_none() {
        assert_eq!(contradictions(&config(MODEL)), []);
    }

    #[rstest]
    #[case("127.0.0.1:7800", Some(false))]
    #[case("[::1]:7800", Some(false))]
    #[case("0.0.0.0:7800", Some(true))]
    #[case("host.internal:7800", None)]
    fn an_address_of_other_machines_is_public(#[case] listen: &str, #[case] public: Option<bool>) {
        let config = Config {
            listen: listen.to_owned(),
            ..Config::default()
        };
        assert_eq!(listens_publicly(&config), public);
    }
}
