//! `bufferMs`: several events in one frame.

use bytes::Bytes;

use crate::service::log_reader::{Filter, PagedEvent};

/// One `batch` frame with the events that pass; its id is the highest sequence in it. `None` if none passes.
pub fn frame(events: &[PagedEvent], filter: Filter) -> Option<Bytes> {
    let mut documents = Vec::new();
    let mut highest = None;
    for event in events.iter().filter(|event| filter.passes(&event.kind)) {
        if highest.replace(event.sequence).is_some() {
            documents.push(b',');
        }
        documents.extend_from_slice(&event.body);
    }
    let head = format!("id: {}\nevent: batch\ndata: [", highest?);
    let mut frame = head.into_bytes();
    frame.append(&mut documents);
    frame.extend_from_slice(b"]\n\n");
    Some(frame.into())
}
