//! Prices of models: those that the operator gives, and the public list prices of well-known
//! models.
//!
//! A list price applies only to the vendor's own endpoint. Another server may offer a model of the
//! same name at another price or for nothing, so its price is unknown unless the operator gives
//! one. An unknown price is not a price of 0: a cost that nobody knows must not look free, and a
//! cost limit that cannot be enforced must not look enforced.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use url::Url;

use touchstone_kit::money::TokenPrice;

/// The list prices, with their sources and dates.
const LIST: &str = include_str!("list.json");

/// Maximum number of `[[prices]]` entries.
pub const MAX_PRICES: usize = 1000;

/// A known price and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// Per million input tokens.
    pub input_usd_per_mtok: f64,
    /// Per million output tokens.
    pub output_usd_per_mtok: f64,
    pub source: PriceSource,
    /// The date of the price, `YYYY-MM-DD`, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
}

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriceSource {
    /// The configuration, or a flag.
    Configured,
    /// The public list prices that Touchstone knows.
    List,
    /// The model is a script, which costs nothing.
    Script,
}

impl ModelPrice {
    /// A price that the operator gives.
    pub const fn configured(input_usd_per_mtok: f64, output_usd_per_mtok: f64) -> Self {
        Self {
            input_usd_per_mtok,
            output_usd_per_mtok,
            source: PriceSource::Configured,
            as_of: None,
        }
    }

    /// The price of a script.
    pub const fn of_script() -> Self {
        Self {
            input_usd_per_mtok: 0.0,
            output_usd_per_mtok: 0.0,
            source: PriceSource::Script,
            as_of: None,
        }
    }

    pub fn tokens(&self) -> TokenPrice {
        TokenPrice::per_million(self.input_usd_per_mtok, self.output_usd_per_mtok)
    }
}

/// The prices of the models of a run, when a run was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPrices {
    /// The agent's model; absent if its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelPrice>,
    /// The judge; absent if nothing is judged or its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<ModelPrice>,
    /// The embedding model; absent if none is needed or its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<ModelPrice>,
    /// The model that plays simulated users; absent if none is simulated or its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ModelPrice>,
}

impl RunPrices {
    /// The date of the oldest list price.
    pub fn listed(&self) -> Option<&str> {
        [&self.model, &self.judge, &self.embeddings, &self.user]
            .into_iter()
            .flatten()
            .filter(|price| price.source == PriceSource::List)
            .filter_map(|price| price.as_of.as_deref())
            .min()
    }
}

/// An entry of `[[prices]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceEntry {
    /// Host of the endpoint, with its port unless it is the usual one of the scheme.
    pub host: String,
    /// The model's name at the endpoint.
    pub model: String,
    pub input_usd_per_mtok: f64,
    pub output_usd_per_mtok: f64,
    /// The date of the price, `YYYY-MM-DD`.
    #[serde(default)]
    pub as_of: Option<String>,
}

/// Why `[[prices]]` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceFault {
    /// Index of the entry, from 0.
    pub entry: usize,
    pub field: &'static str,
    pub problem: &'static str,
}

impl fmt::Display for PriceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`prices[{}].{}` {}",
            self.entry, self.field, self.problem
        )
    }
}

/// Whether an amount can be a price.
pub fn is_price(usd_per_mtok: f64) -> bool {
    usd_per_mtok.is_finite() && usd_per_mtok >= 0.0
}

fn is_date(text: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(shape)
}

/// Checks `[[prices]]`.
///
/// # Errors
/// The first entry that cannot be used.
pub fn check(entries: &[PriceEntry]) -> Result<(), PriceFault> {
    let fault = |entry, field, problem| {
        Err(PriceFault {
            entry,
            field,
            problem,
        })
    };
    for (n, entry) in entries.iter().enumerate() {
        if n >= MAX_PRICES {
            return fault(n, "host", "is beyond the maximum of 1000 entries");
        }
        let names_host = Url::parse(&format!("https://{}", entry.host)).is_ok_and(|url| {
            url.host_str().is_some() && url.path() == "/" && url.query().is_none()
        });
        if entry.host.contains(['/', '@']) || !names_host {
            return fault(
                n,
                "host",
                "must be a host such as api.openai.com or 127.0.0.1:8000",
            );
        }
        if entry.model.is_empty() {
            return fault(n, "model", "must be the model's name at the endpoint");
        }
        for (field, price) in [
            ("input_usd_per_mtok", entry.input_usd_per_mtok),
            ("output_usd_per_mtok", entry.output_usd_per_mtok),
        ] {
            if !is_price(price) {
                return fault(n, field, "must be a finite number of at least 0");
            }
        }
        if entry.as_of.as_deref().is_some_and(|date| !is_date(date)) {
            return fault(n, "as_of", "must be a date such as 2026-11-28");
        }
        let twice = entries
            .iter()
            .take(n)
            .any(|it| it.host.eq_ignore_ascii_case(&entry.host) && it.model == entry.model);
        if twice {
            return fault(n, "model", "has an earlier entry; keep one of them");
        }
    }
    Ok(())
}

