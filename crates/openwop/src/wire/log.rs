//! How the events of a log are numbered on the wire. The store numbers the events of every log from
//! 1: an event's place.
//!
//! Major 2 numbers from 0, and the cursor of major 1 cannot name an event with the number 0:
//! `lastSequence=0` reads from the beginning. So a run that was created under major 1 is numbered
//! from 1 there, and from 0 under major 2. A run that was created under major 2 is numbered from 0
//! under both, so that its events have the same numbers wherever they are read.

use serde::{Deserialize, Serialize};

use super::Major;

/// `eventLogSchemaVersion` of runs from before major 2.
const OLD_ERA: u32 = 2;
/// `eventLogSchemaVersion` of runs since then.
const NEW_ERA: u32 = 3;

/// The era of a log, and its numbers on the wire: the member `log` of the record of a run that was
/// created since major 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogMark {
    /// Not stored: only runs of the new era have a mark in their record.
    #[serde(skip, default = "new_era")]
    era: u32,
    /// The sequence of the first event: 0, or 1 in forks of old runs.
    first: u64,
    /// The same under major 1, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_under_v1: Option<u64>,
}

const fn new_era() -> u32 {
    NEW_ERA
}

impl Default for LogMark {
    /// The mark of a record that has none.
    fn default() -> Self {
        Self {
            era: OLD_ERA,
            first: 1,
            first_under_v1: None,
        }
    }
}

impl LogMark {
    /// The mark of a run that is created now, by a request of a major. What the host creates by
    /// itself is created under major 1.
    pub const fn of_new(major: Major) -> Self {
        Self {
            era: NEW_ERA,
            first: 0,
            first_under_v1: match major {
                Major::V1 => Some(1),
                Major::V2 => None,
            },
        }
    }

    /// The mark of a fork of this log. A fork copies events with their sequences.
    #[must_use]
    pub const fn of_fork(self) -> Self {
        Self {
            era: NEW_ERA,
            ..self
        }
    }

    /// `eventLogSchemaVersion`.
    pub const fn era(&self) -> u32 {
        self.era
    }

    /// Whether the run is from before major 2.
    pub const fn is_old(&self) -> bool {
        self.era < NEW_ERA
    }

    /// The numbers of its events under a major.
    pub const fn under(&self, major: Major) -> Numbering {
        let first = match (major, self.first_under_v1) {
            (Major::V1, Some(first)) => first,
            _ => self.first,
        };
        Numbering { first }
    }
}

/// The numbers of the events of a log on one wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbering {
    first: u64,
}

impl Numbering {
    /// The numbers in the store.
    pub const STORED: Self = Self { first: 1 };

    /// The sequence of the event at a place.
    pub const fn sequence(self, place: u64) -> u64 {
        place.saturating_add(self.first).saturating_sub(1)
    }

    /// The sequence that a reader of the first `events` events has reached; `None` if no number
    /// says that it has read nothing.
    pub const fn reached(self, events: u64) -> Option<u64> {
        events.saturating_add(self.first).checked_sub(1)
    }

    /// The place of the event with a sequence; `None` before the first event.
    pub const fn place(self, sequence: u64) -> Option<u64> {
        match sequence.saturating_add(1).checked_sub(self.first) {
            None | Some(0) => None,
            place => place,
        }
    }

    /// The place up to which a reader has read the log if the last event had this sequence; 0 for
    /// nothing.
    pub const fn read_up_to(self, sequence: u64) -> u64 {
        match self.place(sequence) {
            Some(place) => place,
            None => 0,
        }
    }

    /// Number of events with smaller sequences, in a log that reaches that far.
    pub const fn events_before(self, sequence: u64) -> u64 {
        sequence.saturating_sub(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(LogMark::of_new(Major::V1), json!({"first": 0, "firstUnderV1": 1}))]
    #[case(LogMark::of_new(Major::V2), json!({"first": 0}))]
    #[case(LogMark::default().of_fork(), json!({"first": 1}))]
    fn only_the_first_numbers_are_stored(#[case] mark: LogMark, #[case] stored: Value) {
        assert_eq!(serde_json::to_value(mark).unwrap(), stored);
        let read: LogMark = serde_json::from_value(stored).unwrap();
        assert_eq!(read, mark);
        assert_eq!((read.era(), read.is_old()), (3, false));
        assert_eq!(read.of_fork(), read);
    }

    #[test]
    fn a_record_without_a_mark_is_old() {
        let old = LogMark::default();
        assert_eq!((old.era(), old.is_old()), (2, true));
        assert_eq!(old.under(Major::V1), Numbering::STORED);
        assert_eq!(old.under(Major::V2), Numbering::STORED);
    }

    #[rstest]
    #[case::old(LogMark::default(), 1, 1)]
    #[case::of_old(LogMark::default().of_fork(), 1, 1)]
    #[case::of_v1(LogMark::of_new(Major::V1), 1, 0)]
    #[case::of_v2(LogMark::of_new(Major::V2), 0, 0)]
    fn logs_begin_with_the_number_of_their_major(
        #[case] mark: LogMark,
        #[case] v1: u64,
        #[case] v2: u64,
    ) {
        assert_eq!(mark.under(Major::V1).sequence(1), v1);
        assert_eq!(mark.under(Major::V2).sequence(1), v2);
    }

    #[test]
    fn a_cursor_names_the_event_that_was_read_last() {
        let from_0 = LogMark::of_new(Major::V2).under(Major::V2);
        assert_eq!((from_0.place(0), from_0.read_up_to(0)), (Some(1), 1));
        assert_eq!((from_0.reached(0), from_0.reached(1)), (None, Some(0)));
        assert_eq!((from_0.events_before(0), from_0.events_before(3)), (0, 3));
        let from_1 = Numbering::STORED;
        assert_eq!((from_1.place(0), from_1.read_up_to(0)), (None, 0));
        assert_eq!((from_1.place(1), from_1.read_up_to(1)), (Some(1), 1));
        assert_eq!((from_1.reached(0), from_1.reached(1)), (Some(0), Some(1)));
        assert_eq!((from_1.events_before(0), from_1.events_before(3)), (0, 2));
    }

    proptest! {
        #[test]
        fn a_sequence_leads_back_to_its_place(place in 1..u64::MAX / 2) {
            for first in [0, 1] {
                let numbers = Numbering { first };
                let sequence = numbers.sequence(place);
                prop_assert_eq!(numbers.place(sequence), Some(place));
                prop_assert_eq!(numbers.read_up_to(sequence), place);
                prop_assert_eq!(numbers.reached(place), Some(sequence));
                prop_assert_eq!(numbers.events_before(sequence), place - 1);
            }
        }
    }
}
