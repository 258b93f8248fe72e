//! The result of a command: an exit code and, for failures, one line for the cause and one for the
//! remedy.

use std::borrow::Cow;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Map, Value};

use touchstone_kit::error::{ErrorCode, ErrorEnvelope, INSUFFICIENT_EVIDENCE, Problem};

/// The exit codes, as `--help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and the verdict, if any, is positive.
    Good = 0,
    /// The verdict is negative.
    Negative = 1,
    /// Bad input or usage.
    BadInput = 2,
    /// Could not complete: an infrastructure error.
    NotDone = 3,
    /// Not enough evidence for a verdict: tasks are unjudged, the confidence interval includes the
    /// pass score, or an agent has too few tasks for a rating.
    Inconclusive = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    /// A stable code; if the host answered with one, the host's.
    pub code: Cow<'static, str>,
    /// The cause, in one line.
    pub message: String,
    /// What to do next, in one line.
    pub remedy: Option<String>,
    /// Details for programs.
    pub details: Map<String, Value>,
}

impl Failure {
    pub fn new(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            remedy: None,
            details: Map::new(),
        }
    }

    /// Arguments that contradict each other.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, "usage", message)
    }

    pub fn bad_input(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, code, message)
    }

    pub fn inconclusive(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Exit::Inconclusive, code, message)
    }

    pub fn not_done(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Exit::NotDone, code, message)
    }

    /// A response that could not be parsed as the expected document.
    pub fn unexpected(cause: &serde_json::Error) -> Self {
        Self::not_done(
            "unexpected_answer",
            format!("unexpected response from the host: {cause}"),
        )
        .or_try("check that host and command have the same version")
    }

    #[must_use]
    pub fn or_try(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The failure for an unsuccessful response of a host.
    pub fn answered(status: u16, body: &[u8]) -> Self {
        let exit = exit_of(status);
        match serde_json::from_slice::<ErrorEnvelope>(body) {
            Ok(envelope) => Self {
                remedy: remedy_for(status).map(str::to_owned),
                ..Self::enveloped(exit, envelope)
            },
            Err(_) => Self::of_rating(exit, status, body),
        }
    }

    /// The AAAF API has its own error envelope.
    fn of_rating(exit: Exit, status: u16, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            error: Fault,
        }
        #[derive(Deserialize)]
        struct Fault {
            code: String,
            message: String,
            #[serde(default)]
            details: Map<String, Value>,
        }
        match serde_json::from_slice::<Envelope>(body) {
            Ok(Envelope { error }) => Self {
                remedy: remedy_for(status).map(str::to_owned),
                details: error.details,
                ..Self::new(of_code(&error.code, exit), error.code, error.message)
            },
            Err(_) => Self::new(
                exit,
                "unexpected_answer",
                format!("the server answered {status} without an OpenWOP error document"),
            )
            .or_try("check that --server names an OpenWOP host"),
        }
    }

    /// The failure that a host reports for work it had accepted.
    pub fn reported(envelope: ErrorEnvelope) -> Self {
        let known = ErrorCode::of(&envelope.error);
        let exit = known.map_or(Exit::NotDone, |code| exit_of(code.status()));
        Self::enveloped(exit, envelope)
    }

    fn enveloped(exit: Exit, envelope: ErrorEnvelope) -> Self {
        Self {
            details: envelope.details.unwrap_or_default(),
            ..Self::new(exit, envelope.error, envelope.message)
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self {
            details: problem.details,
            ..Self::new(
                exit_of(problem.code.status()),
                problem.code.as_str(),
                problem.message,
            )
        }
    }
}

/// An error with its causes, in one line. Some libraries repeat the cause in their own text; it is
/// printed only once.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        next = cause.source();
    }
    text
}

/// Errors that the caller can correct are bad input; the others could not complete.
fn exit_of(status: u16) -> Exit {
    match status {
        429 => Exit::NotDone,
        400..=499 | 501 => Exit::BadInput,
        _ => Exit::NotDone,
    }
}

/// Insufficient evidence of a rating is inconclusive, whatever the status of the response.
pub fn of_code(code: &str, otherwise: Exit) -> Exit {
    match code {
        INSUFFICIENT_EVIDENCE => Exit::Inconclusive,
        _ => otherwise,
    }
}

fn remedy_for(status: u16) -> Option<&'static str> {
    match status {
        401 => Some(
            "set a valid key with --key or TOUCHSTONE_KEY; the host's operator creates keys with `touchstone key create`",
        ),
        403 => Some("ask the host's operator for a key with this scope"),
        429 | 503 => Some("try again in a moment"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(400, Exit::BadInput)]
    #[case(404, Exit::BadInput)]
    #[case(429, Exit::NotDone)]
    #[case(500, Exit::NotDone)]
    #[case(501, Exit::BadInput)]
    #[case(502, Exit::NotDone)]
    fn a_status_has_an_exit_code(#[case] status: u16, #[case] exit: Exit) {
        let body = br#"{"error":"some_code","message":"text","details":{"field":"x"}}"#;
        let failure = Failure::answered(status, body);
        assert_eq!(failure.exit, exit);
        assert_eq!(failure.code, "some_code");
        assert_eq!(failure.details["field"], "x");
    }

    #[test]
    fn repeated_causes_are_printed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the store failed: {0}")]
        struct Repeating(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("the database cannot be opened")]
        struct Plain(#[source] Repeating);
        let error = Plain(Repeating(std::io::Error::other("refused")));
        assert_eq!(
            with_causes(&error),
            "the database cannot be opened: the store failed: refused"
        );
    }

    #[test]
    fn the_error_envelope_of_ratings_is_parsed() {
        let body =
            br#"{"error":{"code":"NOT_FOUND","message":"no such agent","details":{"field":"x"}}}"#;
        let failure = Failure::answered(404, body);
        assert_eq!(
            (failure.exit, &*failure.code, &*failure.message),
            (Exit::BadInput, "NOT_FOUND", "no such agent")
        );
        assert_eq!(failure.details["field"], "x");
    }

    #[test]
    fn insufficient_evidence_is_inconclusive() {
        let body = br#"{"error":{"code":"INSUFFICIENT_EVIDENCE","message":"5 of 20 tasks"}}"#;
        assert_eq!(Failure::answered(422, body).exit, Exit::Inconclusive);
    }

    #[test]
    fn a_response_without_an_error_envelope_is_reported_as_unexpected() {
        let failure = Failure::answered(502, b"<html>");
        assert_eq!(failure.code, "unexpected_answer");
        assert_eq!(failure.exit, Exit::NotDone);
    }
}
