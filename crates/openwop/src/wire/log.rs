//! How the events of a log are numbered on the wire. The store numbers the events of every log from
//! 1: an event's place.

use serde::{Deserialize, Serialize};

/// `eventLogSchemaVersion` of runs from before major 2.
const OLD_ERA: u32 = 2;
/// `eventLogSchemaVersion` of runs since then.
const NEW_ERA: u32 = 3;

/// The era of a log, and its numbers on the wire: the member `log` of the record of a run that was
/// created since major 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogMark {
    /// Not stored: only runs of the new era have a mark in their record.
    #[serde(skip, default = "new_era")]
    era: u32,
    /// The sequence of the first event: 0, or 1 in forks of old runs.
    first: u64,
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
        }
    }
}

impl LogMark {
    /// The mark of a run that is created now.
    pub const NEW: Self = Self {
        era: NEW_ERA,
        first: 0,
    };

    /// The mark of a fork of this log. A fork copies events with their sequences.
    #[must_use]
    pub const fn of_fork(self) -> Self {
        Self {
            era: NEW_ERA,
            first: self.first,
        }
    }

    /// `eventLogSchemaVersion`.
    pub const fn era(self) -> u32 {
        self.era
    }

    /// Whether the run is from before major 2.
    pub const fn is_old(self) -> bool {
        self.era < NEW_ERA
    }

    /// The sequence of the event at a place.
    pub const fn sequence(self, place: u64) -> u64 {
        place.saturating_add(self.first).saturating_sub(1)
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_the_first_number_is_stored() {
        assert_eq!(
            serde_json::to_value(LogMark::NEW).unwrap(),
            json!({"first": 0})
        );
        let read: LogMark = serde_json::from_value(json!({"first": 1})).unwrap();
        assert_eq!(read, LogMark::default().of_fork());
        assert_eq!((read.era(), read.is_old()), (3, false));
        assert_eq!(
            (LogMark::default().era(), LogMark::default().is_old()),
            (2, true)
        );
    }

    #[test]
    fn new_logs_begin_at_0_and_old_ones_at_1() {
        assert_eq!(LogMark::NEW.sequence(1), 0);
        assert_eq!(LogMark::NEW.place(0), Some(1));
        assert_eq!(LogMark::NEW.read_up_to(0), 1);
        assert_eq!(LogMark::default().sequence(1), 1);
        assert_eq!(LogMark::default().place(0), None);
        assert_eq!(LogMark::default().place(1), Some(1));
        assert_eq!(LogMark::default().read_up_to(0), 0);
        assert_eq!(LogMark::NEW.of_fork(), LogMark::NEW);
    }

    proptest! {
        #[test]
        fn a_sequence_leads_back_to_its_place(place in 1..u64::MAX / 2) {
            for mark in [LogMark::NEW, LogMark::default(), LogMark::default().of_fork()] {
                prop_assert_eq!(mark.place(mark.sequence(place)), Some(place));
                prop_assert_eq!(mark.read_up_to(mark.sequence(place)), place);
            }
        }
    }
}
