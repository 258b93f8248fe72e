//! `Idempotency-Key` under major 2 (OpenWOP v2 idempotency).

/// What a key must be, for error messages.
pub const GRAMMAR: &str = "22 to 128 characters of `A-Z a-z 0-9 . _ ~ -`";

pub fn is_key(text: &[u8]) -> bool {
    let is_allowed = |it: &u8| it.is_ascii_alphanumeric() || b"._~-".contains(it);
    (22..=128).contains(&text.len()) && text.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

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
