//! A page: a section of a run's log, laid out once as the bytes that every consumer receives.
//!
//! The SSE frames of all events are in one buffer, and the event documents are slices of it; a
//! consumer receives slices too. So a thousand consumers of one run share one copy.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::rules::run::bundle::without_task_content;
use crate::service::log_reader::filter::{Filter, chunk};
use crate::service::log_reader::form::payload_of;
use crate::service::log_reader::memory::MemoryPermit;
use touchstone_host::ports::run_log::{READ_BYTES, StoredEvent};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::Numbering;

/// Events in a page. Page `n` holds the sequences `n * PAGE_EVENTS + 1 ..= (n + 1) * PAGE_EVENTS`.
pub const PAGE_EVENTS: u64 = 256;

/// Size in bytes at which a page is full, however few events it has.
pub const PAGE_BYTES: usize = READ_BYTES;

/// The event of the SSE frames of mode `messages` under major 2.
const CHUNK_FRAME: &str = "ai.message.chunk";

/// Consecutive events of one page.
#[derive(Debug)]
pub struct Page {
    /// Place of the first event.
    first: u64,
    layout: Layout,
    events: Vec<PagedEvent>,
    all: Frames,
    selections: [OnceLock<Frames>; Filter::COUNT],
    without_content: OnceLock<Arc<Self>>,
}

/// Whose form the events of a page have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub major: Major,
    /// The ids of the frames.
    pub numbers: Numbering,
}

impl Layout {
    /// That of stored events.
    pub const STORED: Self = Self {
        major: Major::V1,
        numbers: Numbering::STORED,
    };
}

#[derive(Clone, Debug)]
pub struct PagedEvent {
    /// Its place in the log, from 1.
    pub sequence: u64,
    /// The event type.
    pub kind: Arc<str>,
    /// The document, on one line.
    pub body: Bytes,
}

/// SSE frames in one buffer, with the place and the end of each.
#[derive(Debug, Default)]
struct Frames {
    text: Bytes,
    ends: Vec<(u64, usize)>,
}

