//! Whether the whole text is a version of Semantic Versioning 2.0.0.
//!
//! Implemented here because the `semver` crate limits numbers to 64 bits, and the grammar does not.

pub fn is_semantic_version(text: &str) -> bool {
    let (rest, build) = cut(text, '+');
    let (core, pre_release) = cut(rest, '-');
    let numbers = core.split('.');
    numbers.clone().count() == 3
        && numbers.clone().all(is_number)
        && pre_release.is_none_or(|it| {
            identifiers(it).all(|it| is_identifier(it) && (!is_digits(it) || is_number(it)))
        })
        && build.is_none_or(|it| identifiers(it).all(is_identifier))
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split('.')
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || octet == b'-')
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit())
}

/// Digits without a leading zero.
fn is_number(text: &str) -> bool {
    is_digits(text) && (text == "0" || !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0.0.0", true)]
    #[case("1.4.2", true)]
    #[case("1.0.0-alpha.1", true)]
    #[case("1.0.0-x-y-z.--", true)]
    #[case("1.0.0-0a.0", true)]
    #[case("1.0.0+001.a", true)]
    #[case("1.0.0-rc.1+build.5", true)]
    #[case("1.0.0+a-b", true)]
    #[case("99999999999999999999999.0.1", true)]
    #[case("1", false)]
    #[case("1.4", false)]
    #[case("1.4.2.0", false)]
    #[case("v1.4.2", false)]
    #[case("01.4.2", false)]
    #[case("1.04.2", false)]
    #[case("1.4.2 ", false)]
    #[case("1.4.2 final", false)]
    #[case("1.4.2-", false)]
    #[case("1.4.2+", false)]
    #[case("1.4.2-01", false)]
    #[case("1.4.2-a..b", false)]
    #[case("1.4.2+a+b", false)]
    #[case("1.4.2-ä", false)]
    #[case("1..2", false)]
    #[case("", false)]
    fn only_complete_semantic_versions_are_recognized(#[case] text: &str, #[case] is: bool) {
        assert_eq!(is_semantic_version(text), is);
    }
}
