//! The error envelope of the AAAF API: `{"error": {"code", "message", "details"}}`, with the codes
//! of AAAF S14.
//!
//! Errors that S14 does not define use the S14 code of their class and keep their own status, so
//! that a client that knows only S14 understands every answer.

use serde::Serialize;
use serde_json::{Map, Value};

use touchstone_kit::error::{ErrorCode, Problem};

#[derive(Debug, Serialize)]
pub struct Envelope {
    error: Fault,
}

#[derive(Debug, Serialize)]
struct Fault {
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// Converts a problem to the envelope.
pub fn of(problem: &Problem) -> Envelope {
    let details = problem.details.iter();
    Envelope {
        error: Fault {
            code: code(problem.code),
            message: problem.message.clone(),
            details: details
                .map(|(name, value)| (snake(name), value.clone()))
                .collect(),
        },
    }
}

/// The code of S14 for a code of the host.
pub fn code(code: ErrorCode) -> &'static str {
    match (code, code.status()) {
        (
            ErrorCode::InvalidEventType
            | ErrorCode::WeightSumInvalid
            | ErrorCode::AssessmentInProgress
            | ErrorCode::InsufficientEvidence
            | ErrorCode::ReviewRequired
            | ErrorCode::AppealWindowClosed
            | ErrorCode::AppealOpen,
            _,
        ) => code.as_str(),
        (_, 401) => "UNAUTHORIZED",
        (_, 403) => "FORBIDDEN",
        (_, 404) => "NOT_FOUND",
        (_, 409) => "CONFLICT",
        (_, 429) => "RATE_LIMITED",
        (_, 500..) => "INTERNAL_ERROR",
        _ => "INVALID_REQUEST",
    }
}

/// Converts a field name to snake case: this API uses underscores, the layers below camel case.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_host_error_code_maps_to_a_ratings_error_code() {
        let known = [
            "INVALID_REQUEST",
            "INVALID_EVENT_TYPE",
            "UNAUTHORIZED",
            "FORBIDDEN",
            "NOT_FOUND",
            "CONFLICT",
            "WEIGHT_SUM_INVALID",
            "ASSESSMENT_IN_PROGRESS",
            "INSUFFICIENT_EVIDENCE",
            "REVIEW_REQUIRED",
            "APPEAL_WINDOW_CLOSED",
            "APPEAL_OPEN",
            "RATE_LIMITED",
            "INTERNAL_ERROR",
        ];
        for it in ErrorCode::ALL {
            assert!(known.contains(&code(*it)), "{it}");
        }
        assert_eq!(code(ErrorCode::Unavailable), "INTERNAL_ERROR");
        assert_eq!(code(ErrorCode::PayloadTooLarge), "INVALID_REQUEST");
        assert_eq!(code(ErrorCode::IdempotencyKeyMismatch), "CONFLICT");
    }

    #[test]
    fn error_details_are_always_present_and_in_snake_case() {
        let problem = Problem::new(ErrorCode::RateLimited, "no").with("retryAfterMs", 5);
        assert_eq!(
            serde_json::to_value(of(&problem)).unwrap(),
            json!({"error": {"code": "RATE_LIMITED", "message": "no", "details": {"retry_after_ms": 5}}})
        );
        let bare = Problem::new(ErrorCode::NotFound, "no");
        assert_eq!(
            serde_json::to_value(of(&bare)).unwrap()["error"]["details"],
            json!({})
        );
    }
}
