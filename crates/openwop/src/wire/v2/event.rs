//! Events under major 2 (OpenWOP v2 events): a stored document in the closed form of that major.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::names;
use super::payload::{self, Interrupts, object};
use crate::events::SCHEMA_VERSION;
use crate::wire::Major;
use crate::wire::log::{LogMark, Numbering};

/// The facts that all events of a log share.
#[derive(Clone, Copy, Debug)]
pub struct LogContext<'a> {
    /// The tenant of the run; ids are bound to it.
    pub tenant: &'a str,
    pub mark: LogMark,
}

impl LogContext<'_> {
    pub(super) const fn numbers(&self) -> Numbering {
        self.mark.under(Major::V2)
    }
}

/// Why an event has no form under major 2. The log must not be shown without the event: readers take
/// a gap in the sequences for a loss.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprojectable {
    /// The text is not a stored event.
    #[error("the stored text is not an event document")]
    Document,
    /// Major 2 has no name for the stored kind (`event_type_unmapped`).
    #[error("OpenWOP 2 has no event type `{0}`")]
    Kind(String),
    /// Members have no seat, or a value of another form than their seat (`payload_unprojectable`). The
    /// kind is the one of major 2.
    #[error("the payload of `{kind}` has no OpenWOP 2 form because of `{}`", keys.join("`, `"))]
    Members { kind: String, keys: Vec<String> },
    /// The event belongs to an interrupt of this node whose `node.suspended` the projector has not
    /// seen.
    #[error("the suspension of node `{node}` is not known")]
    Interrupt { node: String },
}

/// Projects the events of one log, in their order.
///
/// Under major 2, events about approvals and clarifications name their interrupt: that of the last
/// `node.suspended` of their node. The projector remembers these events.
///
/// A page may start in the middle of a log. Its events have the same form as in a page from the
/// beginning, except that an event that needs an earlier `node.suspended` is
/// [`Unprojectable::Interrupt`]. The caller then gives the last `node.suspended` of that node before
/// the page to [`learn`](Self::learn) and projects the event again, or looks for
/// [`needs_interrupt`] first.
#[derive(Clone, Debug)]
pub struct Projector<'a> {
    log: LogContext<'a>,
    interrupts: Interrupts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document<'a> {
    #[serde(borrow)]
    event_id: &'a RawValue,
    #[serde(borrow)]
    run_id: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: &'a RawValue,
    sequence: u64,
    #[serde(default = "schema_version")]
    schema_version: u32,
    #[serde(default, borrow)]
    engine_version: Option<&'a RawValue>,
    #[serde(default, borrow)]
    node_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    causation_id: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

const fn schema_version() -> u32 {
    SCHEMA_VERSION
}

impl<'a> Document<'a> {
    fn read(document: &'a [u8]) -> Result<Self, Unprojectable> {
        let read: Self = serde_json::from_slice(document).map_err(|_| Unprojectable::Document)?;
        let texts = [
            Some(read.event_id),
            Some(read.timestamp),
            read.node_id,
            read.causation_id,
        ];
        let is_text = |value: &RawValue| value.get().starts_with('"');
        if texts.into_iter().flatten().all(is_text) {
            Ok(read)
        } else {
            Err(Unprojectable::Document)
        }
    }
}

impl<'a> Projector<'a> {
    /// A projector that has seen nothing of the log.
    pub fn new(log: LogContext<'a>) -> Self {
        Self {
            log,
            interrupts: Interrupts::default(),
        }
    }

    /// Remembers what later events need from this one.
    ///
    /// # Errors
    /// [`Unprojectable::Document`].
    pub fn learn(&mut self, document: &[u8]) -> Result<(), Unprojectable> {
        let read = Document::read(document)?;
        self.interrupts.learn(&read.kind, read.payload);
        Ok(())
    }

    /// Appends the form of a stored document under major 2. After an error, nothing is appended.
    ///
    /// # Errors
    /// [`Unprojectable`].
    pub fn project(&mut self, document: &[u8], out: &mut Vec<u8>) -> Result<(), Unprojectable> {
        let read = Document::read(document)?;
        self.interrupts.learn(&read.kind, read.payload);
        let start = out.len();
        let written = self.write(&read, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write(&self, read: &Document<'_>, out: &mut Vec<u8>) -> Result<(), Unprojectable> {
        let kind = names::projected(&read.kind);
        let kind = kind.ok_or_else(|| Unprojectable::Kind(read.kind.to_string()))?;
        let mut document = object::Object::begin(out);
        document.copy("eventId", read.event_id);
        let tenant = self.log.tenant;
        document.value("runId", &format_args!("{tenant}/{}", read.run_id));
        document.value("type", kind);
        document.copy("timestamp", read.timestamp);
        document.value("sequence", &self.log.numbers().sequence(read.sequence));
        document.value("schemaVersion", &read.schema_version);
        if let Some(version) = read.engine_version {
            let version = payload::engine_version(version).ok_or(Unprojectable::Document)?;
            document.value("engineVersion", &version);
        }
        let ids = [("nodeId", read.node_id), ("causationId", read.causation_id)];
        for (key, id) in ids {
            if let Some(id) = id {
                document.copy(key, id);
            }
        }
        let of_log = payload::Context {
            log: self.log,
            run: &read.run_id,
            interrupts: &self.interrupts,
        };
        of_log.write(kind, read.payload, document.key("payload"))?;
        document.end();
        Ok(())
    }
}

/// Whether a stored kind is projected with facts of the `node.suspended` before it.
pub fn needs_interrupt(stored_kind: &str) -> bool {
    stored_kind.starts_with("approval.") || stored_kind.starts_with("clarification.")
}

/// `afterSequence` is negative, and not the -1 that stands for an empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeSequence;

/// The place up to which a client that sends `afterSequence` has read a log. -1 is the same as no
/// number: a poll of an empty log answers it.
///
/// # Errors
/// [`NegativeSequence`].
pub fn read_up_to(mark: LogMark, after_sequence: Option<i64>) -> Result<u64, NegativeSequence> {
    match after_sequence {
        None | Some(-1) => Ok(0),
        Some(sequence) => match u64::try_from(sequence) {
            Ok(sequence) => Ok(mark.under(Major::V2).read_up_to(sequence)),
            Err(_) => Err(NegativeSequence),
        },
    }
}

#[cfg(test)]
mod tests;
