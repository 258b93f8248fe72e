//! Suites of which only the tasks in use are in memory.
//!
//! A suite is opened once: all its tasks are read, one chunk after another, and the digest of the whole
//! document is checked. The opened suite keeps the digests of its chunks, so a chunk that is loaded
//! later is the one that was checked. A suite that is stored as one document is kept as compressed chunks.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Documents, Error, GROWTH, Library};
use crate::rules::eval::rubric::Rubrics;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_openwop::suite::{AgentEvalSuite, Task, Thresholds};
use touchstone_packs::rules::suite_stream::chunk::{Chunk, ChunkDigest, Packer, unpack};
use touchstone_packs::rules::suite_stream::{SuiteFrame, SuiteHasher, TASKS};
use touchstone_packs::store as pack_store;
use touchstone_packs::store::suites::SuiteStream;

const CACHED_INDEXES: usize = 32 * 1024 * 1024;
const CACHED_CHUNKS: usize = 16 * 1024 * 1024;
/// How often a suite is read again because it was removed, and perhaps imported again, meanwhile.
const ATTEMPTS: usize = 3;

/// A suite without its tasks, and where these are.
#[derive(Debug)]
pub struct SuiteIndex {
    digest: Arc<str>,
    /// The suite; it has no tasks.
    pub header: AgentEvalSuite,
    pub task_count: usize,
    chunks: Vec<ChunkEntry>,
    /// For each task, a hash of its id in the upper half and its position in the lower, sorted.
    positions: Vec<u64>,
    source: Source,
}

#[derive(Debug)]
struct ChunkEntry {
    /// The position of its first task.
    first: usize,
    digest: ChunkDigest,
}

#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// The name of the upload that stored the chunks.
    Stored(String),
    Memory(Vec<Bytes>),
}

impl SuiteIndex {
    pub fn thresholds(&self) -> Thresholds {
        self.header.thresholds.unwrap_or_default()
    }

    /// `sha256-<base64>` of the whole document.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Whether it is stored as chunks and not as one document.
    pub const fn is_streamed(&self) -> bool {
        matches!(self.source, Source::Stored(_))
    }

    /// The number of the chunk with the task at a position.
    fn chunk_of(&self, position: usize) -> usize {
        let after = self.chunks.partition_point(|it| it.first <= position);
        after.saturating_sub(1)
    }

    /// The positions of tasks whose ids have this hash.
    fn candidates(&self, hash: u32) -> impl Iterator<Item = usize> {
        let from = self.positions.partition_point(|it| hash_in(*it) < hash);
        let rest = self.positions.get(from..).unwrap_or_default().iter();
        rest.take_while(move |it| hash_in(**it) == hash)
            .map(|it| (*it & u64::from(u32::MAX)) as usize)
    }

    /// What it takes in memory, in bytes.
    fn weight(&self) -> usize {
        let kept: usize = match &self.source {
            Source::Stored(_) => 0,
            Source::Memory(chunks) => chunks.iter().map(Bytes::len).sum(),
        };
        let entries = self.chunks.len() * size_of::<ChunkEntry>();
        4096 + kept + entries + self.positions.len() * size_of::<u64>()
    }
}

fn hash_in(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// The tasks of a chunk.
type Tasks = Arc<Vec<Task>>;

/// The opened suites and the chunks in use.
pub(super) struct Suites {
    indexes: Documents<SuiteIndex>,
    chunks: Cache<(Arc<str>, usize), (Tasks, u32)>,
    hashes: RandomState,
}

impl Suites {
    pub(super) fn new() -> Self {
        let chunks = Cache::builder()
            .max_capacity(CACHED_CHUNKS as u64)
            .weigher(|_: &(Arc<str>, usize), (_, weight): &(Tasks, u32)| *weight)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self {
            indexes: Documents::new(CACHED_INDEXES),
            chunks,
            hashes: RandomState::new(),
        }
    }
}

fn hash_of(hashes: &RandomState, id: &TaskId) -> u32 {
    hash_in(hashes.hash_one(id.as_str()))
}

/// Collects an index while the tasks of its suite are read.
struct Indexer {
    hashes: RandomState,
    hasher: SuiteHasher,
    chunks: Vec<ChunkEntry>,
    positions: Vec<u64>,
}

/// The member of a task's text that its index needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    task_id: TaskId,
}

