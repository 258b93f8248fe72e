//! One evidence event entered on the command line.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::collect::moment;
use crate::cli::collect::source::{Source, SourceEvent};
use crate::cli::collect::tasks::{located, value};
use crate::rules::evidence::EventType;
use touchstone_host::cli::exit::Failure;

pub const NAME: &str = "manual";

#[derive(Debug, Args)]
pub struct Entry {
    /// With --source manual: event type
    #[arg(long, value_name = "TYPE", value_parser = types())]
    event: Option<String>,
    /// With --source manual: time of the event; the same event at the same time is recorded once
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Timestamp>,
    /// With --source manual: member of the event's data, as JSON or as a string; repeat the option
    /// for several
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = member)]
    members: Vec<(String, String)>,
}

fn types() -> PossibleValuesParser {
    PossibleValuesParser::new(EventType::ALL.map(EventType::as_str))
}

fn member(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

impl Entry {
    pub fn is_given(&self) -> bool {
        self.event.is_some() || self.at.is_some() || !self.members.is_empty()
    }

    /// The event.
    ///
    /// # Errors
    /// The type or the time is missing.
    pub fn open(&self) -> Result<Source, Failure> {
        let (Some(kind), Some(at)) = (&self.event, self.at) else {
            let message = "--source manual needs --event TYPE and --at TIME";
            return Err(Failure::usage(message).or_try(
                "add --event task_completed --at 2026-04-16T12:00:00Z --set NAME=VALUE …",
            ));
        };
        let members = self.members.iter();
        let data: Map<String, Value> = members
            .map(|(name, text)| (name.clone(), value(name, text)))
            .collect();
        let event = json!({"type": kind, "timestamp": at, "data": data});
        let entry: Vec<SourceEvent> = located(None, 1, Ok(vec![event]));
        Ok(Source::of(PathBuf::from(NAME), entry.into_iter().map(Ok)))
    }
}
