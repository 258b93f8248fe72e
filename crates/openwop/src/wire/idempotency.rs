//! `Idempotency-Key` under major 2 (OpenWOP v2 idempotency).

use touchstone_kit::error::{ErrorCode, Problem};

use super::Major;
use super::error::{BACK_OFF, spelled};

/// What a key must be, for error messages.
pub const GRAMMAR: &str = "22 to 128 characters of `A-Z a-z 0-9 . _ ~ -`";

pub fn is_key(text: &[u8]) -> bool {
    let is_allowed = |it: &u8| it.is_ascii_alphanumeric() || b"._~-".contains(it);
    (22..=128).contains(&text.len()) && text.iter().all(is_allowed)
}

/// Whether a refusal is final: the same request with the same key gets it again. Of others, the client
/// may correct the cause and repeat the request, or try again later.
pub fn is_final(problem: &Problem) -> bool {
    let passing = [
        ErrorCode::IdempotencyKeyInvalid,
        ErrorCode::IdempotencyInFlight,
        ErrorCode::IdempotencyKeyMismatch,
        ErrorCode::RunAlreadyActive,
    ];
    let (name, status) = spelled(Major::V2, problem.code);
    let is_later = BACK_OFF.iter().any(|it| problem.details.contains_key(*it));
    (400..500).contains(&status)
        && ![401, 403, 429].contains(&status)
        && !passing.contains(&problem.code)
        && name != "validation_error"
        && !is_later
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(ErrorCode::RunTerminal, true)]
    #[case(ErrorCode::RunStateConflict, true)]
    #[case(ErrorCode::NotFound, true)]
    #[case(ErrorCode::EvalGateUnmet, true)]
    #[case(ErrorCode::RunExpired, true)]
    #[case(ErrorCode::WebhookUrlRejected, true)]
    #[case(ErrorCode::ValidationError, false)]
    #[case(ErrorCode::UnsupportedMockProvider, false)]
    #[case(ErrorCode::IdempotencyKeyInvalid, false)]
    #[case(ErrorCode::IdempotencyInFlight, false)]
    #[case(ErrorCode::RunAlreadyActive, false)]
    #[case(ErrorCode::Unauthenticated, false)]
    #[case(ErrorCode::Forbidden, false)]
    #[case(ErrorCode::IdTenantMismatch, false)]
    #[case(ErrorCode::RateLimited, false)]
    #[case(ErrorCode::Unavailable, false)]
    #[case(ErrorCode::InternalError, false)]
    fn refusals_that_a_repetition_cannot_change_are_final(
        #[case] code: ErrorCode,
        #[case] expected: bool,
    ) {
        assert_eq!(is_final(&Problem::new(code, "no")), expected);
        let later = Problem::new(code, "no").with("retryAfter", 5);
        assert!(!is_final(&later));
    }

    #[rstest]
    #[case("0123456789abcdefABCDEF", true)]
    #[case("0123456789._~-ABCDEFGH", true)]
    #[case("0123456789abcdefABCDE", false)]
    #[case("0123456789abcdef ABCDEF", false)]
    #[case("0123456789abcdef/ABCDEF", false)]
    #[case("", false)]
    fn a_key_has_a_grammar(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_key(text.as_bytes()), expected);
        assert!(is_key("x".repeat(128).as_bytes()));
        assert!(!is_key("x".repeat(129).as_bytes()));
    }
}