/// The price of a model at an endpoint: the operator's entry, or the vendor's list price. `None` if
/// it is unknown.
pub fn price(entries: &[PriceEntry], endpoint: &Url, model: &str) -> Option<ModelPrice> {
    let host = endpoint.host_str()?;
    let with_port = endpoint.port().map(|port| format!("{host}:{port}"));
    let is_at = |entry: &&PriceEntry| {
        let name = with_port.as_deref().unwrap_or(host);
        entry.host.eq_ignore_ascii_case(name) && entry.model == model
    };
    if let Some(entry) = entries.iter().find(is_at) {
        return Some(ModelPrice {
            as_of: entry.as_of.clone(),
            ..ModelPrice::configured(entry.input_usd_per_mtok, entry.output_usd_per_mtok)
        });
    }
    let is_public = endpoint.scheme() == "https" && endpoint.port().is_none();
    let vendor = list().vendors.iter().filter(|_| is_public);
    let mut vendors = vendor.filter(|it| it.hosts.iter().any(|name| name == host));
    vendors.find_map(|vendor| {
        let named = |line: &&ListPrice| line.names.iter().any(|name| name == model);
        let line = vendor.models.iter().find(named)?;
        Some(ModelPrice {
            input_usd_per_mtok: line.input,
            output_usd_per_mtok: line.output,
            source: PriceSource::List,
            as_of: Some(vendor.as_of.clone()),
        })
    })
}

/// Public list prices.
#[derive(Debug, Default, Deserialize)]
pub struct PriceList {
    pub vendors: Vec<Vendor>,
}

/// The list prices of one vendor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vendor {
    #[serde(rename = "vendor")]
    pub name: String,
    /// The hosts of its public API.
    pub hosts: Vec<String>,
    /// The page that states the prices.
    pub source: String,
    /// The date on which the prices were valid, `YYYY-MM-DD`.
    pub as_of: String,
    pub models: Vec<ListPrice>,
}

/// The list price of one model.
#[derive(Debug, Deserialize)]
#[serde(from = "(Vec<String>, f64, f64)")]
pub struct ListPrice {
    /// The names of the model that the vendor does not move to another model.
    pub names: Vec<String>,
    /// USD per million input tokens.
    pub input: f64,
    /// USD per million output tokens.
    pub output: f64,
}

impl From<(Vec<String>, f64, f64)> for ListPrice {
    fn from((names, input, output): (Vec<String>, f64, f64)) -> Self {
        Self {
            names,
            input,
            output,
        }
    }
}