impl Frames {
    /// The frames after a place; `None` if the page ends before.
    fn after(&self, place: u64) -> Option<Bytes> {
        let next = self.ends.partition_point(|(at, _)| *at <= place);
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
    pub(super) fn new(
        first: u64,
        layout: Layout,
        events: Vec<PagedEvent>,
        permit: Option<MemoryPermit>,
    ) -> Self {
        let mut text = Vec::with_capacity(
            events
                .iter()
                .map(|event| event.body.len() + event.kind.len() + 48)
                .sum(),
        );
        let mut ends = Vec::with_capacity(events.len());
        let mut spans = Vec::with_capacity(events.len());
        for event in &events {
            let id = layout.numbers.sequence(event.sequence);
            let body = write_frame(&mut text, id, &event.kind, &event.body);
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
            layout,
            events,
            all: Frames { text, ends },
            selections: Default::default(),
            without_content: OnceLock::new(),
        }
    }

    /// The same page with more events at its end.
    pub(super) fn extended(&self, more: Vec<PagedEvent>, permit: Option<MemoryPermit>) -> Self {
        Self::new(
            self.first,
            self.layout,
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

    /// Place of the first event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Place of the last event; one less than the first for an empty page.
    pub fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// The events after a place.
    pub fn events_after(&self, place: u64) -> &[PagedEvent] {
        let next = self.events.partition_point(|event| event.sequence <= place);
        self.events.get(next..).unwrap_or_default()
    }

    /// The SSE frames after a place that pass the filter; `None` if there are none.
    pub fn frames_after(&self, place: u64, filter: Filter) -> Option<Bytes> {
        // Under major 1, frames of a mixed mode are those of its modes.
        let is_plain = self.layout.major == Major::V1 || !filter.is_mixed();
        if filter.debug && is_plain {
            return self.all.after(place);
        }
        let selection = self.selections.get(filter.index())?;
        selection.get_or_init(|| self.select(filter)).after(place)
    }

    /// The same page of an eval run without task content, for readers who may not see it.
    pub fn without_content(&self) -> Arc<Self> {
        let masked = |event: &PagedEvent| PagedEvent {
            body: without_task_content(&event.kind, &event.body),
            ..event.clone()
        };
        let page = self.without_content.get_or_init(|| {
            let events = self.events.iter().map(masked).collect();
            Arc::new(Self::new(self.first, self.layout, events, None))
        });
        page.clone()
    }

    /// Maximum memory of the page in bytes, including filtered copies of the frames: one of some events,
    /// and under major 2 one of a mixed mode with all. A page without content is much smaller.
    pub(super) fn weight(&self) -> u32 {
        const EVENT: usize = 128;
        let copies = match self.layout.major {
            Major::V1 => 2,
            Major::V2 => 3,
        };
        let bytes = self.all.text.len() * copies + self.events.len() * EVENT;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    fn select(&self, filter: Filter) -> Frames {
        let mut text = Vec::new();
        let mut ends = Vec::new();
        let Layout { major, numbers } = self.layout;
        for event in &self.events {
            let Some(mode) = filter.admitting(major, &event.kind) else {
                continue;
            };
            let id = numbers.sequence(event.sequence);
            let (name, data) = match major {
                Major::V1 => (&*event.kind, &*event.body),
                Major::V2 if filter.is_mixed() => (mode, &*event.body),
                Major::V2 if *event.kind == *chunk(major) => {
                    // Only the mode `messages` has chunks.
                    let payload = payload_of(&event.body).map(|it| it.get().as_bytes());
                    (CHUNK_FRAME, payload.unwrap_or(&event.body))
                }
                Major::V2 => (&*event.kind, &*event.body),
            };
            write_frame(&mut text, id, name, data);
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use touchstone_openwop::wire::log::LogMark;

    use super::*;

    fn page(major: Major, kinds: &[&str]) -> Page {
        let event = |(place, kind): (u64, &&str)| PagedEvent {
            sequence: place,
            kind: (*kind).into(),
            body: json!({"type": kind, "payload": {"at": place}})
                .to_string()
                .into(),
        };
        let layout = Layout {
            major,
            numbers: LogMark::of_new(Major::V2).under(major),
        };
        let events = (1..).zip(kinds).map(event).collect();
        Page::new(1, layout, events, None)
    }

    /// Id, event and whether the data is a document, of each frame.
    fn frames(page: &Page, place: u64, filter: Filter) -> Vec<(u64, String, bool)> {
        let text = page.frames_after(place, filter).unwrap_or_default();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let read = |block: &str| {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            let data = field("data: ").unwrap();
            let id = field("id: ").unwrap().parse().unwrap();
            (
                id,
                field("event: ").unwrap().to_owned(),
                data.contains("payload"),
            )
        };
        text.split_terminator("\n\n").map(read).collect()
    }

    const KINDS: [&str; 4] = [
        "run.started",
        "output.chunk",
        "touchstone.task.judged",
        "eval.scored",
    ];
    const ALL: Filter = Filter {
        updates: true,
        messages: true,
        debug: true,
    };

    #[rstest]
    #[case::debug(Filter::DEBUG, &[(0, "run.started", true), (1, "output.chunk", true),
        (2, "touchstone.task.judged", true), (3, "eval.scored", true)])]
    #[case::updates(Filter::UPDATES, &[(0, "run.started", true), (3, "eval.scored", true)])]
    #[case::messages(Filter::MESSAGES, &[(1, "ai.message.chunk", false)])]
    #[case::mixed(Filter::UPDATES_AND_MESSAGES, &[(0, "updates", true), (1, "messages", true),
        (3, "updates", true)])]
    #[case::all(ALL, &[(0, "updates", true), (1, "messages", true), (2, "debug", true),
        (3, "updates", true)])]
    fn frames_of_major_2_depend_on_the_mode(
        #[case] filter: Filter,
        #[case] expected: &[(u64, &str, bool)],
    ) {
        let page = page(Major::V2, &KINDS);
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, event, is_document)| (*id, (*event).to_owned(), *is_document))
            .collect();
        for place in 0..=4 {
            let rest: Vec<_> = expected
                .iter()
                .filter(|it| it.0 >= place)
                .cloned()
                .collect();
            assert_eq!(frames(&page, place, filter), rest, "{place}");
        }
    }

    #[test]
    fn a_mixed_mode_of_major_1_has_the_frames_of_its_modes() {
        let page = page(
            Major::V1,
            &["run.started", "ai.message.chunk", "node.started"],
        );
        let names = |filter| -> Vec<String> {
            let frames = frames(&page, 0, filter).into_iter();
            frames.map(|(_, event, _)| event).collect()
        };
        assert_eq!(
            names(ALL),
            ["run.started", "ai.message.chunk", "node.started"]
        );
        let mixed = names(Filter::UPDATES_AND_MESSAGES);
        assert_eq!(mixed, ["run.started", "ai.message.chunk"]);
    }

    #[test]
    fn a_page_that_grows_keeps_its_form() {
        let begun = page(Major::V2, &KINDS[..2]);
        let whole = page(Major::V2, &KINDS);
        let grown = begun.extended(whole.events_after(2).to_vec(), None);
        assert_eq!(frames(&grown, 0, ALL), frames(&whole, 0, ALL));
        assert!(grown.weight() > begun.weight());
    }
}
