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
            None => Mode::Events(Filter::Updates),
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
    let (mut updates, mut messages, mut debug) = (false, false, false);
    if list == "values" {
        return Some(Mode::Values);
    }
    for mode in list.split(',') {
        match mode {
            "updates" => updates = true,
            "messages" => messages = true,
            "debug" => debug = true,
            _ => return None,
        }
    }
    Some(Mode::Events(match (debug, updates, messages) {
        (true, _, _) => Filter::Everything,
        (false, true, true) => Filter::UpdatesAndMessages,
        (false, true, false) => Filter::Updates,
        (false, false, _) => Filter::Messages,
    }))
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
    #[case("updates", Some(Mode::Events(Filter::Updates)))]
    #[case("values", Some(Mode::Values))]
    #[case("messages", Some(Mode::Events(Filter::Messages)))]
    #[case("debug", Some(Mode::Events(Filter::Everything)))]
    #[case("debug,updates", Some(Mode::Events(Filter::Everything)))]
    #[case("messages,updates", Some(Mode::Events(Filter::UpdatesAndMessages)))]
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
