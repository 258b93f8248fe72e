//! `touchstone model`: facts about models.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use crate::model::config::ModelConfig;
use crate::rules::prices::{PriceEntry, list};
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::table::{self, Style};
use touchstone_host::render::words::plain;

/// Show facts about models
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone model prices\n  touchstone model prices gpt-4o --json"
)]
pub enum Command {
    /// List known prices: those of the configuration, then public list prices with their dates
    #[command(
        after_help = "A list price applies only to the vendor's own endpoint. The price of any other endpoint is\nunknown unless the configuration gives it (docs/providers.md).\n\nExamples:\n  touchstone model prices\n  touchstone model prices claude --json"
    )]
    Prices(Prices),
}

impl Command {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::Prices(_) => CommandTarget::FilesByRules,
        }
    }
}

#[derive(Debug, Args)]
pub struct Prices {
    /// Part of a model's or vendor's name [default: all]
    #[arg(value_name = "NAME")]
    filter: Option<String>,
}

/// The prices of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredPrices {
    pub prices: Vec<PriceEntry>,
    pub models: Vec<ModelConfig>,
    pub judge: Option<ModelConfig>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    model: String,
    /// Host of the endpoint.
    host: String,
    input_usd_per_mtok: f64,
    output_usd_per_mtok: f64,
    /// The date of the price; absent if the configuration states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<String>,
    /// The page with the list price, or `configuration`.
    source: String,
}

pub fn run(context: &Context<'_>, command: &Command) -> Result<Exit, Failure> {
    let Command::Prices(Prices { filter }) = command;
    let configured: ConfiguredPrices = context.settings()?;
    let wanted = filter.as_deref().unwrap_or_default().to_lowercase();
    let rows: Vec<Row> = of_configuration(&configured)
        .into_iter()
        .map(|row| (String::new(), row))
        .chain(listed())
        .filter(|(vendor, row)| {
            row.model.to_lowercase().contains(&wanted) || vendor.to_lowercase().contains(&wanted)
        })
        .map(|(_, row)| row)
        .collect();
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"prices": rows}));
        return Ok(Exit::Good);
    }
    if rows.is_empty() {
        terminal.note("no price is known for such a model; give one with [[prices]] in the configuration, or with --model-price");
    } else {
        terminal.print(&shown(&rows, terminal.style()));
    }
    Ok(Exit::Good)
}

const CONFIGURATION: &str = "configuration";

fn of_configuration(configured: &ConfiguredPrices) -> Vec<Row> {
    let models = configured.models.iter().chain(&configured.judge);
    let mut rows: Vec<Row> = models
        .filter_map(|entry| {
            let price = entry.own_price()?;
            let url = entry.base_url.as_ref()?;
            let host = url.host_str()?;
            Some(Row {
                model: entry.model.clone()?,
                host: match url.port() {
                    Some(port) => format!("{host}:{port}"),
                    None => host.to_owned(),
                },
                input_usd_per_mtok: price.input_usd_per_mtok,
                output_usd_per_mtok: price.output_usd_per_mtok,
                as_of: None,
                source: CONFIGURATION.to_owned(),
            })
        })
        .collect();
    rows.extend(configured.prices.iter().map(|entry| Row {
        model: entry.model.clone(),
        host: entry.host.clone(),
        input_usd_per_mtok: entry.input_usd_per_mtok,
        output_usd_per_mtok: entry.output_usd_per_mtok,
        as_of: entry.as_of.clone(),
        source: CONFIGURATION.to_owned(),
    }));
    rows
}

/// The list prices, each with its vendor.
fn listed() -> impl Iterator<Item = (String, Row)> {
    list().vendors.iter().flat_map(|vendor| {
        let models = vendor.models.iter();
        let named = models.flat_map(|model| model.names.iter().map(move |name| (name, model)));
        named.map(|(name, model)| {
            let row = Row {
                model: name.clone(),
                host: vendor.hosts.first().cloned().unwrap_or_default(),
                input_usd_per_mtok: model.input,
                output_usd_per_mtok: model.output,
                as_of: Some(vendor.as_of.clone()),
                source: vendor.source.clone(),
            };
            (vendor.name.clone(), row)
        })
    })
}

fn cells(row: &Row) -> [String; 5] {
    [
        plain(&row.model),
        plain(&row.host),
        format!("{}", row.input_usd_per_mtok),
        format!("{}", row.output_usd_per_mtok),
        row.as_of.clone().unwrap_or_else(|| row.source.clone()),
    ]
}

/// A table, or one line per model with tabs between its values.
fn shown(rows: &[Row], style: Style) -> String {
    const HEADER: [&str; 5] = ["model", "host", "input", "output", "as of"];
    let mut text = String::new();
    if style.table {
        let mut table = table::begin(style);
        table.set_header(HEADER);
        for row in rows {
            table.add_row(cells(row));
        }
        if let Some(drawn) = table::drawn(table, style) {
            let _ = writeln!(text, "{drawn}");
            text.push_str("USD per million tokens");
            return text;
        }
    }
    for row in rows {
        let _ = writeln!(text, "{}", cells(row).join("\t"));
    }
    text.trim_end().to_owned()
}
