//! Whether pages of another origin may call the agent (Fetch Standard, CORS protocol).

use super::exchange::{Headers, Outcome};

/// The only header of the test message that needs permission in a preflight.
const REQUEST_HEADER: &str = "content-type";

/// Whether the preflight allows the test message from `origin`, and pages there may read the
/// answer.
pub fn passes(origin: &str, preflight: &Outcome, message: &Outcome) -> bool {
    let (Ok(preflight), Ok(message)) = (preflight, message) else {
        return false;
    };
    (200..300).contains(&preflight.status)
        && allows_origin(&preflight.headers, origin)
        && allows_header(&preflight.headers)
        && allows_origin(&message.headers, origin)
}

fn allows_origin(headers: &Headers, origin: &str) -> bool {
    let mut values = headers.all("access-control-allow-origin");
    let first = values.next().map(str::trim);
    // Browsers refuse duplicate headers.
    values.next().is_none() && first.is_some_and(|it| it == "*" || it == origin)
}

fn allows_header(headers: &Headers) -> bool {
    let mut names = headers
        .all("access-control-allow-headers")
        .flat_map(|value| value.split(','))
        .map(str::trim);
    names.any(|name| name == "*" || name.eq_ignore_ascii_case(REQUEST_HEADER))
}
