//! Words for commands to paste into a shell.

use std::borrow::Cow;

use url::Url;

/// The word as a POSIX shell reads it back.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

/// The URL of a database as a word. A URL with a password is named by its variable, because
/// commands to paste end up in logs and tickets.
pub fn database_url(url: &str) -> Cow<'_, str> {
    let has_password = |url: Url| {
        let mut parameters = url.query_pairs();
        url.password().is_some() || parameters.any(|(name, _)| name.contains("password"))
    };
    // A URL that cannot be parsed may hold one.
    if url.parse().map_or(true, has_password) {
        Cow::Borrowed("\"$TOUCHSTONE_DATABASE_URL\"")
    } else {
        quoted(url)
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

    #[rstest]
    #[case("postgres://db.example/t", "postgres://db.example/t")]
    #[case(
        "postgres://me@%2Frun%2Fpg/t?sslmode=disable",
        "'postgres://me@%2Frun%2Fpg/t?sslmode=disable'"
    )]
    #[case("sqlite:my data/t.db", "'sqlite:my data/t.db'")]
    #[case("postgres://me:secret@db.example/t", "\"$TOUCHSTONE_DATABASE_URL\"")]
    #[case(
        "postgres://db.example/t?password=secret",
        "\"$TOUCHSTONE_DATABASE_URL\""
    )]
    #[case("postgres://me:secret@[db/t", "\"$TOUCHSTONE_DATABASE_URL\"")]
    fn a_database_url_with_a_password_is_named_by_its_variable(
        #[case] url: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(database_url(url), expected);
    }
}
