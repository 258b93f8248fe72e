//! The folded state of a run as bytes, so that a long log is not folded again.
//!
//! A stored state consists of a head, which has everything but the tasks, and of chunks of 4,096
//! tasks in the order of their first event. The chunks of tasks that have ended stay the same while
//! a run goes on. The head has the digest of every chunk; its own digest covers the run and the
//! sequence. A state is stored only if it reads back unchanged, and anything that cannot be read is
//! refused, because a state decides gates.

mod chunk;
#[cfg(test)]
mod tests;

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

use super::table::{CHUNK, StoredTask, TaskTable, Totals};
use super::{RunState, TaskFacts};
use touchstone_kit::hex::hex;
use touchstone_kit::ids::RunId;

/// The form of a stored state, and the fold that computed it. Raise it when a state is written
/// differently, or when the same log is folded to another state: states of other formats are not
/// read.
pub const FORMAT: u32 = 1;

/// Maximum number of bytes of the head or of a chunk, before and after compression. A task takes
/// about 40.
pub const MOST_BYTES: usize = 64 * 1024 * 1024;

pub(crate) const DIGEST_BYTES: usize = 32;

/// Number of tasks in a chunk.
pub const CHUNK_TASKS: usize = CHUNK as usize;

/// The sequences of the first and last event of a task.
pub type Span = (u64, u64);

/// Which tasks to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tasks {
    All,
    /// Those of chunks that have changed since the last snapshot.
    Changed,
}

/// A copy of a state that is to be stored.
#[derive(Debug)]
pub struct Snapshot {
    pub sequence: u64,
    /// Everything but the tasks.
    pub state: Box<RawValue>,
    /// Number of tasks and nodes.
    pub tasks: u32,
    pub spans_unknown: bool,
    /// What tasks refer to by numbers.
    pub labels: Vec<String>,
    /// Compressed chunks with their positions.
    pub chunks: Vec<(u32, Vec<u8>)>,
}

/// What is stored for a state.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub sequence: u64,
    pub head: Vec<u8>,
    /// Chunks with their positions.
    pub chunks: Vec<(u32, Vec<u8>)>,
    /// The digests of all chunks, those stored earlier included.
    pub digests: Vec<String>,
}

/// A stored state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("the stored state has the format {0}, which this version does not read")]
    Format(i64),
    #[error("the {0} of the stored state is damaged")]
    Damaged(&'static str),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    tasks: u32,
    spans_unknown: bool,
    labels: Vec<String>,
    /// Their digests.
    chunks: Vec<String>,
    /// As text, because it may be nested as deeply as a parser allows.
    state: Box<RawValue>,
}

impl RunState {
    /// Copies the state so that it can be stored; `None` if it would not read back unchanged.
    pub fn snapshot(&mut self, which: Tasks) -> Option<Snapshot> {
        let table = std::mem::take(&mut self.eval.tasks);
        let state = self.without_tasks();
        self.eval.tasks = table;
        let state = state?;
        let table = &mut self.eval.tasks;
        let mut chunks = Vec::new();
        for number in 0..table.ids().div_ceil(CHUNK) {
            let has_changed = table.take_changed(number);
            if has_changed || which == Tasks::All {
                // At once, because all chunks together are as large as the state.
                chunks.push((number, compress(&chunk::write(table, number)?)?));
            }
        }
        Some(Snapshot {
            sequence: self.sequence,
            state,
            tasks: table.ids(),
            spans_unknown: table.spans_are_unknown(),
            // Packing open tasks has added theirs.
            labels: table.labels().map(str::to_owned).collect(),
            chunks,
        })
    }

    /// The state, whose tasks are taken out.
    fn without_tasks(&self) -> Option<Box<RawValue>> {
        let state = to_raw_value(self).ok()?;
        let read: Self = serde_json::from_str(state.get()).ok()?;
        (read == *self).then_some(state)
    }
}

impl Snapshot {
    /// Adds the digests. `earlier` has the digests of the chunks as they are stored; without
    /// it, the snapshot needs all chunks. `None` if a chunk is missing or a part is too large.
    pub fn encode(self, run: &RunId, earlier: Vec<String>) -> Option<Encoded> {
        let mut digests = earlier;
        let mut chunks = Vec::new();
        for (number, compressed) in self.chunks {
            let digest = hex(&Sha256::digest(&compressed));
            if digests.len() == number as usize {
                digests.push(digest);
            } else {
                *digests.get_mut(number as usize)? = digest;
            }
            chunks.push((number, compressed));
        }
        (digests.len() == chunks_of(self.tasks)).then_some(())?;
        let head = serde_json::to_vec(&Head {
            tasks: self.tasks,
            spans_unknown: self.spans_unknown,
            labels: self.labels,
            chunks: digests.clone(),
            state: self.state,
        });
        let compressed = compress(&head.ok()?)?;
        let mut head = head_digest(run, self.sequence, &compressed).to_vec();
        head.extend(compressed);
        Some(Encoded {
            sequence: self.sequence,
            head,
            chunks,
            digests,
        })
    }
}

/// Reads a stored state, the chunks in their order.
#[derive(Debug)]
pub struct Reader {
    state: RunState,
    tasks: u32,
    digests: Vec<String>,
    /// Number of chunks read.
    read: u32,
}

impl Reader {
    /// # Errors
    /// The head cannot be read, or is not the one of this run at this sequence.
    pub fn new(run: &RunId, format: i64, sequence: u64, head: &[u8]) -> Result<Self, Unusable> {
        if format != i64::from(FORMAT) {
            return Err(Unusable::Format(format));
        }
        Self::of_head(run, sequence, head).ok_or(Unusable::Damaged("head"))
    }

