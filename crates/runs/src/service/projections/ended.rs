//! The results of ended runs, read without folding their logs or decoding all tasks.
//!
//! They affect speed only. If they cannot be read or written, the state is used.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::warn;

use super::Projections;
use super::computing::computed;
use crate::rules::eval::statistics::ended::EndedResults;
use crate::rules::run::fold::stored::{Reader, Span, Unusable};
use crate::rules::run::fold::{RunState, TaskFacts};
use crate::rules::run::task_ids::TaskIds;
use crate::store::projection::results::{self, StoredPart};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;

/// An ended run, without the facts of its tasks.
#[derive(Debug)]
pub struct Ended {
    /// Its tasks are missing; sums over them are known.
    pub state: RunState,
    pub results: EndedResults,
}

impl Ended {
    /// Estimated size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        4096 + self.results.results.bytes()
    }
}

impl Projections {
    /// The results of a run with these tasks; `None` if it has not ended, or none are stored.
    pub async fn ended_results(&self, run: &RunId, ids: &TaskIds) -> Option<Arc<Ended>> {
        if let Some(ended) = self.ended.get(run).await {
            return Some(ended);
        }
        let stored = read(run, results::load(&self.store, run).await)??;
        let at = stored.sequence;
        let (id, octets, tasks) = (run.clone(), stored.results, ids.clone());
        let decode = move || EndedResults::decode(&id, at, &tasks, &octets);
        let results = computed(ids.len(), decode).await.ok().flatten();
        let head = Reader::new(run, stored.format, at, &stored.head).ok();
        let (Some(results), Some(head)) = (results, head) else {
            warn!(run_id = %run, "ignored the stored results of a run; its state is used instead");
            return None;
        };
        let state = head.without_tasks(results.totals);
        state.status.is_terminal().then_some(())?;
        let ended = Arc::new(Ended { state, results });
        self.ended.insert(run.clone(), ended.clone()).await;
        // Without this, displaced results stay in memory until the next use of the cache.
        self.ended.run_pending_tasks().await;
        Some(ended)
    }

    /// The sequence of the last event of a run that has ended; `None` if it is not known without
    /// its state.
    pub async fn ended_at(&self, run: &RunId) -> Option<u64> {
        if let Some(ended) = self.ended.get(run).await {
            return Some(ended.state.sequence);
        }
        read(run, results::ended_at(&self.store, run).await)?
    }

    /// Whether the state of a run is in memory.
    pub fn is_cached(&self, run: &RunId) -> bool {
        self.states.cached.contains_key(run)
    }

    /// The stored facts of tasks, by their numbers in the order of first events; `None` unless all
    /// can be read.
    pub async fn stored_facts(
        &self,
        run: &RunId,
        numbers: &[u32],
    ) -> Option<HashMap<u32, TaskFacts>> {
        let found = self.stored(run, numbers, Reader::facts_in).await?;
        Some(found.into_iter().collect())
    }

    /// As [`RunState::span_of`], from the stored state.
    pub async fn stored_span(&self, run: &RunId, numbers: &[u32]) -> Option<Span> {
        let found = self.stored(run, numbers, Reader::spans_in).await?;
        let spans = found.into_iter().map(|(_, span)| span);
        spans.reduce(|(first, last), span| (first.min(span.0), last.max(span.1)))
    }

    /// What `read_chunk` reads of the stored tasks with these numbers, chunk by chunk.
    async fn stored<T>(
        &self,
        run: &RunId,
        numbers: &[u32],
        read_chunk: impl Fn(&Reader, u32, &[u8], &[u32]) -> Result<Vec<(u32, T)>, Unusable>,
    ) -> Option<Vec<(u32, T)>> {
        let mut by_chunk: HashMap<u32, Vec<u32>> = HashMap::new();
        for number in numbers {
            let chunk = Reader::chunk_of(*number);
            by_chunk.entry(chunk).or_default().push(*number);
        }
        let mut chunks: Vec<u32> = by_chunk.keys().copied().collect();
        chunks.sort_unstable();
        let parts = read(run, results::chunks(&self.store, run, &chunks).await)?;
        let mut parts = parts.into_iter();
        let head = parts.next().filter(|head| head.part == 0)?;
        let reader = Reader::new(run, head.format, head.sequence, &head.octets).ok()?;
        let mut found = Vec::with_capacity(numbers.len());
        for StoredPart { part, octets, .. } in parts {
            let chunk = u32::try_from(part.checked_sub(1)?).ok()?;
            let mut wanted = by_chunk.remove(&chunk)?;
            wanted.sort_unstable();
            found.extend(read_chunk(&reader, chunk, &octets, &wanted).ok()?);
        }
        by_chunk.is_empty().then_some(found)
    }
}

/// Stores the results of a run that ended with the event `at`; returns whether they are stored.
pub async fn store(store: &Database, run: &RunId, at: u64, results: EndedResults) -> bool {
    let id = run.clone();
    let encoded = tokio::task::spawn_blocking(move || results.encode(&id, at)).await;
    let Ok(Some(octets)) = encoded else {
        return false;
    };
    read(run, results::store(store, run, at, &octets).await).unwrap_or_default()
}

fn read<T>(run: &RunId, found: Result<T, StoreError>) -> Option<T> {
    found
        .inspect_err(|cause| {
            let cause = format!("{cause:#}");
            warn!(run_id = %run, cause, "could not read or store the results of a run");
        })
        .ok()
}
