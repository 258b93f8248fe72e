//! Events under major 1: the stored document with the sequence that its log has on the wire.

use std::borrow::Cow;
use std::io::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::log::Numbering;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    sequence: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The only payload that contains a sequence: that of an event in the replayed log.
const DIVERGED: &str = "replay.diverged";

#[derive(Deserialize)]
struct Diverged<'a> {
    #[serde(rename = "atSequence", borrow)]
    at_sequence: &'a RawValue,
}

/// A stored document as major 1 shows it. Only the sequence changes, byte for byte, and in
/// `replay.diverged` that of the replayed log, which has the mark of its fork. Stored sequences begin
/// at 1, so the document of a log that begins at 1 is not copied.
///
/// # Errors
/// The text is not an event document.
pub fn project(numbers: Numbering, document: &[u8]) -> serde_json::Result<Cow<'_, [u8]>> {
    if numbers == Numbering::STORED {
        return Ok(Cow::Borrowed(document));
    }
    let read: Document<'_> = serde_json::from_slice(document)?;
    let mut written = vec![read.sequence];
    if read.kind == DIVERGED
        && let Ok(diverged) = serde_json::from_str::<Diverged<'_>>(read.payload.get())
        && diverged.at_sequence.get().parse::<u64>().is_ok()
    {
        written.push(diverged.at_sequence);
    }
    written.sort_by_key(|number| number.get().as_ptr());
    let mut shown = Vec::with_capacity(document.len());
    let mut rest = document;
    for number in written {
        let place: u64 = serde_json::from_str(number.get())?;
        // Both are parts of the document.
        let at = number.get().as_ptr().addr() - rest.as_ptr().addr();
        let (before, after) = rest.split_at(at);
        shown.extend_from_slice(before);
        // Writing to memory does not fail.
        let _ = write!(shown, "{}", numbers.sequence(place));
        rest = after.get(number.get().len()..).unwrap_or_default();
    }
    shown.extend_from_slice(rest);
    Ok(Cow::Owned(shown))
}

/// The place up to which a client that sends `lastSequence` has read a log. 0 is the same as no
/// number, because clients of major 1 start with it.
pub fn read_up_to(numbers: Numbering, last_sequence: Option<u64>) -> u64 {
    match last_sequence {
        None | Some(0) => 0,
        Some(sequence) => numbers.read_up_to(sequence),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    use crate::wire::Major;
    use crate::wire::log::LogMark;

    /// The numbers of a run that was created under major 2.
    const FROM_0: Numbering = LogMark::of_new(Major::V2).under(Major::V1);
    const FROM_1: Numbering = LogMark::of_new(Major::V1).under(Major::V1);

    fn shown(document: &str) -> String {
        let shown = project(FROM_0, document.as_bytes()).unwrap();
        String::from_utf8(shown.into_owned()).unwrap()
    }

    #[test]
    fn a_log_that_begins_at_1_is_not_copied() {
        // Not even read.
        let shown = project(FROM_1, b"{\"sequence\":1").unwrap();
        assert!(matches!(shown, Cow::Borrowed(b"{\"sequence\":1")));
    }

    #[test]
    fn a_log_that_begins_at_0_has_other_numbers_and_no_other_byte() {
        let stored = r#"{"eventId":"evt_1_10", "sequence" : 10,"type":"eval.scored","payload":{"sequence":10, "score":1.0}}"#;
        let expected = stored.replacen("10,", "9,", 1);
        assert_eq!(shown(stored), expected);
        let stored = r#"{"payload":{"atSequence":1,"sourceRunId":"run_1"},"type":"replay.diverged","sequence":1}"#;
        let expected = r#"{"payload":{"atSequence":0,"sourceRunId":"run_1"},"type":"replay.diverged","sequence":0}"#;
        assert_eq!(shown(stored), expected);
    }

    #[rstest]
    #[case("[]")]
    #[case(r#"{"type":"x","payload":{}}"#)]
    #[case(r#"{"type":"x","payload":{},"sequence":"1"}"#)]
    #[case(r#"{"type":"x","payload":{},"sequence":1,"sequence":2}"#)]
    fn other_texts_are_refused(#[case] document: &str) {
        assert!(project(FROM_0, document.as_bytes()).is_err());
    }

    #[rstest]
    #[case(FROM_0, None, 0)]
    #[case(FROM_0, Some(0), 0)]
    #[case(FROM_0, Some(1), 2)]
    #[case(FROM_1, None, 0)]
    #[case(FROM_1, Some(0), 0)]
    #[case(FROM_1, Some(1), 1)]
    fn last_sequence_is_a_place(
        #[case] numbers: Numbering,
        #[case] last_sequence: Option<u64>,
        #[case] expected: u64,
    ) {
        assert_eq!(read_up_to(numbers, last_sequence), expected);
    }

    proptest! {
        #[test]
        fn everything_but_the_sequence_stays(
            place in 1..u64::MAX,
            payload in crate::wire::sample::json(),
            kind in "[a-z]{1,8}\\.[a-z]{1,8}",
        ) {
            let stored = json!({"eventId": "evt_1", "type": kind, "sequence": place, "payload": payload});
            let shown: Value = serde_json::from_str(&shown(&stored.to_string())).unwrap();
            let mut expected = stored;
            expected["sequence"] = json!(place - 1);
            prop_assert_eq!(shown, expected);
        }

        #[test]
        fn any_bytes_are_shown_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = project(FROM_0, &bytes);
        }
    }
}
