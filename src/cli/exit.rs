//! What a command comes to: an exit code, and for failures one line what and one line what to do next.

use std::borrow::Cow;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::eval::report::Verdict;
use crate::protocol::error::{ErrorCode, ErrorEnvelope, Problem};

/// The exit codes, as `--help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and the verdict, if there is one, is positive.
    Good = 0,
    /// The verdict is negative.
    Negative = 1,
    /// Bad input or usage.
    BadInput = 2,
    /// Could not be carried out.
    NotDone = 3,
    /// Not every task was judged, or the score shows neither that the bar is reached nor that it is missed.
    Inconclusive = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass | Verdict::Pending => Self::Good,
            Verdict::Fail => Self::Negative,
            Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

/// Why a command ended without doing what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// A stable code: the host's own where it answered with one.
    pub code: Cow<'static, str>,
    /// What went wrong, in one line.
    pub message: String,
    /// What to do next, in one line.
    pub remedy: Option<String>,
    /// Facts for programs.
    pub details: Map<String, Value>,
}

impl Failure {
    /// A failure with a code of its own.
    pub fn new(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            remedy: None,
            details: Map::new(),
        }
    }

    /// Arguments that make no sense together.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, "usage", message)
    }

    /// Input that cannot be used.
    pub fn bad_input(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, code, message)
    }

    /// Something that could not be carried out.
    pub fn not_done(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Exit::NotDone, code, message)
    }

    /// An answer that is not the document it should be.
    pub fn unexpected(cause: &serde_json::Error) -> Self {
        Self::not_done(
            "unexpected_answer",
            format!("the host's answer is not the expected document: {cause}"),
        )
        .or_try("check that the host's version is this command's")
    }

    /// Adds what to do next.
    #[must_use]
    pub fn or_try(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// An answer of a host that is no success.
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

    /// The AAAF API has an envelope of its own.
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
                ..Self::new(exit, error.code, error.message)
            },
            Err(_) => Self::new(
                exit,
                "unexpected_answer",
                format!("the server answered {status} with something that is no OpenWOP error"),
            )
            .or_try("check that --server names an OpenWOP host"),
        }
    }

    /// What a host says became of work that it had accepted.
    pub fn reported(envelope: ErrorEnvelope) -> Self {
        let known = ErrorCode::ALL
            .iter()
            .find(|code| code.as_str() == envelope.error);
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

/// An error with what caused it, in one line. Some libraries repeat their cause in their own text; here it stands once.
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

/// What the caller can mend is bad input; what the host cannot do right now could not be carried out.
fn exit_of(status: u16) -> Exit {
    match status {
        429 => Exit::NotDone,
        400..=499 | 501 => Exit::BadInput,
        _ => Exit::NotDone,
    }
}

fn remedy_for(status: u16) -> Option<&'static str> {
    match status {
        401 => Some(
            "give a valid key by --key or TOUCHSTONE_KEY; the host's operator makes one by `touchstone key create`",
        ),
        403 => Some("ask the host's operator for a key with the scope"),
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
    fn a_cause_is_told_once() {
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
    fn the_envelope_of_ratings_is_understood_too() {
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
    fn an_answer_without_an_envelope_says_so() {
        let failure = Failure::answered(502, b"<html>");
        assert_eq!(failure.code, "unexpected_answer");
        assert_eq!(failure.exit, Exit::NotDone);
    }
}
