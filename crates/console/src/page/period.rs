//! The time filter of a page: `since` and `until`, as days in UTC or as timestamps.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use touchstone_host::http::extract::Query;
use touchstone_kit::error::Problem;

const SINCE: &str = "since";
const UNTIL: &str = "until";

/// The two fields of the filter.
pub struct Period {
    pub since: Limit,
    pub until: Limit,
}

/// A limit as the query has it.
pub struct Limit {
    pub text: String,
    /// The type of its field: a timestamp does not fit into a field for a day.
    pub kind: &'static str,
}

impl Period {
    pub fn of(query: &Query) -> Self {
        Self {
            since: Limit::of(query.get(SINCE)),
            until: Limit::of(query.get(UNTIL)),
        }
    }
}

impl Limit {
    fn of(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        Self {
            text: text.to_owned(),
            kind: match text.is_empty() || day(text).is_some() {
                true => "date",
                false => "text",
            },
        }
    }
}

/// The query with timestamps instead of days: from the start of the first day to the end of the
/// last one, both in UTC.
pub fn in_timestamps(query: &Query) -> Query {
    let mut found = query.clone();
    if let Some(start) = query.get(SINCE).and_then(day).and_then(start_of) {
        found = found.with(SINCE, start.to_string());
    }
    let after = |date: Date| start_of(date.tomorrow().ok()?);
    if let Some(end) = query.get(UNTIL).and_then(day).and_then(after) {
        found = found.with(UNTIL, end.to_string());
    }
    found
}

/// The limits of the query.
///
/// # Errors
/// `validation_error` that names the parameter.
pub fn limits(query: &Query) -> Result<[Option<Timestamp>; 2], Problem> {
    let query = in_timestamps(query);
    let read = |name: &str| match query.get(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            let expected = "must be a day, such as 2026-11-24, or an RFC 3339 timestamp";
            Problem::validation(name, format!("`{name}` {expected}"))
        }),
    };
    Ok([read(SINCE)?, read(UNTIL)?])
}

/// The day that a text names, such as `2026-11-28`.
fn day(text: &str) -> Option<Date> {
    let is_day = text.len() == "2026-11-28".len();
    is_day.then(|| text.parse().ok()).flatten()
}

fn start_of(date: Date) -> Option<Timestamp> {
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("2026-11-28", Some("2026-11-28T00:00:00Z"), "date")]
    #[case("2026-11-28T09:00:00Z", None, "text")]
    #[case("2026-02-30", None, "text")]
    #[case("9999-99-99", None, "text")]
    #[case("", None, "date")]
    fn a_day_starts_at_midnight_utc(
        #[case] text: &str,
        #[case] start: Option<&str>,
        #[case] kind: &str,
    ) {
        let found = day(text).and_then(start_of).map(|it| it.to_string());
        assert_eq!(found.as_deref(), start);
        assert_eq!(Limit::of(Some(text)).kind, kind);
    }
}
