//! The body of `POST /v1/webhooks`: a closed document, read with errors that name the field.
//!
//! The URL's target is not checked here, because that takes a resolver.

use serde_json::Value;
use url::Url;

use super::secret::Secret;
use super::{SCHEME_STANDARD, SCHEME_V1, SCHEMES};
use crate::error::Problem;
use crate::fields::{Fields, Nulls};

const FIELDS: [&str; 6] = [
    "url",
    "events",
    "tenantId",
    "tags",
    "secret",
    "signatureAlgorithms",
];
const MAX_URL: usize = 2048;
const MAX_EVENTS: usize = 100;
const MAX_EVENT: usize = 128;
const MAX_TAGS: usize = 100;
const MAX_TAG: usize = 256;

/// A well-formed registration.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    pub url: Url,
    /// Exact event types, each once.
    pub events: Vec<String>,
    /// Only runs with one of these tags; empty for all runs.
    pub tags: Vec<String>,
    /// `tenantId`, which must be the key's own.
    pub tenant_id: Option<String>,
    /// A secret supplied by the caller.
    pub secret: Option<Secret>,
    /// The requested `signatureAlgorithms`; `None` for the default.
    pub schemes: Option<Vec<String>>,
}

impl Registration {
    /// Reads the body.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &FIELDS, Nulls::Absent)?;
        let schemes = schemes(&fields)?;
        let standard = schemes
            .as_ref()
            .is_some_and(|schemes| schemes.iter().any(|scheme| scheme == SCHEME_STANDARD));
        Ok(Self {
            url: url(&fields)?,
            events: events(&fields)?,
            tags: fields.texts("tags", MAX_TAGS, MAX_TAG)?.unwrap_or_default(),
            tenant_id: fields.text("tenantId")?.map(str::to_owned),
            secret: secret(&fields, standard)?,
            schemes,
        })
    }

    /// Whether the Standard Webhooks headers are requested.
    pub fn is_standard(&self) -> bool {
        self.schemes
            .as_ref()
            .is_some_and(|schemes| schemes.iter().any(|scheme| scheme == SCHEME_STANDARD))
    }
}

/// The body of `POST /v1/webhooks/{webhookId}/rotate-secret`.
///
/// # Errors
/// `validation_error` naming the field.
pub fn parse_rotation(body: &Value) -> Result<Secret, Problem> {
    let fields = Fields::closed(body, "", &["secret"], Nulls::Absent)?;
    secret(&fields, true)?.ok_or_else(|| standard_secret_wanted("is missing"))
}

fn url(fields: &Fields<'_>) -> Result<Url, Problem> {
    let text = fields
        .text("url")?
        .ok_or_else(|| Problem::validation("url", "`url` is missing".to_owned()))?;
    address("url", text)
}

/// Reads the URL for deliveries.
///
/// # Errors
/// `validation_error` naming `field`.
pub fn address(field: &str, text: &str) -> Result<Url, Problem> {
    let invalid = |rule: &str| Problem::validation(field, format!("`{field}` {rule}"));
    if text.len() > MAX_URL {
        return Err(invalid(&format!("must be at most {MAX_URL} characters")));
    }
    // The URL parser would remove these characters, so the URL would differ from the given text.
    if text.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return Err(invalid("must not contain spaces or control characters"));
    }
    let url = text
        .parse::<Url>()
        .map_err(|_| invalid("must be an absolute URL such as https://example.com/hook"))?;
    if url.fragment().is_some() {
        return Err(invalid("must not have a fragment"));
    }
    if url.port() == Some(0) {
        return Err(invalid("must not name port 0"));
    }
    Ok(url)
}

