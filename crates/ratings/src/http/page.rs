//! Pagination (AAAF S14): `limit`, an opaque `cursor`, and `{data, next_cursor}`.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::events::EventPosition;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_kit::error::Problem;

const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 200;

/// The requested part of a list.
pub struct Page<P> {
    limit: usize,
    /// The position to continue after.
    pub after: Option<P>,
}

/// A list position that a cursor can encode.
pub trait Cursor: Sized {
    /// Encodes the position as opaque text.
    fn encode(&self) -> String;
    /// Decodes the text; `None` if it is not a cursor.
    fn decode(text: &str) -> Option<Self>;
}

impl<P: Cursor> Page<P> {
    /// Reads `limit` and `cursor`.
    ///
    /// # Errors
    /// `validation_error` that names the parameter.
    pub fn of(query: &Query) -> Result<Self, Problem> {
        let limit = query.whole("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
        let after = query.get("cursor").map(|cursor| {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.as_deref().and_then(P::decode).ok_or_else(|| {
                Problem::validation(
                    "cursor",
                    "`cursor` must be the `next_cursor` of the previous page of the same list",
                )
            })
        });
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            after: after.transpose()?,
        })
    }

    /// Number of records to load: one more than shown, to find out whether there are more.
    pub fn fetch_limit(&self) -> u32 {
        u32::try_from(self.limit)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }

    /// The records to show, and the cursor of the next page.
    pub fn split<T>(
        &self,
        mut records: Vec<T>,
        position: impl Fn(&T) -> P,
    ) -> (Vec<T>, Option<String>) {
        let more = records.len() > self.limit;
        records.truncate(self.limit);
        let next = records.last().filter(|_| more);
        let next = next.map(|last| URL_SAFE_NO_PAD.encode(position(last).encode()));
        (records, next)
    }

    pub fn answer<T>(
        &self,
        records: Vec<T>,
        position: impl Fn(&T) -> P,
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        let (records, next) = self.split(records, position);
        let data: Vec<Value> = records.iter().map(to_json).collect();
        json(StatusCode::OK, &json!({"data": data, "next_cursor": next}))
    }
}

impl Cursor for Position {
    fn encode(&self) -> String {
        format!("{}.{}", self.created_at.as_microsecond(), self.id)
    }

    fn decode(text: &str) -> Option<Self> {
        let (micros, id) = text.split_once('.')?;
        Some(Self {
            created_at: time(micros)?,
            // No id contains a null character, and some stores reject queries with one.
            id: (!id.contains('\0')).then(|| id.to_owned())?,
        })
    }
}

impl Cursor for EventPosition {
    fn encode(&self) -> String {
        let micros = self.occurred_at.as_microsecond();
        format!("{}-{micros}-{}", self.agent.0, self.number)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(2, '-');
        let agent = parts.next()?.parse().ok()?;
        let (micros, number) = parts.next()?.rsplit_once('-')?;
        Some(Self {
            agent: AgentNumber(agent),
            occurred_at: time(micros)?,
            number: number.parse().ok()?,
        })
    }
}

fn time(micros: &str) -> Option<Timestamp> {
    Timestamp::from_microsecond(micros.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_positions_round_trip_and_other_text_is_rejected() {
        let position = Position {
            created_at: Timestamp::from_microsecond(-5).unwrap(),
            id: "a.b".to_owned(),
        };
        assert_eq!(Position::decode(&position.encode()), Some(position));
        let position = EventPosition {
            agent: AgentNumber(7),
            occurred_at: Timestamp::from_microsecond(-5).unwrap(),
            number: 9,
        };
        assert_eq!(EventPosition::decode(&position.encode()), Some(position));
        for nothing in ["", ".", "x.y", "1", "1.a\0", "99999999999999999999.a"] {
            assert_eq!(Position::decode(nothing), None, "{nothing:?}");
        }
        for nothing in ["", "-", "1-2", "1.2", "a-b-c", "1-2-"] {
            assert_eq!(EventPosition::decode(nothing), None, "{nothing:?}");
        }
    }
}