impl Indexer {
    fn new(hashes: RandomState, frame: &SuiteFrame) -> Self {
        Self {
            hashes,
            hasher: SuiteHasher::new(frame),
            chunks: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Adds the next chunk; `None` if it is damaged.
    fn add(&mut self, octets: &[u8]) -> Option<()> {
        let (lines, digest) = unpack(octets).ok()?;
        let first = self.positions.len();
        for line in lines.lines() {
            self.add_task(line)?;
        }
        self.chunks.push(ChunkEntry { first, digest });
        Some(())
    }

    /// Adds the next task of a chunk; `None` if it is not a line with a task.
    fn add_task(&mut self, line: &str) -> Option<()> {
        if line.contains('\n') {
            return None;
        }
        let named: Named = serde_json::from_str(line).ok()?;
        let position = u32::try_from(self.positions.len()).ok()?;
        let hash = hash_of(&self.hashes, &named.task_id);
        self.positions
            .push(u64::from(hash) << 32 | u64::from(position));
        self.hasher.task(line);
        Some(())
    }

    /// The index, if the document has this digest.
    fn finish(
        mut self,
        digest: &str,
        header: Map<String, Value>,
        source: Source,
    ) -> Option<SuiteIndex> {
        let frame = SuiteFrame::of(&header);
        let (found, _) = self.hasher.finish(&frame);
        if found != digest {
            return None;
        }
        let mut header = header;
        header.insert(TASKS.to_owned(), Value::Array(Vec::new()));
        let header = serde_json::from_value(Value::Object(header)).ok()?;
        self.positions.sort_unstable();
        self.positions.shrink_to_fit();
        Some(SuiteIndex {
            digest: digest.into(),
            header,
            task_count: self.positions.len(),
            chunks: self.chunks,
            positions: self.positions,
            source,
        })
    }
}

/// The header and the tasks of a document.
fn split(document: &[u8]) -> Option<(Map<String, Value>, Vec<&RawValue>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(document).ok()?;
    let mut header = Map::new();
    for (name, value) in members.iter().filter(|(name, _)| name.as_str() != TASKS) {
        header.insert(name.clone(), serde_json::from_str(value.get()).ok()?);
    }
    let tasks = serde_json::from_str(members.get(TASKS)?.get()).ok()?;
    Some((header, tasks))
}

impl Library {
    /// The suite with this digest, without its tasks.
    ///
    /// # Errors
    /// The store failed, or the suite was altered in it.
    pub async fn suite_index(&self, digest: &str) -> Result<Option<Arc<SuiteIndex>>, Error> {
        if let Some(index) = self.opened.indexes.get(digest).await {
            return Ok(Some(index));
        }
        let Some(index) = self.open(digest).await? else {
            return Ok(None);
        };
        let index = Arc::new(index);
        let weight = index.weight();
        self.opened
            .indexes
            .insert_weighing(digest, index.clone(), weight)
            .await;
        Ok(Some(index))
    }

    async fn open(&self, digest: &str) -> Result<Option<SuiteIndex>, Error> {
        for _ in 0..ATTEMPTS {
            let stream = pack_store::suites::stream(&self.store, digest).await?;
            let opened = match &stream {
                Some(stream) => self.open_stream(stream).await?,
                None => self.open_blob(digest).await?,
            };
            if opened.is_some() {
                return Ok(opened);
            }
            let now = pack_store::suites::stream(&self.store, digest).await?;
            if now != stream {
                // It was removed, or imported again, while it was read.
                continue;
            }
            return match stream {
                Some(_) => Err(damaged(digest)),
                None => Ok(None),
            };
        }
        Err(damaged(digest))
    }

    /// Reads all chunks of a streamed suite; `None` if they are not those of the suite.
    async fn open_stream(&self, stream: &SuiteStream) -> Result<Option<SuiteIndex>, Error> {
        let Ok(header) = serde_json::from_str::<Map<String, Value>>(&stream.header) else {
            return Ok(None);
        };
        let frame = SuiteFrame::of(&header);
        let mut indexer = Indexer::new(self.opened.hashes.clone(), &frame);
        let mut number = 0;
        while let Some(octets) =
            pack_store::suites::chunk_of(&self.store, &stream.upload, number).await?
        {
            let added = blocking(move || indexer.add(&octets).map(|()| indexer)).await;
            let Some(with_chunk) = added else {
                return Ok(None);
            };
            indexer = with_chunk;
            number += 1;
        }
        let source = Source::Stored(stream.upload.clone());
        let digest = stream.digest.clone();
        Ok(blocking(move || indexer.finish(&digest, header, source)).await)
    }

    /// Splits a suite that is stored as one document; `None` if there is none.
    async fn open_blob(&self, digest: &str) -> Result<Option<SuiteIndex>, Error> {
        let Some(bytes) = pack_store::blobs::get(&self.store, digest).await? else {
            return Ok(None);
        };
        let (hashes, wanted) = (self.opened.hashes.clone(), digest.to_owned());
        let opening = blocking(move || {
            integrity::matches(&wanted, &bytes)
                .then(|| open_document(hashes, &wanted, &bytes))
                .flatten()
        });
        opening.await.map(Some).ok_or_else(|| damaged(digest))
    }

    /// The task of a suite with this id.
    ///
    /// # Errors
    /// As [`suite_index`](Self::suite_index).
    pub async fn task(&self, suite: &SuiteIndex, id: &TaskId) -> Result<Option<Task>, Error> {
        for position in suite.candidates(hash_of(&self.opened.hashes, id)) {
            let task = self.task_at(suite, position).await?;
            if task.as_ref().is_some_and(|task| task.task_id == *id) {
                return Ok(task);
            }
        }
        Ok(None)
    }

    /// The task of a suite at this position.
    ///
    /// # Errors
    /// As [`suite_index`](Self::suite_index).
    pub async fn task_at(
        &self,
        suite: &SuiteIndex,
        position: usize,
    ) -> Result<Option<Task>, Error> {
        let number = suite.chunk_of(position);
        let Some(entry) = suite.chunks.get(number) else {
            return Ok(None);
        };
        let key = (suite.digest.clone(), number);
        // Tasks that start at the same time load their chunk once.
        let loading = async {
            let (tasks, text) = self.read_chunk(suite, number).await?;
            let weight = u32::try_from(text.saturating_mul(GROWTH)).unwrap_or(u32::MAX);
            Ok::<_, Error>((tasks, weight))
        };
        let tasks = match self.opened.chunks.try_get_with(key, loading).await {
            Ok((tasks, _)) => tasks,
            // The error may belong to several readers, so each finds its own.
            Err(_) => self.read_chunk(suite, number).await?.0,
        };
        // The copy does not keep the other tasks of the chunk in memory.
        Ok(tasks.get(position.saturating_sub(entry.first)).cloned())
    }

    /// The tasks of a chunk, for readers that visit all tasks once.
    ///
    /// # Errors
    /// As [`suite_index`](Self::suite_index).
    pub async fn chunk(&self, suite: &SuiteIndex, number: usize) -> Result<Tasks, Error> {
        let (tasks, _) = self.read_chunk(suite, number).await?;
        Ok(tasks)
    }

    /// The rubrics of a suite.
    ///
    /// # Errors
    /// As [`suite_index`](Self::suite_index).
    pub async fn rubrics(&self, suite: &SuiteIndex) -> Result<Rubrics, Error> {
        let mut rubrics = Rubrics::default();
        for number in 0..suite.chunk_count() {
            let tasks = self.chunk(suite, number).await?;
            tasks.iter().for_each(|task| rubrics.add(task));
        }
        Ok(rubrics)
    }

    /// The tasks of a chunk, and the length of their text.
    async fn read_chunk(&self, suite: &SuiteIndex, number: usize) -> Result<(Tasks, usize), Error> {
        let damaged = || damaged(&suite.digest);
        let expected = suite.chunks.get(number).ok_or_else(damaged)?.digest;
        let octets = self.octets_of(suite, number).await?.ok_or_else(damaged)?;
        // A large task takes a while; keep the async thread free.
        let reading = blocking(move || {
            let (lines, digest) = unpack(&octets).ok()?;
            if digest != expected {
                return None;
            }
            let tasks: Result<Vec<Task>, _> = lines.lines().map(serde_json::from_str).collect();
            Some((Arc::new(tasks.ok()?), lines.len()))
        });
        reading.await.ok_or_else(damaged)
    }

    /// The bytes of a chunk; `None` if the suite no longer has it. If the suite was removed and imported
    /// again since it was opened, the same tasks are stored elsewhere.
    async fn octets_of(&self, suite: &SuiteIndex, number: usize) -> Result<Option<Bytes>, Error> {
        let mut octets = self.stored_octets(suite, number).await?;
        let mut stale: Option<Arc<SuiteIndex>> = None;
        for _ in 0..ATTEMPTS {
            if octets.is_some() {
                break;
            }
            let stale_index = stale.as_deref().unwrap_or(suite);
            let Some(reopened) = self.reopened(stale_index).await? else {
                break;
            };
            octets = self.stored_octets(&reopened, number).await?;
            stale = Some(reopened);
        }
        Ok(octets)
    }

    async fn stored_octets(
        &self,
        suite: &SuiteIndex,
        number: usize,
    ) -> Result<Option<Bytes>, Error> {
        match &suite.source {
            Source::Memory(chunks) => Ok(chunks.get(number).cloned()),
            Source::Stored(upload) => {
                let number = i64::try_from(number).map_err(|_| damaged(&suite.digest))?;
                let octets = pack_store::suites::chunk_of(&self.store, upload, number).await?;
                Ok(octets.map(Bytes::from))
            }
        }
    }

    /// The suite opened after this one, of which the chunks no longer exist.
    async fn reopened(&self, stale: &SuiteIndex) -> Result<Option<Arc<SuiteIndex>>, Error> {
        let digest: &str = &stale.digest;
        let cached = self.opened.indexes.get(digest).await;
        if let Some(newer) = cached.filter(|it| it.source != stale.source) {
            return Ok(Some(newer));
        }
        self.opened.indexes.remove(digest).await;
        self.suite_index(digest).await
    }
}

fn damaged(digest: &str) -> Error {
    Error::Damaged {
        what: "suite",
        digest: digest.to_owned(),
    }
}

/// Does work that takes a while apart from the async threads; `None` also if it panics.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok().flatten()
}

fn open_document(hashes: RandomState, digest: &str, document: &[u8]) -> Option<SuiteIndex> {
    let (header, tasks) = split(document)?;
    let mut indexer = Indexer::new(hashes, &SuiteFrame::of(&header));
    let (mut packer, mut chunks) = (Packer::quick(), Vec::<Chunk>::new());
    for task in tasks {
        indexer.add_task(task.get())?;
        chunks.extend(packer.push(task.get()));
    }
    chunks.extend(packer.take());
    let mut first = 0;
    for chunk in &chunks {
        let digest = chunk.digest;
        indexer.chunks.push(ChunkEntry { first, digest });
        first += chunk.tasks as usize;
    }
    let chunks = chunks.into_iter().map(|chunk| chunk.octets.into());
    indexer.finish(digest, header, Source::Memory(chunks.collect()))
}