fn events(fields: &Fields<'_>) -> Result<Vec<String>, Problem> {
    let listed = fields
        .texts("events", MAX_EVENTS, MAX_EVENT)?
        .unwrap_or_default();
    if listed.is_empty() {
        return Err(Problem::validation(
            "events",
            "`events` must name at least one event type, such as run.completed",
        ));
    }
    let mut events: Vec<String> = Vec::with_capacity(listed.len());
    for event in listed {
        if !is_event_type(&event) {
            return Err(Problem::validation(
                "events",
                "`events` must contain exact event types such as run.completed; patterns are not \
                 supported",
            ));
        }
        if !events.contains(&event) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Two or more dotted segments of letters, digits, `-` and `_`. Event types that this version never
/// writes are allowed.
fn is_event_type(text: &str) -> bool {
    let segments: Vec<&str> = text.split('.').collect();
    segments.len() >= 2
        && segments.iter().all(|segment| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

fn schemes(fields: &Fields<'_>) -> Result<Option<Vec<String>>, Problem> {
    let name = "signatureAlgorithms";
    let Some(listed) = fields.texts(name, SCHEMES.len(), MAX_TAG)? else {
        return Ok(None);
    };
    let offered = listed
        .iter()
        .all(|scheme| SCHEMES.contains(&scheme.as_str()));
    let repeated = listed
        .iter()
        .enumerate()
        .any(|(n, scheme)| listed.iter().take(n).any(|earlier| earlier == scheme));
    if !offered || repeated || !listed.iter().any(|scheme| scheme == SCHEME_V1) {
        return Err(Problem::validation(
            name,
            format!(
                "`{name}` must list `{SCHEME_V1}` and may list `{SCHEME_STANDARD}`, each only \
                once"
            ),
        ));
    }
    Ok(Some(listed))
}

fn secret(fields: &Fields<'_>, standard: bool) -> Result<Option<Secret>, Problem> {
    let text = fields.text("secret")?;
    match (text, standard) {
        (Some(text), true) => Secret::standard(text)
            .map(Some)
            .ok_or_else(|| standard_secret_wanted("is malformed")),
        (None, true) => Err(standard_secret_wanted("is missing")),
        (Some(text), false) => Secret::brought(text).map(Some).ok_or_else(|| {
            Problem::validation(
                "secret",
                "`secret` must have 16 to 512 printable ASCII characters without spaces; leave \
                it out to have one generated",
            )
        }),
        (None, false) => Ok(None),
    }
}

fn standard_secret_wanted(fault: &str) -> Problem {
    Problem::validation(
        "secret",
        format!(
            "`secret` {fault}: with `{SCHEME_STANDARD}` it must be `whsec_` followed by the \
            base64 of 24 to 64 bytes"
        ),
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn with(name: &str, value: Value) -> Value {
        let mut body = json!({"url": "https://example.com/hook", "events": ["run.completed"]});
        body[name] = value;
        body
    }

    #[rstest]
    #[case::not_an_object(json!([]), "")]
    #[case::unknown(with("extra", json!(1)), "extra")]
    #[case::no_url(json!({"events": ["run.completed"]}), "url")]
    #[case::null_url(with("url", json!(null)), "url")]
    #[case::url_of_no_kind(with("url", json!("not a url")), "url")]
    #[case::url_number(with("url", json!(7)), "url")]
    #[case::url_too_long(with("url", json!(format!("https://example.com/{}", "x".repeat(2048)))), "url")]
    #[case::fragment(with("url", json!("https://example.com/#x")), "url")]
    #[case::line_break(with("url", json!("https://example.com/a\nb")), "url")]
    #[case::space_before(with("url", json!(" https://example.com/")), "url")]
    #[case::port_of_none(with("url", json!("https://example.com:0/")), "url")]
    #[case::no_events(json!({"url": "https://example.com/"}), "events")]
    #[case::empty_events(with("events", json!([])), "events")]
    #[case::event_number(with("events", json!([1])), "events")]
    #[case::event_pattern(with("events", json!(["run.*"])), "events")]
    #[case::event_single(with("events", json!(["run"])), "events")]
    #[case::tags(with("tags", json!([""])), "tags")]
    #[case::tenant(with("tenantId", json!("")), "tenantId")]
    #[case::short_secret(with("secret", json!("short")), "secret")]
    #[case::spaced_secret(with("secret", json!("a secret with spaces")), "secret")]
    #[case::without_v1(with("signatureAlgorithms", json!(["standard-webhooks-1"])), "signatureAlgorithms")]
    #[case::twice(with("signatureAlgorithms", json!(["v1", "v1"])), "signatureAlgorithms")]
    #[case::unknown_scheme(with("signatureAlgorithms", json!(["v1", "v2"])), "signatureAlgorithms")]
    #[case::no_scheme(with("signatureAlgorithms", json!([])), "signatureAlgorithms")]
    #[case::standard_without_secret(with("signatureAlgorithms", json!(["v1", "standard-webhooks-1"])), "secret")]
    fn malformed_registrations_are_rejected_by_field(#[case] body: Value, #[case] field: &str) {
        let problem = Registration::parse(&body).unwrap_err();
        assert_eq!(problem.details["field"], field, "{problem}");
    }

    #[rstest]
    #[case("whsec_", false)]
    #[case("whsec_AAAA", false)]
    #[case(SECRET, true)]
    #[case("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false)]
    fn a_standard_secret_has_its_form(#[case] secret: &str, #[case] sound: bool) {
        let mut body = with("signatureAlgorithms", json!(["v1", "standard-webhooks-1"]));
        body["secret"] = json!(secret);
        assert_eq!(Registration::parse(&body).is_ok(), sound);
        assert_eq!(parse_rotation(&json!({"secret": secret})).is_ok(), sound);
    }

    #[test]
    fn duplicate_events_are_dropped_and_nulls_are_ignored() {
        let mut body = with(
            "events",
            json!(["run.failed", "run.completed", "run.failed"]),
        );
        for absent in ["secret", "tags", "tenantId", "signatureAlgorithms"] {
            body[absent] = Value::Null;
        }
        let read = Registration::parse(&body).unwrap();
        assert_eq!(read.events, ["run.failed", "run.completed"]);
        assert_eq!((read.secret, read.schemes), (None, None));
    }

    #[test]
    fn no_secret_is_printed() {
        let mut body = with("secret", json!("canary-secret-0123456789"));
        body["tags"] = json!(["t"]);
        let read = Registration::parse(&body).unwrap();
        assert!(!format!("{read:?}").contains("canary"));
        let refused = Registration::parse(&with("secret", json!("canary"))).unwrap_err();
        assert!(!format!("{refused:?}").contains("canary"));
    }
}