/// The list prices that Touchstone knows.
pub fn list() -> &'static PriceList {
    #[expect(clippy::expect_used, reason = "the list is part of the program")]
    fn parsed() -> PriceList {
        serde_json::from_str(LIST).expect("the list of prices is valid")
    }
    static PARSED: LazyLock<PriceList> = LazyLock::new(parsed);
    &PARSED
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn entry(host: &str, model: &str) -> PriceEntry {
        PriceEntry {
            host: host.to_owned(),
            model: model.to_owned(),
            input_usd_per_mtok: 7.0,
            output_usd_per_mtok: 8.0,
            as_of: Some("2026-11-28".to_owned()),
        }
    }

    #[rstest]
    #[case::of_the_vendor("https://api.openai.com/v1", "gpt-4o-mini", Some((0.15, 0.6)))]
    #[case::snapshot("https://api.openai.com/v1", "gpt-4o-mini-2024-07-18", Some((0.15, 0.6)))]
    #[case::anthropic("https://api.anthropic.com/v1", "claude-3-haiku-20240307", Some((0.25, 1.25)))]
    #[case::unlisted("https://api.openai.com/v1", "gpt-4o-mini-2031-01-01", None)]
    #[case::local_server("http://127.0.0.1:11434/v1", "gpt-4o-mini", None)]
    #[case::proxy("https://llm.acme.example/v1", "gpt-4o-mini", None)]
    #[case::similar_host("https://api.openai.com.acme.example/v1", "gpt-4o-mini", None)]
    #[case::other_port("https://api.openai.com:8443/v1", "gpt-4o-mini", None)]
    #[case::unencrypted("http://api.openai.com/v1", "gpt-4o-mini", None)]
    #[case::other_vendor("https://api.mistral.ai/v1", "gpt-4o-mini", None)]
    fn a_list_price_applies_to_the_vendors_endpoint_only(
        #[case] endpoint: &str,
        #[case] model: &str,
        #[case] expected: Option<(f64, f64)>,
    ) {
        let found = price(&[], &url(endpoint), model);
        let amounts = found
            .as_ref()
            .map(|it| (it.input_usd_per_mtok, it.output_usd_per_mtok));
        assert_eq!(amounts, expected);
        assert!(found.is_none_or(|it| it.source == PriceSource::List && it.as_of.is_some()));
    }

    #[rstest]
    #[case("https://api.openai.com/v1", "gpt-4o-mini", true)]
    #[case("http://127.0.0.1:8000/v1", "local", true)]
    #[case("http://127.0.0.1:8001/v1", "local", false)]
    #[case("http://127.0.0.1/v1", "local", false)]
    fn the_operators_price_replaces_the_list_price(
        #[case] endpoint: &str,
        #[case] model: &str,
        #[case] applies: bool,
    ) {
        let entries = [
            entry("API.openai.com", "gpt-4o-mini"),
            entry("127.0.0.1:8000", "local"),
        ];
        let found = price(&entries, &url(endpoint), model);
        let configured = found.filter(|it| it.source == PriceSource::Configured);
        assert_eq!(
            configured.map(|it| it.output_usd_per_mtok),
            applies.then_some(8.0)
        );
    }

    #[test]
    fn the_list_is_readable_dated_and_names_no_model_twice() {
        let list: PriceList = serde_json::from_str(LIST).unwrap();
        assert!(list.vendors.len() > 5);
        let mut hosts = BTreeSet::new();
        for vendor in &list.vendors {
            assert!(is_date(&vendor.as_of), "{}", vendor.name);
            assert!(vendor.source.starts_with("https://"), "{}", vendor.name);
            let mut names = BTreeSet::new();
            for host in &vendor.hosts {
                assert!(hosts.insert(host), "{host} belongs to two vendors");
            }
            for model in &vendor.models {
                assert!(is_price(model.input) && model.input > 0.0);
                assert!(is_price(model.output));
                for name in &model.names {
                    assert!(names.insert(name), "{name} has two prices");
                }
            }
        }
    }

    #[rstest]
    #[case(entry("api.openai.com/v1", "m"), "`prices[0].host` must be a host")]
    #[case(entry("", "m"), "`prices[0].host` must be a host")]
    #[case(entry("h", ""), "`prices[0].model` must be the model's name")]
    #[case(PriceEntry { input_usd_per_mtok: -1.0, ..entry("h", "m") }, "`prices[0].input_usd_per_mtok` must be")]
    #[case(PriceEntry { output_usd_per_mtok: f64::NAN, ..entry("h", "m") }, "`prices[0].output_usd_per_mtok` must be")]
    #[case(PriceEntry { as_of: Some("today".to_owned()), ..entry("h", "m") }, "`prices[0].as_of` must be a date")]
    fn an_entry_that_cannot_be_used_is_named(#[case] entry: PriceEntry, #[case] message: &str) {
        let fault = check(&[entry]).unwrap_err().to_string();
        assert!(fault.starts_with(message), "{fault}");
    }

    #[test]
    fn an_entry_may_not_be_repeated() {
        check(&[entry("h:80", "m"), entry("h", "m"), entry("h", "n")]).unwrap();
        let fault = check(&[entry("h", "m"), entry("H", "m")]).unwrap_err();
        assert_eq!((fault.entry, fault.field), (1, "model"));
    }

    #[test]
    fn the_oldest_date_of_the_list_prices_is_shown() {
        let listed = |date: &str| ModelPrice {
            source: PriceSource::List,
            as_of: Some(date.to_owned()),
            ..ModelPrice::configured(1.0, 1.0)
        };
        let prices = RunPrices {
            model: Some(listed("2025-10-06")),
            judge: Some(listed("2025-07-22")),
            embeddings: None,
            user: None,
        };
        assert_eq!(prices.listed(), Some("2025-07-22"));
        let configured = RunPrices {
            model: Some(ModelPrice::configured(1.0, 1.0)),
            ..RunPrices::default()
        };
        assert_eq!(configured.listed(), None);
    }
}
