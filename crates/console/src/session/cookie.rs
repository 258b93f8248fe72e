//! Cookies of the console.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use touchstone_host::service::sign_in::ATTEMPT_TIME;

pub const THEME: &str = "touchstone-theme";

/// The prefix makes browsers refuse the cookie unless it is `Secure`, of this host and of path `/`.
pub const fn session_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-touchstone",
        false => "touchstone",
    }
}

/// The cookie of a session's token, until the browser closes or the session ends.
pub fn session(secure: bool, token: &str) -> HeaderValue {
    cookie(secure, session_name(secure), token, "Strict", None)
}

/// Removes the cookie of the session.
pub fn no_session(secure: bool) -> HeaderValue {
    cookie(secure, session_name(secure), "", "Strict", Some(0))
}

/// The cookie that binds a sign-in at a provider to this browser.
pub const fn attempt_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-touchstone-oidc",
        false => "touchstone-oidc",
    }
}

/// `Lax`, because the provider sends the browser back from another site.
pub fn attempt(secure: bool, secret: &str) -> HeaderValue {
    let age = u64::try_from(ATTEMPT_TIME.as_secs()).unwrap_or_default();
    cookie(secure, attempt_name(secure), secret, "Lax", Some(age))
}

/// Removes the cookie of the sign-in.
pub fn no_attempt(secure: bool) -> HeaderValue {
    cookie(secure, attempt_name(secure), "", "Lax", Some(0))
}

pub fn theme(secure: bool, theme: &str) -> HeaderValue {
    cookie(secure, THEME, theme, "Lax", Some(365 * 24 * 60 * 60))
}

fn cookie(
    secure: bool,
    name: &str,
    value: &str,
    same_site: &str,
    max_age_s: Option<u64>,
) -> HeaderValue {
    let secure = if secure { "; Secure" } else { "" };
    let age = max_age_s.map_or_else(String::new, |it| format!("; Max-Age={it}"));
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}{secure}{age}");
    touchstone_host::http::answer::own_header(&text)
}

/// The value of a cookie.
pub fn read<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter();
    let pairs = cookies.filter_map(|it| it.to_str().ok());
    let mut pairs = pairs.flat_map(|it| it.split(';'));
    pairs.find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name && !value.is_empty()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("touchstone=a.b", Some("a.b"))]
    #[case("x=1; touchstone=a.b; y=2", Some("a.b"))]
    #[case("touchstone=", None)]
    #[case("xtouchstone=a", None)]
    #[case("", None)]
    fn a_cookie_is_found_by_its_name(#[case] header: &str, #[case] expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, header.parse().unwrap());
        assert_eq!(read(&headers, "touchstone"), expected);
    }
}
