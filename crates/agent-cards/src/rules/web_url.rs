//! Valid URLs in a card: text that people, libraries and the URL Standard interpret alike.

use url::Url;

/// A URL in the strict form: with `://` and a host, without white space, control characters or user
/// information.
pub fn parse(text: &str) -> Option<Url> {
    let (_, rest) = text.split_once("://")?;
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    (plain && url.host_str().is_some_and(|host| !host.is_empty())).then_some(url)
}

/// A URL in the strict form with the scheme https.
pub fn parse_https(text: &str) -> Option<Url> {
    parse(text).filter(|url| url.scheme() == "https")
}

/// A URL in the strict form with the scheme http or https.
pub fn parse_http(text: &str) -> Option<Url> {
    parse(text).filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Maximum length in bytes of a card's URL.
pub const MAX_CARD_PLACE: usize = 2_048;

/// The URL of a card, without its fragment.
pub fn card_place(text: &str) -> Option<Url> {
    let mut url = parse_http(text)?;
    url.set_fragment(None);
    (url.as_str().len() <= MAX_CARD_PLACE).then_some(url)
}

/// Whether the text starts like a URL without encryption, whatever follows.
pub fn starts_as_http(text: &str) -> bool {
    text.get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("http:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("https://agents.example/a2a", true)]
    #[case::any_case("HTTPS://Agents.Example/", true)]
    #[case::port("https://agents.example:8443", true)]
    #[case::address("https://[2606:4700::1]/x", true)]
    #[case::at_in_path("https://agents.example/@me?a=b@c#d@e", true)]
    #[case::idn("https://bücher.example/", true)]
    #[case::other_scheme("ftp://files.example/i.png", true)]
    #[case::no_scheme("agents.example/a2a", false)]
    #[case::one_slash("https:/agents.example", false)]
    #[case::no_host("https://", false)]
    #[case::empty_host("urn://", false)]
    #[case::space("https://agents.example/a b", false)]
    #[case::leading_space(" https://agents.example", false)]
    #[case::control("https://agents.example/\u{1}", false)]
    #[case::user("https://me@agents.example", false)]
    #[case::password("https://me:pw@agents.example", false)]
    #[case::empty_user("https://@agents.example", false)]
    #[case::bad_port("https://agents.example:99999", false)]
    #[case::bad_address("https://300.1.1.1/", false)]
    #[case::word("n/a", false)]
    fn only_the_strict_form_is_a_url(#[case] text: &str, #[case] is: bool) {
        assert_eq!(parse(text).is_some(), is);
    }

    #[rstest]
    #[case("http://x.example", true)]
    #[case("HTTP:x", true)]
    #[case("https://x.example", false)]
    #[case("htt", false)]
    #[case("httpé", false)]
    fn http_urls_are_recognized_by_their_scheme(#[case] text: &str, #[case] is: bool) {
        assert_eq!(starts_as_http(text), is);
    }
}
