//! Consecutive events of a log as one compressed value: a zlib stream and its SHA-256.
//!
//! The checksum of zlib misses some changes of a few bits. Segments that were written without the
//! digest are read too.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use touchstone_host::ports::run_log::StoredEvent;

/// Most events in a segment.
pub const MAX_EVENTS: u32 = 256;
/// Bytes of event documents after which a segment ends. The last document may exceed it.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Most bytes of an uncompressed segment. Documents in it are strings with escapes.
const MAX_UNCOMPRESSED: u64 = 128 * 1024 * 1024;

/// A segment cannot be read, or events cannot be written as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a segment of a log is damaged")]
pub struct Damaged;

/// The type and the document of an event.
#[derive(Serialize, Deserialize)]
struct Entry<'a>(#[serde(borrow)] Cow<'a, str>, #[serde(borrow)] Cow<'a, str>);

/// Compresses events.
///
/// # Errors
/// A document is not text, or the events are too large.
pub fn encode(events: &[StoredEvent]) -> Result<Vec<u8>, Damaged> {
    let entries: Result<Vec<Entry<'_>>, Damaged> = events
        .iter()
        .map(|event| {
            let body = std::str::from_utf8(&event.body).map_err(|_| Damaged)?;
            Ok(Entry(Cow::from(&*event.kind), Cow::from(body)))
        })
        .collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, &entries?).map_err(|_| Damaged)?;
    if encoder.total_in() > MAX_UNCOMPRESSED {
        return Err(Damaged);
    }
    let mut octets = encoder.finish().map_err(|_| Damaged)?;
    let digest = Sha256::digest(&octets);
    octets.extend_from_slice(&digest);
    Ok(octets)
}

/// The events of the segment from `first` to `last`.
///
/// # Errors
/// [`Damaged`].
pub fn decode(compressed: &[u8], first: u64, last: u64) -> Result<Vec<StoredEvent>, Damaged> {
    let mut text = Vec::new();
    let mut limited = ZlibDecoder::new(compressed).take(MAX_UNCOMPRESSED + 1);
    limited.read_to_end(&mut text).map_err(|_| Damaged)?;
    let length = usize::try_from(limited.get_ref().total_in()).map_err(|_| Damaged)?;
    let (stream, digest) = compressed.split_at_checked(length).ok_or(Damaged)?;
    if !digest.is_empty() && digest != &*Sha256::digest(stream) {
        return Err(Damaged);
    }
    let entries: Vec<Entry<'_>> = serde_json::from_slice(&text).map_err(|_| Damaged)?;
    let count = last.checked_sub(first).and_then(|it| it.checked_add(1));
    if count != Some(entries.len() as u64) {
        return Err(Damaged);
    }
    let events = (first..).zip(entries);
    let events = events.map(|(sequence, Entry(kind, body))| StoredEvent {
        sequence,
        kind: kind.into(),
        body: body.into_owned().into(),
    });
    Ok(events.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(bodies: &[String]) -> Vec<StoredEvent> {
        let events = (7..).zip(bodies);
        let events = events.map(|(sequence, body)| StoredEvent {
            sequence,
            kind: format!("kind.{}", sequence % 3).into(),
            body: body.clone().into(),
        });
        events.collect()
    }

    /// The checksum of zlib misses one of about 60,000 changes of one bit.
    #[test]
    fn every_changed_bit_of_a_segment_is_found() {
        let text = |event: u32| -> String {
            let letters = (0..30).map(|n| char::from(b'a' + ((event * 7 + n * n * 11) % 26) as u8));
            letters.collect()
        };
        let events = log(&(0..40).map(text).collect::<Vec<_>>());
        let encoded = encode(&events).unwrap();
        for at in 0..encoded.len() {
            for bit in 0..8 {
                let mut changed = encoded.clone();
                changed[at] ^= 1 << bit;
                let read = decode(&changed, 7, 46);
                assert!(read == Err(Damaged), "byte {at}, bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn events_are_read_as_they_were_written(
            bodies in proptest::collection::vec(any::<String>(), 1..40)
        ) {
            let events = log(&bodies);
            let last = 6 + events.len() as u64;
            let encoded = encode(&events).unwrap();
            prop_assert_eq!(decode(&encoded, 7, last), Ok(events));
            prop_assert_eq!(decode(&encoded, 7, last + 1), Err(Damaged));
            prop_assert_eq!(decode(&encoded, 7, last.saturating_sub(2)), Err(Damaged));
        }

        #[test]
        fn a_changed_or_shortened_segment_is_damaged_or_the_same(
            bodies in proptest::collection::vec("[a-z]{0,40}", 1..40),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
            cut in any::<bool>(),
        ) {
            let events = log(&bodies);
            let last = 6 + events.len() as u64;
            let mut encoded = encode(&events).unwrap();
            let at = at.index(encoded.len());
            if cut {
                encoded.truncate(at);
            } else {
                encoded[at] ^= 1 << bit;
            }
            let read = decode(&encoded, 7, last);
            // Without the whole digest, it is a segment of an earlier version.
            prop_assert!(read == Err(Damaged) || read == Ok(events));
        }

        #[test]
        fn a_segment_without_a_digest_is_read(
            bodies in proptest::collection::vec(any::<String>(), 1..40)
        ) {
            let events = log(&bodies);
            let last = 6 + events.len() as u64;
            let encoded = encode(&events).unwrap();
            let earlier = &encoded[..encoded.len() - 32];
            prop_assert_eq!(decode(earlier, 7, last), Ok(events));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            first in any::<u64>(),
            last in any::<u64>(),
        ) {
            let _ = decode(&bytes, first, last);
        }
    }
}
