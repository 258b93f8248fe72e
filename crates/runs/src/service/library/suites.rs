//! Suites of which only the tasks in use are in memory.
//!
//! A suite is opened once: all its tasks are read, one chunk after another, and the digest of the whole
//! document is checked. The opened suite keeps the digests of its chunks, so a chunk that is loaded
//! later is the one that was checked. A suite that is stored as one document is kept as compressed chunks.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use moka::future::Cache;
use moka::policy::EvictionPolicy;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Documents, Error, GROWTH, Library};
use crate::rules::eval::rubric::Rubrics;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_openwop::suite::{AgentEvalSuite, Task, Thresholds};
use touchstone_packs::rules::suite_stream::chunk::{Chunk, ChunkDigest, Packer, unpack};
use touchstone_packs::rules::suite_stream::{SuiteFrame, SuiteHasher, TASKS};
use touchstone_packs::store as pack_store;

const CACHED_INDEXES: usize = 32 * 1024 * 1024;
const CACHED_CHUNKS: usize = 16 * 1024 * 1024;

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

#[derive(Debug)]
enum Source {
    /// The name of the upload that stored the chunks.
    Stored(String),
    Memory(Vec<Vec<u8>>),
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
            Source::Memory(chunks) => chunks.iter().map(Vec::len).sum(),
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

    fn hash(&self, id: &str) -> u32 {
        hash_in(self.hashes.hash_one(id))
    }
}

/// Collects an index while the tasks of its suite are read.
struct Indexer<'a> {
    suites: &'a Suites,
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

impl<'a> Indexer<'a> {
    fn new(suites: &'a Suites, frame: &SuiteFrame) -> Self {
        Self {
            suites,
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
            let named: Named = serde_json::from_str(line).ok()?;
            let position = u32::try_from(self.positions.len()).ok()?;
            let hash = self.suites.hash(named.task_id.as_str());
            self.positions
                .push(u64::from(hash) << 32 | u64::from(position));
            self.hasher.task(line);
        }
        self.chunks.push(ChunkEntry { first, digest });
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

/// The header and the compressed tasks of a document.
fn split(document: &[u8]) -> Option<(Map<String, Value>, Vec<Chunk>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(document).ok()?;
    let mut header = Map::new();
    for (name, value) in members.iter().filter(|(name, _)| name.as_str() != TASKS) {
        header.insert(name.clone(), serde_json::from_str(value.get()).ok()?);
    }
    let tasks: Vec<&RawValue> = serde_json::from_str(members.get(TASKS)?.get()).ok()?;
    let mut packer = Packer::default();
    let mut chunks: Vec<Chunk> = tasks
        .iter()
        .filter_map(|task| packer.push(task.get()))
        .collect();
    chunks.extend(packer.take());
    Some((header, chunks))
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
        let damaged = || Error::Damaged {
            what: "suite",
            digest: digest.to_owned(),
        };
        let index = match pack_store::suites::stream(&self.store, digest).await? {
            Some(stream) => {
                let index = open_stream(&self.store, &self.opened, &stream);
                index.await?.ok_or_else(damaged)?
            }
            None => {
                let Some(bytes) = pack_store::blobs::get(&self.store, digest).await? else {
                    return Ok(None);
                };
                let (suites, wanted) = (self.opened.clone(), digest.to_owned());
                // Large documents take a while; keep the async thread free.
                let opening = tokio::task::spawn_blocking(move || {
                    integrity::matches(&wanted, &bytes)
                        .then(|| open_document(&suites, &wanted, &bytes))
                        .flatten()
                });
                opening.await.ok().flatten().ok_or_else(damaged)?
            }
        };
        let index = Arc::new(index);
        let weight = index.weight();
        self.opened
            .indexes
            .insert_weighing(digest, index.clone(), weight)
            .await;
        Ok(Some(index))
    }

    /// The task of a suite with this id.
    ///
    /// # Errors
    /// As [`suite_index`](Self::suite_index).
    pub async fn task(&self, suite: &SuiteIndex, id: &TaskId) -> Result<Option<Task>, Error> {
        for position in suite.candidates(self.opened.hash(id.as_str())) {
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
        let tasks = match self.opened.chunks.get(&key).await {
            Some((tasks, _)) => tasks,
            None => {
                let (tasks, text) = self.read_chunk(suite, number).await?;
                let weight = u32::try_from(text.saturating_mul(GROWTH)).unwrap_or(u32::MAX);
                let entry = (tasks.clone(), weight);
                self.opened.chunks.insert(key, entry).await;
                tasks
            }
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
        let damaged = || Error::Damaged {
            what: "suite",
            digest: suite.digest.to_string(),
        };
        let entry = suite.chunks.get(number).ok_or_else(damaged)?;
        let stored;
        let octets = match &suite.source {
            Source::Memory(chunks) => chunks.get(number).ok_or_else(damaged)?,
            Source::Stored(upload) => {
                let number = i64::try_from(number).map_err(|_| damaged())?;
                let octets = pack_store::suites::chunk_of(&self.store, upload, number).await?;
                stored = octets.ok_or_else(damaged)?;
                &stored
            }
        };
        let (lines, digest) = unpack(octets).map_err(|_| damaged())?;
        if digest != entry.digest {
            return Err(damaged());
        }
        let tasks: Result<Vec<Task>, _> = lines.lines().map(serde_json::from_str).collect();
        let tasks = tasks.map_err(|_| damaged())?;
        Ok((Arc::new(tasks), lines.len()))
    }
}

/// Reads all chunks of a streamed suite; `None` if it is damaged.
async fn open_stream(
    store: &Database,
    suites: &Suites,
    stream: &pack_store::suites::SuiteStream,
) -> Result<Option<SuiteIndex>, Error> {
    let Ok(header) = serde_json::from_str::<Map<String, Value>>(&stream.header) else {
        return Ok(None);
    };
    let mut indexer = Indexer::new(suites, &SuiteFrame::of(&header));
    let mut number = 0;
    while let Some(octets) = pack_store::suites::chunk_of(store, &stream.upload, number).await? {
        if indexer.add(&octets).is_none() {
            return Ok(None);
        }
        number += 1;
    }
    let source = Source::Stored(stream.upload.clone());
    Ok(indexer.finish(&stream.digest, header, source))
}

fn open_document(suites: &Suites, digest: &str, document: &[u8]) -> Option<SuiteIndex> {
    let (header, chunks) = split(document)?;
    let mut indexer = Indexer::new(suites, &SuiteFrame::of(&header));
    for chunk in &chunks {
        indexer.add(&chunk.octets)?;
    }
    let chunks = chunks.into_iter().map(|chunk| chunk.octets).collect();
    indexer.finish(digest, header, Source::Memory(chunks))
}