    fn of_head(run: &RunId, sequence: u64, head: &[u8]) -> Option<Self> {
        let (digest, compressed) = head.split_at_checked(DIGEST_BYTES)?;
        (digest == head_digest(run, sequence, compressed)).then_some(())?;
        let head: Head = serde_json::from_slice(&uncompressed(compressed)?).ok()?;
        let mut state: RunState = serde_json::from_str(head.state.get()).ok()?;
        let is_whole = state.sequence == sequence && head.chunks.len() == chunks_of(head.tasks);
        is_whole.then_some(())?;
        state.eval.tasks = TaskTable::with_labels(&head.labels, head.spans_unknown)?;
        Some(Self {
            state,
            tasks: head.tasks,
            digests: head.chunks,
            read: 0,
        })
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    /// The chunk is not the one that the head names.
    pub fn add(&mut self, number: i64, chunk: &[u8]) -> Result<(), Unusable> {
        let added = self.try_add(number, chunk);
        added.ok_or(Unusable::Damaged("tasks"))
    }

    fn try_add(&mut self, number: i64, chunk: &[u8]) -> Option<()> {
        let digest = self.digests.get(self.read as usize)?;
        let is_next = number == i64::from(self.read) && hex(&Sha256::digest(chunk)) == *digest;
        is_next.then_some(())?;
        let sequence = self.state.sequence;
        let table = &mut self.state.eval.tasks;
        if self.read == 0 {
            table.reserve(self.tasks as usize);
        }
        let count = chunk::read(&uncompressed(chunk)?, |task| {
            let (first, last) = task.span;
            let is_span = (first > 0 || last == 0) && u64::from(last) <= sequence;
            is_span.then(|| table.add_stored(task))?
        })?;
        let left = self.tasks.checked_sub(self.read.checked_mul(CHUNK)?)?;
        (count == left.min(CHUNK)).then_some(())?;
        self.read += 1;
        Some(())
    }

    /// The state without its tasks, and with the sums over all tasks.
    pub fn without_tasks(mut self, totals: Totals) -> RunState {
        self.state.eval.tasks = TaskTable::with_totals(totals);
        self.state
    }

    /// The chunk that has the task with this number.
    pub const fn chunk_of(number: u32) -> u32 {
        number / CHUNK
    }

    /// The facts of these tasks of a chunk by their numbers, which ascend.
    ///
    /// # Errors
    /// The chunk is not the one that the head names.
    pub fn facts_in(
        &self,
        chunk: u32,
        octets: &[u8],
        numbers: &[u32],
    ) -> Result<Vec<(u32, TaskFacts)>, Unusable> {
        let facts = |task: StoredTask<'_>| self.state.eval.tasks.stored_facts(task.row?);
        let found = self.read_in(chunk, octets, numbers, facts);
        found.ok_or(Unusable::Damaged("tasks"))
    }

    /// The sequences of the first and last event of these tasks of a chunk by their numbers, which
    /// ascend.
    ///
    /// # Errors
    /// The chunk is not the one that the head names, or the sequences are unknown.
    pub fn spans_in(
        &self,
        chunk: u32,
        octets: &[u8],
        numbers: &[u32],
    ) -> Result<Vec<(u32, Span)>, Unusable> {
        let eval = &self.state.eval;
        let is_known = eval.unreadable == 0 && !eval.tasks.spans_are_unknown();
        let span = |task: StoredTask<'_>| {
            let (first, last) = task.span;
            (is_known && first > 0).then_some((u64::from(first), u64::from(last)))
        };
        let found = self.read_in(chunk, octets, numbers, span);
        found.ok_or(Unusable::Damaged("spans"))
    }

    fn read_in<T>(
        &self,
        chunk: u32,
        octets: &[u8],
        numbers: &[u32],
        read: impl Fn(StoredTask<'_>) -> Option<T>,
    ) -> Option<Vec<(u32, T)>> {
        let digest = self.digests.get(chunk as usize)?;
        (hex(&Sha256::digest(octets)) == *digest).then_some(())?;
        let mut number = chunk.checked_mul(CHUNK)?;
        let mut found = Vec::with_capacity(numbers.len());
        chunk::read(&uncompressed(octets)?, |task| {
            if numbers.binary_search(&number).is_ok() {
                found.push((number, read(task)?));
            }
            number += 1;
            Some(())
        })?;
        (found.len() == numbers.len()).then_some(found)
    }

    /// The state that was stored.
    ///
    /// # Errors
    /// A chunk is missing.
    pub fn finish(mut self) -> Result<RunState, Unusable> {
        if self.read as usize != self.digests.len() {
            return Err(Unusable::Damaged("tasks"));
        }
        self.state.eval.tasks.shrink();
        Ok(self.state)
    }
}

fn chunks_of(tasks: u32) -> usize {
    tasks.div_ceil(CHUNK) as usize
}

/// Covers what a reader relies on. Chunks are covered by their digests in the head.
pub(crate) fn head_digest(run: &RunId, sequence: u64, compressed: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha256::new();
    digest.update(FORMAT.to_le_bytes());
    digest.update(sequence.to_le_bytes());
    digest.update((run.as_str().len() as u64).to_le_bytes());
    digest.update(run.as_str());
    digest.update(compressed);
    digest.finalize().into()
}

pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    (bytes.len() <= MOST_BYTES).then_some(())?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() < MOST_BYTES).then_some(compressed)
}

pub(crate) fn uncompressed(compressed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut limited = DeflateDecoder::new(compressed).take(MOST_BYTES as u64 + 1);
    limited.read_to_end(&mut bytes).ok()?;
    (bytes.len() <= MOST_BYTES).then_some(bytes)
}
