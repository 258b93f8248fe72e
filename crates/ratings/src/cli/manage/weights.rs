//! `touchstone rating weights` and `rating taxonomy`: weights of dimensions, and task domains.

use std::collections::BTreeMap;

use axum::http::Method;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::dimension;
use crate::cli::manage::{get, send, show};
use crate::rules::scoring::weights::Weights;
use crate::rules::{Axis, Dimension};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

const WEIGHTS: &str = "config/weights";
const TAXONOMY: &str = "config/taxonomy";

/// Show and set the weights of dimensions
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating weights show\n  touchstone rating weights set --preset specialist"
)]
pub enum Command {
    /// Show the weights of both axes
    #[command(after_help = "Examples:\n  touchstone rating weights show --json")]
    Show,
    /// Set weights; the others do not change
    #[command(after_help = SET)]
    Set(Set),
}

const SET: &str = "\
The presets `specialist` (narrow agents, weight 0 for delegation and orchestration) and
`generalist` (broad agents) set the weights of the capability axis. `standard` sets both axes to
the weights of the AAAF specification. The weights of each axis must add up to 1.

Exit codes: 0 set, 2 bad input or refused, 3 could not complete.

Examples:
  touchstone rating weights set --preset specialist
  touchstone rating weights set --weight accuracy=0.35 --weight speed=0.05";

#[derive(Debug, Args)]
#[group(skip)]
pub struct Set {
    /// Predefined weights for a kind of agent
    #[arg(long, value_name = "PRESET", required_unless_present = "weights")]
    preset: Option<Preset>,
    /// Weight of a dimension within its axis, 0 to 1; repeat the option for several
    #[arg(long = "weight", value_name = "DIMENSION=WEIGHT", value_parser = weight)]
    weights: Vec<(Dimension, f64)>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Preset {
    Standard,
    Specialist,
    Generalist,
}

/// Show and set the task domains
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating taxonomy show\n  touchstone rating taxonomy set code research"
)]
pub enum Taxonomy {
    /// Show the domains
    #[command(after_help = "Examples:\n  touchstone rating taxonomy show --json")]
    Show,
    /// Replace the domains
    #[command(
        after_help = "Exit codes: 0 set, 2 bad input or refused, 3 could not complete.\n\nExamples:\n  touchstone rating taxonomy set code research customer_support"
    )]
    Set(Domains),
}

#[derive(Debug, Args)]
pub struct Domains {
    /// Domains that replace the present ones
    #[arg(value_name = "DOMAIN", required = true)]
    domains: Vec<String>,
}

fn weight(text: &str) -> Result<(Dimension, f64), String> {
    let form = || "must be DIMENSION=WEIGHT, such as accuracy=0.25".to_owned();
    let (name, weight) = text.split_once('=').ok_or_else(form)?;
    Ok((dimension(name)?, weight.parse().map_err(|_| form())?))
}

pub async fn run(client: &Client, terminal: &Terminal, command: &Command) -> Result<(), Failure> {
    let shown: Value = match command {
        Command::Show => get(client, WEIGHTS).await?,
        Command::Set(set) => {
            let there: BTreeMap<String, BTreeMap<String, f64>> = get(client, WEIGHTS).await?;
            send(client, Method::PUT, WEIGHTS, &changed(there, set)).await?
        }
    };
    show(terminal, shown);
    Ok(())
}

/// The weights of both axes after the change.
fn changed(mut there: BTreeMap<String, BTreeMap<String, f64>>, set: &Set) -> Value {
    let mut put = |axis: Axis, weights: &Weights| {
        let shares = axis.dimensions().iter();
        let shares = shares.map(|it| (it.to_string(), weights.share(*it)));
        there.insert(format!("{axis}_weights"), shares.collect());
    };
    match set.preset {
        Some(Preset::Standard) => {
            for axis in Axis::ALL {
                put(axis, &Weights::standard(axis));
            }
        }
        Some(Preset::Specialist) => put(Axis::Capability, &Weights::specialist()),
        Some(Preset::Generalist) => put(Axis::Capability, &Weights::generalist()),
        None => {}
    }
    for (dimension, weight) in &set.weights {
        let axis = there.entry(format!("{}_weights", dimension.axis()));
        axis.or_default().insert(dimension.to_string(), *weight);
    }
    json!(there)
}

pub async fn taxonomy(
    client: &Client,
    terminal: &Terminal,
    command: &Taxonomy,
) -> Result<(), Failure> {
    let shown: Value = match command {
        Taxonomy::Show => get(client, TAXONOMY).await?,
        Taxonomy::Set(Domains { domains }) => {
            let body = json!({"domain_taxonomy": domains});
            send(client, Method::PUT, TAXONOMY, &body).await?
        }
    };
    show(terminal, shown);
    Ok(())
}
