//! `bufferMs`: several events in one frame.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::http::RunsApi;
use crate::http::events::stream::{Signals, later};
use crate::service::log_reader::filter::Filter;
use crate::service::log_reader::form::SUSPENDED;
use crate::service::log_reader::memory::{OutOfMemory, ReadMemory};
use crate::service::log_reader::page::PagedEvent;
use crate::service::log_reader::{Error, LogForm};
use touchstone_host::ports::run_log::Head;
use touchstone_kit::ids::RunId;

/// Frames up to this size, in bytes, do not count against the readers' memory.
const SMALL_BYTES: usize = 64 * 1024;

/// Why a window was closed.
pub enum Window {
    /// Its time is over, or it holds an event that must not wait; the log ends here.
    Upto(Head),
    /// The stream has to end.
    Closing,
}

/// Collects the events after `position` for the duration of `buffer`, or until an event must be
/// sent at once. The log reaches `head`.
///
/// # Errors
/// The log cannot be read.
pub async fn gather(
    state: &RunsApi,
    signals: &mut Signals,
    position: u64,
    mut head: Head,
    buffer: Duration,
) -> Result<Window, Error> {
    let flush_at = Instant::now() + buffer;
    let mut searched_to = position;
    while !head.ended && !suspends(state, &signals.run, searched_to, head.sequence).await? {
        searched_to = head.sequence;
        tokio::select! {
            () = state.host.shutdown.cancelled() => return Ok(Window::Closing),
            () = tokio::time::sleep_until(flush_at) => break,
            () = signals.follow.changed() => head = later(head, signals.follow.head()),
        }
    }
    Ok(Window::Upto(head))
}

/// Whether a node was suspended, so that the run waits for a person: after the first place, up to
/// and including the second.
async fn suspends(state: &RunsApi, run: &RunId, mut after: u64, upto: u64) -> Result<bool, Error> {
    while after < upto {
        let page = state.log.page_after(run, after, upto).await?;
        let mut events = page.events_after(after).iter();
        if events.any(|event| event.kind.as_ref() == SUSPENDED) {
            return Ok(true);
        }
        after = page.last();
    }
    Ok(false)
}

/// One `batch` frame with the events that pass the filter; its id is the highest sequence in it.
/// `None` if no event passes.
///
/// # Errors
/// There is not enough memory for it.
pub async fn frame(
    memory: &ReadMemory,
    form: &LogForm,
    events: &[PagedEvent],
    filter: Filter,
) -> Result<Option<Bytes>, OutOfMemory> {
    let passes = |event: &&PagedEvent| filter.passes(form.major, &event.kind);
    let passing = || events.iter().filter(passes);
    let Some(highest) = passing().map(|event| event.sequence).max() else {
        return Ok(None);
    };
    let highest = form.numbers().sequence(highest);
    let bytes = passing().map(|event| event.body.len() + 1).sum::<usize>() + 64;
    let permit = match bytes > SMALL_BYTES {
        true => Some(memory.reserve(bytes).await?),
        false => None,
    };
    let mut frame = Vec::with_capacity(bytes);
    frame.extend_from_slice(format!("id: {highest}\nevent: batch\ndata: [").as_bytes());
    for (n, event) in passing().enumerate() {
        if n > 0 {
            frame.push(b',');
        }
        frame.extend_from_slice(&event.body);
    }
    frame.extend_from_slice(b"]\n\n");
    Ok(Some(match permit {
        Some(permit) => permit.hold(frame),
        None => frame.into(),
    }))
}
