//! Facts of an attempt that its owner has not recorded yet. A worker keeps them until then, because
//! the bus may lose them.

use std::collections::VecDeque;

use crate::rules::wire::parts::parts;
use crate::rules::wire::{Frame, MAX_BYTES, MAX_FRAMES};

/// Room for the members around the facts of a message.
const ENVELOPE_BYTES: usize = 4 * 1024;
/// Largest fact in bytes.
pub const MAX_FRAME_BYTES: usize = MAX_BYTES - ENVELOPE_BYTES;

/// The fact does not fit into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

#[derive(Debug, Default)]
pub struct Outbox {
    /// Largest fact in bytes that is sent in parts.
    largest: usize,
    /// Number of the first fact that is kept.
    first: u64,
    /// The facts and their sizes in bytes.
    frames: VecDeque<(Frame, usize)>,
    events: u64,
}

impl Outbox {
    /// An outbox whose owner takes facts of up to `largest` bytes in parts.
    pub fn new(largest: usize) -> Self {
        Self {
            largest,
            ..Self::default()
        }
    }

    /// Adds a fact. An event gets its index among the events of the attempt.
    ///
    /// # Errors
    /// [`TooLarge`]; the fact is not added.
    pub fn push(&mut self, frame: Frame) -> Result<u64, TooLarge> {
        let text = serde_json::to_string(&frame).map_err(|_| TooLarge)?;
        let index = self.events;
        let is_event = matches!(frame, Frame::Event { .. });
        if text.len() <= MAX_FRAME_BYTES {
            self.frames.push_back((frame, text.len()));
        } else if text.len() <= self.largest {
            self.push_parts(&text);
        } else {
            return Err(TooLarge);
        }
        self.events += u64::from(is_event);
        Ok(index)
    }

    fn push_parts(&mut self, text: &str) {
        let mut of = Some(text.len());
        for part in parts(text) {
            let frame = Frame::Part {
                text: part.to_owned(),
                of: of.take(),
            };
            let size = serde_json::to_vec(&frame).map_or(MAX_FRAME_BYTES, |bytes| bytes.len());
            self.frames.push_back((frame, size));
        }
    }

    /// The number after the last fact.
    pub fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// Number of the first fact that is not recorded.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The next facts that fit into one message.
    pub fn next(&self) -> Vec<Frame> {
        let mut room = MAX_FRAME_BYTES;
        let mut fits = |size: usize| {
            // A comma follows each fact.
            let left = room.checked_sub(size.saturating_add(1));
            room = left.unwrap_or(0);
            left.is_some()
        };
        let mut next = Vec::new();
        for (frame, size) in self.frames.iter().take(MAX_FRAMES) {
            // The owner takes a new large fact only when it has the one before.
            let begins = matches!(frame, Frame::Part { of: Some(_), .. });
            let has_room = fits(*size);
            if (begins || !has_room) && !next.is_empty() {
                break;
            }
            next.push(frame.clone());
        }
        next
    }

    /// Forgets the facts before `next`, which the owner has recorded.
    pub fn recorded(&mut self, next: u64) {
        while self.first < next && self.frames.pop_front().is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::wire::Amount;
    use crate::rules::wire::parts::Assembly;

    fn event(bytes: usize) -> Frame {
        Frame::Event {
            kind: "agent.reasoned".to_owned(),
            payload: json!("x".repeat(bytes)).to_string(),
            cause: None,
        }
    }

    fn settled(call: u64) -> Frame {
        Frame::Settled {
            call,
            used: Amount::default(),
        }
    }

    #[test]
    fn facts_are_kept_until_they_are_recorded() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(event(1)), Ok(0));
        assert_eq!(outbox.push(settled(0)), Ok(1));
        assert_eq!(outbox.push(event(2)), Ok(1), "only events are counted");
        assert_eq!(outbox.next(), [event(1), settled(0), event(2)]);
        outbox.recorded(2);
        assert_eq!((outbox.first(), outbox.end()), (2, 3));
        assert_eq!(outbox.next(), [event(2)]);
        outbox.recorded(1);
        assert_eq!(outbox.first(), 2, "an old answer changes nothing");
        outbox.recorded(100);
        assert_eq!((outbox.first(), outbox.end()), (3, 3));
        assert!(outbox.next().is_empty());
    }

    #[test]
    fn facts_are_split_so_that_each_message_fits() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.push(event(MAX_FRAME_BYTES / 2)).unwrap();
        }
        assert_eq!(outbox.next().len(), 1);
        outbox.recorded(1);
        assert_eq!(outbox.next().len(), 1);
        assert_eq!(outbox.push(event(MAX_FRAME_BYTES)), Err(TooLarge));
        assert_eq!(outbox.end(), 3);
    }

    #[test]
    fn a_large_fact_is_sent_in_parts_and_counts_as_one_event() {
        let mut outbox = Outbox::new(4 * MAX_BYTES);
        assert_eq!(outbox.push(settled(0)), Ok(0));
        let large = event(2 * MAX_BYTES);
        for index in 0..2 {
            assert_eq!(outbox.push(large.clone()), Ok(index));
        }
        assert_eq!(outbox.push(event(1)), Ok(2));
        assert_eq!(outbox.push(event(4 * MAX_BYTES)), Err(TooLarge));
        let mut texts: Vec<Assembly> = Vec::new();
        let mut others = 0;
        while outbox.first() < outbox.end() {
            let message = outbox.next();
            assert!(serde_json::to_vec(&message).unwrap().len() < MAX_BYTES);
            for (place, frame) in message.iter().enumerate() {
                let Frame::Part { text, of } = frame else {
                    others += 1;
                    continue;
                };
                if let Some(bytes) = of {
                    assert_eq!(place, 0, "a large fact begins a message");
                    texts.push(Assembly::new(*bytes));
                }
                texts.last_mut().unwrap().add(text).unwrap();
            }
            outbox.recorded(outbox.first() + message.len() as u64);
        }
        assert_eq!((texts.len(), others), (2, 2));
        for text in texts {
            assert!(text.is_complete());
            assert_eq!(
                serde_json::from_str::<Frame>(&text.into_text()).unwrap(),
                large
            );
        }
    }
}
