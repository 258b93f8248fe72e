//! Media types with names as RFC 6838 §4.2 restricts them and parameters of RFC 9110 §8.3.1. Ranges
//! are not media types.

/// Maximum length of a type or subtype name.
const MAX_NAME: usize = 127;

/// Whether the whole `text` is a media type.
pub fn is_media_type(text: &str) -> bool {
    let Some((kind, rest)) = text.split_once('/') else {
        return false;
    };
    let end = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
    let (subtype, parameters) = rest.split_at(end);
    is_restricted_name(kind) && is_restricted_name(subtype) && are_parameters(parameters)
}

fn is_restricted_name(name: &str) -> bool {
    let first = name.bytes().next();
    name.len() <= MAX_NAME
        && first.is_some_and(|octet| octet.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&octet))
}

fn are_parameters(mut rest: &str) -> bool {
    const SPACE: [char; 2] = [' ', '\t'];
    while !rest.is_empty() {
        let Some(parameter) = rest.trim_start_matches(SPACE).strip_prefix(';') else {
            return false;
        };
        let Some((name, value)) = parameter.trim_start_matches(SPACE).split_once('=') else {
            return false;
        };
        let after = match value.strip_prefix('"') {
            Some(quoted) => after_quoted(quoted),
            None => after_token(value),
        };
        match after {
            Some(after) if is_token(name) => rest = after,
            _ => return false,
        }
    }
    true
}

fn after_token(value: &str) -> Option<&str> {
    let end = value.find(|c| !is_token_char(c)).unwrap_or(value.len());
    let (token, after) = value.split_at(end);
    (!token.is_empty()).then_some(after)
}

/// The text after the closing quote.
fn after_quoted(quoted: &str) -> Option<&str> {
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some(chars.as_str()),
            '\\' => {
                chars.next().filter(|c| *c == '\t' || !c.is_control())?;
            }
            c if c != '\t' && c.is_control() => return None,
            _ => {}
        }
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("text/plain", true)]
    #[case::suffix("application/vnd.example.x_v2+json", true)]
    #[case::upper("Text/HTML", true)]
    #[case::parameter("text/plain;charset=utf-8", true)]
    #[case::spaced("text/plain ; charset=utf-8 ; a=b", true)]
    #[case::quoted(r#"multipart/mixed; boundary="a \"b\"; c""#, true)]
    #[case::signs("a1/b!#$&-^_.+", true)]
    #[case::longest(&format!("{}/{}", "a".repeat(127), "b".repeat(127)), true)]
    #[case::too_long(&format!("text/{}", "b".repeat(128)), false)]
    #[case::word("text", false)]
    #[case::range("text/*", false)]
    #[case::all("*/*", false)]
    #[case::starred_suffix("application/*+json", false)]
    #[case::two_slashes("text/plain/x", false)]
    #[case::no_type("/plain", false)]
    #[case::no_subtype("text/", false)]
    #[case::first_dot("text/.plain", false)]
    #[case::first_plus("+text/plain", false)]
    #[case::blank("", false)]
    #[case::leading_space(" text/plain", false)]
    #[case::trailing_space("text/plain ", false)]
    #[case::inner_space("text /plain", false)]
    #[case::trailing_semicolon("text/plain;", false)]
    #[case::no_value("text/plain;charset", false)]
    #[case::empty_value("text/plain;charset=", false)]
    #[case::no_name("text/plain;=x", false)]
    #[case::open_quote("text/plain;a=\"b", false)]
    #[case::after_quote("text/plain;a=\"b\"c", false)]
    #[case::two_types("text/plain, text/html", false)]
    #[case::umlaut("text/plän", false)]
    fn valid_media_types_are_recognized(#[case] text: &str, #[case] is: bool) {
        assert_eq!(is_media_type(text), is);
    }
}
