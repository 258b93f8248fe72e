//! Words for commands to paste into a shell.

use std::borrow::Cow;

/// The word as a POSIX shell reads it back.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("vendor.acme.evals.triage@1.0.0", "vendor.acme.evals.triage@1.0.0")]
    #[case("./agent.py --fast", "'./agent.py --fast'")]
    #[case("it's", r"'it'\''s'")]
    #[case("$HOME", "'$HOME'")]
    #[case("", "''")]
    fn words_are_quoted_where_the_shell_would_change_them(
        #[case] word: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(quoted(word), expected);
    }
}
