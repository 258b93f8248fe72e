//! A page: a section of a run's log, laid out once as the bytes that every consumer receives.
//!
//! The SSE frames of all events are in one buffer, and the event documents are slices of it; a
//! consumer receives slices too. So a thousand consumers of one run share one copy.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::rules::run::bundle::without_task_content;
use crate::service::log_reader::filter::Filter;
use crate::service::log_reader::memory::MemoryPermit;
use touchstone_host::ports::run_log::{READ_BYTES, StoredEvent};

/// Events in a page. Page `n` holds the sequences `n * PAGE_EVENTS + 1 ..= (n + 1) * PAGE_EVENTS`.
pub const PAGE_EVENTS: u64 = 256;

/// Size in bytes at which a page is full, however few events it has.
pub const PAGE_BYTES: usize = READ_BYTES;

/// Consecutive events of one page.
#[derive(Debug)]
pub struct Page {
    /// Sequence of the first event.
    first: u64,
    events: Vec<PagedEvent>,
    all: Frames,
    updates: OnceLock<Frames>,
    messages: OnceLock<Frames>,
    updates_and_messages: OnceLock<Frames>,
    without_content: OnceLock<Arc<Self>>,
}

#[derive(Clone, Debug)]
pub struct PagedEvent {
    /// Position in the log.
    pub sequence: u64,
    /// The event type.
    pub kind: Arc<str>,
    /// The document, on one line.
    pub body: Bytes,
}

/// SSE frames in one buffer, with the sequence and the end of each.
#[derive(Debug, Default)]
struct Frames {
    text: Bytes,
    ends: Vec<(u64, usize)>,
}

impl Frames {
    /// The frames after a sequence; `None` if the page ends before.
    fn after(&self, sequence: u64) -> Option<Bytes> {
        let next = self.ends.partition_point(|(s, _)| *s <= sequence);
        let from = match next.checked_sub(1) {
            Some(before) => self.ends.get(before)?.1,
            None => 0,
        };
        (from < self.text.len()).then(|| self.text.slice(from..))
    }
}

impl Page {
    /// Lays out `events`, which must be consecutive from `first`. The `permit` is returned with the
    /// last slice of the page.
    pub(super) fn new(first: u64, events: Vec<PagedEvent>, permit: Option<MemoryPermit>) -> Self {
        let mut text = Vec::with_capacity(
            events
                .iter()
                .map(|event| event.body.len() + event.kind.len() + 48)
                .sum(),
        );
        let mut ends = Vec::with_capacity(events.len());
        let mut spans = Vec::with_capacity(events.len());
        for event in &events {
            let body = write_frame(&mut text, event.sequence, &event.kind, &event.body);
            spans.push(body);
            ends.push((event.sequence, text.len()));
        }
        let text = match permit {
            Some(permit) => permit.hold(text),
            None => Bytes::from(text),
        };
        let events = events
            .into_iter()
            .zip(spans)
            .map(|(event, span)| PagedEvent {
                body: text.slice(span),
                ..event
            })
            .collect();
        Self {
            first,
            events,
            all: Frames { text, ends },
            updates: OnceLock::new(),
            messages: OnceLock::new(),
            updates_and_messages: OnceLock::new(),
            without_content: OnceLock::new(),
        }
    }

    /// The same page with more events at its end.
    pub(super) fn extended(&self, more: Vec<PagedEvent>, permit: Option<MemoryPermit>) -> Self {
        Self::new(
            self.first,
            self.events.iter().cloned().chain(more).collect(),
            permit,
        )
    }

    /// Bytes of its frames.
    pub(super) fn bytes(&self) -> usize {
        self.all.text.len()
    }

    /// Whether it is full because of its size.
    pub(super) fn is_cut(&self) -> bool {
        self.bytes() >= PAGE_BYTES
    }

    /// Sequence of the first event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Sequence of the last event; one less than the first for an empty page.
    pub fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// The events after a sequence.
    pub fn events_after(&self, sequence: u64) -> &[PagedEvent] {
        let next = self
            .events
            .partition_point(|event| event.sequence <= sequence);
        self.events.get(next..).unwrap_or_default()
    }

    /// The SSE frames after a sequence that pass the filter; `None` if there are none.
    pub fn frames_after(&self, sequence: u64, filter: Filter) -> Option<Bytes> {
        let selection = match filter {
            Filter::Everything => return self.all.after(sequence),
            Filter::Updates => &self.updates,
            Filter::Messages => &self.messages,
            Filter::UpdatesAndMessages => &self.updates_and_messages,
        };
        selection
            .get_or_init(|| self.select(filter))
            .after(sequence)
    }

    /// The same page of an eval run without task content, for readers who may not see it.
    pub fn without_content(&self) -> Arc<Self> {
        let masked = |event: &PagedEvent| PagedEvent {
            body: without_task_content(&event.kind, &event.body),
            ..event.clone()
        };
        let page = self.without_content.get_or_init(|| {
            let events = self.events.iter().map(masked).collect();
            Arc::new(Self::new(self.first, events, None))
        });
        page.clone()
    }

    /// Maximum memory of the page in bytes, including a filtered copy of the frames. A page without
    /// content is much smaller.
    pub(super) fn weight(&self) -> u32 {
        const EVENT: usize = 128;
        u32::try_from(self.all.text.len() * 2 + self.events.len() * EVENT).unwrap_or(u32::MAX)
    }

    fn select(&self, filter: Filter) -> Frames {
        let mut text = Vec::new();
        let mut ends = Vec::new();
        for event in self
            .events
            .iter()
            .filter(|event| filter.passes(&event.kind))
        {
            write_frame(&mut text, event.sequence, &event.kind, &event.body);
            ends.push((event.sequence, text.len()));
        }
        Frames {
            text: text.into(),
            ends,
        }
    }
}

impl From<StoredEvent> for PagedEvent {
    fn from(event: StoredEvent) -> Self {
        Self {
            sequence: event.sequence,
            kind: event.kind,
            body: event.body,
        }
    }
}

/// Appends one SSE frame and returns the range of its document. The document is one line, so one
/// `data:` field holds it.
fn write_frame(
    text: &mut Vec<u8>,
    sequence: u64,
    kind: &str,
    body: &[u8],
) -> std::ops::Range<usize> {
    let mut head = String::with_capacity(kind.len() + 40);
    let _ = write!(head, "id: {sequence}\nevent: {kind}\ndata: ");
    text.extend_from_slice(head.as_bytes());
    let from = text.len();
    text.extend_from_slice(body);
    let span = from..text.len();
    text.extend_from_slice(b"\n\n");
    span
}
