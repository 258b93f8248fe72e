//! `streamMode` and `bufferMs` (OpenWOP stream-modes).

use std::time::Duration;

use crate::service::log_reader::filter::Filter;
use touchstone_host::http::extract::Query;
use touchstone_kit::error::{ErrorCode, Problem};

const SUPPORTED: [&str; 4] = ["updates", "values", "messages", "debug"];
const LONGEST_BUFFER_MS: u64 = 5000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Events of the log.
    Events(Filter),
    /// Snapshots of the run.
    Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    pub mode: Mode,
    /// How long events are collected into a batch; zero for no batches.
    pub buffer: Duration,
}

impl StreamOptions {
    /// Parses the query.
    ///
    /// # Errors
    /// `unsupported_stream_mode`, `validation_error`.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mode = match query.get("streamMode") {
            None => Mode::Events(Filter::UPDATES),
            Some(list) => parse_modes(list).ok_or_else(unsupported)?,
        };
        let buffer = query
            .whole("bufferMs", 0, LONGEST_BUFFER_MS)?
            .unwrap_or_default();
        Ok(Self {
            mode,
            buffer: Duration::from_millis(buffer),
        })
    }
}

fn parse_modes(list: &str) -> Option<Mode> {
    if list == "values" {
        return Some(Mode::Values);
    }
    let mut filter = Filter {
        updates: false,
        messages: false,
        debug: false,
    };
    for mode in list.split(',') {
        match mode {
            "updates" => filter.updates = true,
            "messages" => filter.messages = true,
            "debug" => filter.debug = true,
            _ => return None,
        }
    }
    Some(Mode::Events(filter))
}

fn unsupported() -> Problem {
    Problem::new(
        ErrorCode::UnsupportedStreamMode,
        "`streamMode` must be a comma-separated list of `updates`, `messages`, `debug`, or \
         `values` alone",
    )
    .with("supported", SUPPORTED.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("updates", Some(Mode::Events(Filter::UPDATES)))]
    #[case("values", Some(Mode::Values))]
    #[case("messages", Some(Mode::Events(Filter::MESSAGES)))]
    #[case("debug", Some(Mode::Events(Filter::DEBUG)))]
    #[case("debug,updates", Some(Mode::Events(Filter { debug: true, ..Filter::UPDATES })))]
    #[case("messages,updates", Some(Mode::Events(Filter::UPDATES_AND_MESSAGES)))]
    #[case("", None)]
    #[case("UPDATES", None)]
    #[case("values,updates", None)]
    #[case("updates,values", None)]
    #[case("updates,,debug", None)]
    #[case("updates,bogus", None)]
    fn a_list_of_modes_is_their_union(#[case] list: &str, #[case] expected: Option<Mode>) {
        assert_eq!(parse_modes(list), expected);
    }
}
