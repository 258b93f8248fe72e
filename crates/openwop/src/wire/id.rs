//! Ids of major 2 that name their tenant (OpenWOP v2 identity §5).
//!
//! In bodies such an id is `TENANT/OPAQUE`. In URLs every byte outside of `[A-Za-z0-9._-]` is `~`
//! and two upper-case hexadecimal digits, so it is `TENANT~2FOPAQUE`. Inside, ids have no tenant.

use std::fmt::Write as _;

/// Where a client gives an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// A parameter of the path or of the query. It may also be the opaque part alone.
    Url,
    /// A member of a body.
    Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The text is not an id of this form.
    Malformed,
    /// It names another tenant than the caller's. Whether it exists was not looked up.
    OtherTenant,
}

/// The form of an id in bodies.
pub fn bound(tenant: &str, opaque: &str) -> String {
    format!("{tenant}/{opaque}")
}

/// The form of a bound id in URLs.
pub fn projected(tenant: &str, opaque: &str) -> String {
    escaped(&bound(tenant, opaque))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "~{byte:02X}");
        }
    }
    escaped
}

/// The opaque part of an id that a client of `tenant` gives. Percent escapes of a URL are already
/// decoded.
///
/// # Errors
/// The text has a `~` that is not followed by two upper-case hexadecimal digits, names another tenant, or,
/// in a body, none.
pub fn opaque(tenant: &str, seat: Seat, given: &str) -> Result<String, IdError> {
    let given = match seat {
        Seat::Url => unescaped(given).ok_or(IdError::Malformed)?,
        Seat::Body => given.to_owned(),
    };
    match given.rsplit_once('/') {
        Some((named, _)) if named != tenant => Err(IdError::OtherTenant),
        Some((_, opaque)) if !opaque.is_empty() => Ok(opaque.to_owned()),
        None if seat == Seat::Url => Ok(given),
        Some(_) | None => Err(IdError::Malformed),
    }
}

/// Whether an id in a URL names a tenant.
pub fn names_tenant(given: &str) -> bool {
    unescaped(given).is_some_and(|it| it.contains('/'))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'~' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const RUN: &str = "run_018f3c0000000000";

    #[rstest]
    #[case(Seat::Url, "acme~2Frun_018f3c0000000000", Ok(RUN))]
    #[case(Seat::Url, "acme/run_018f3c0000000000", Ok(RUN))]
    #[case(Seat::Url, RUN, Ok(RUN))]
    #[case(Seat::Url, "acme~2frun_018f3c0000000000", Err(IdError::Malformed))]
    #[case(Seat::Url, "acme~2", Err(IdError::Malformed))]
    #[case(Seat::Url, "acme~", Err(IdError::Malformed))]
    #[case(Seat::Url, "acme~ZZx", Err(IdError::Malformed))]
    #[case(Seat::Url, "acme~FFx", Err(IdError::Malformed))]
    #[case(Seat::Url, "acme~2F", Err(IdError::Malformed))]
    #[case(Seat::Url, "other~2Frun_018f3c0000000000", Err(IdError::OtherTenant))]
    #[case(Seat::Url, "other~2F", Err(IdError::OtherTenant))]
    #[case(Seat::Url, "acme~2Fx~2Fy", Err(IdError::OtherTenant))]
    #[case(Seat::Body, "acme/run_018f3c0000000000", Ok(RUN))]
    #[case(Seat::Body, RUN, Err(IdError::Malformed))]
    #[case(Seat::Body, "acme/", Err(IdError::Malformed))]
    #[case(Seat::Body, "acme~2Frun_018f3c0000000000", Err(IdError::Malformed))]
    #[case(Seat::Body, "other/run_018f3c0000000000", Err(IdError::OtherTenant))]
    fn ids_are_read_in_their_seat(
        #[case] seat: Seat,
        #[case] given: &str,
        #[case] expected: Result<&str, IdError>,
    ) {
        let expected = expected.map(str::to_owned);
        assert_eq!(opaque("acme", seat, given), expected);
    }

    #[rstest]
    #[case("acme~2Frun_018f3c0000000000", true)]
    #[case("acme/run_018f3c0000000000", true)]
    #[case(RUN, false)]
    #[case("acme~2", false)]
    fn only_a_bound_id_names_its_tenant(#[case] given: &str, #[case] expected: bool) {
        assert_eq!(names_tenant(given), expected);
    }

    proptest! {
        #[test]
        fn an_id_is_read_back_from_both_forms(
            tenant in "(anon:)?[A-Za-z0-9._~-]{1,128}",
            id in "[A-Za-z0-9._-]{16,128}",
        ) {
            let url = projected(&tenant, &id);
            prop_assert!(url.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-~".contains(&it)));
            prop_assert_eq!(opaque(&tenant, Seat::Url, &url), Ok(id.clone()));
            prop_assert_eq!(opaque(&tenant, Seat::Body, &bound(&tenant, &id)), Ok(id));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,64}") {
            let _ = opaque("acme", Seat::Url, &text);
            let _ = opaque("acme", Seat::Body, &text);
        }
    }
}
