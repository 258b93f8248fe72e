//! The facts of all tasks of a run, compact for tasks that have ended.
//!
//! A task in progress is a [`TaskFacts`]. Once it is scored, it is packed into a row of bytes; a later
//! event unpacks it and packs it again. Sums over all tasks are kept up to date, so no reader has to
//! visit every task for them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::facts::{Cost, TaskFacts};
use super::names::Names;
use super::row;
use touchstone_agents::budget::Spending;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;

/// Rows that are out of date are removed once they outnumber the others by this.
const STALE_ROWS: usize = 1024;

/// Consecutive ids whose facts are stored together.
pub(super) const CHUNK: u32 = 4096;

/// The tasks and nodes of a run in the order of their first event.
#[derive(Clone, Default)]
pub struct TaskTable {
    ids: Names,
    /// Sequences of the first and last event of each id; 0 without an event.
    spans: Vec<(u32, u32)>,
    /// Whether a sequence did not fit into `spans`.
    spans_unknown: bool,
    /// Where the row of each id starts in `bytes`, plus 1; 0 for an id without a row.
    rows: Vec<u32>,
    bytes: Vec<u8>,
    /// Number of rows in `bytes` that were replaced.
    stale: usize,
    /// Reasons and runs that many tasks share.
    labels: Names,
    /// The facts that are not packed, by the number of their id.
    open: BTreeMap<u32, Box<TaskFacts>>,
    totals: Totals,
    /// Whether each chunk has changed since it was read to be stored.
    changed: Vec<bool>,
}

/// An id as it is stored.
#[derive(Clone, Copy)]
pub(super) struct StoredTask<'a> {
    pub id: &'a str,
    /// Sequences of its first and last event; 0 without an event.
    pub span: (u32, u32),
    /// Its facts, if it is a task.
    pub row: Option<&'a [u8]>,
}

/// Sums over all tasks. They are wider than the numbers they add, so that they are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    tasks: usize,
    /// Tasks with a model answer.
    answered: usize,
    /// Scored tasks without an infrastructure error.
    judged: usize,
    /// Tasks whose cost is unknown.
    unknown_costs: usize,
    /// Without the tasks that another run executed.
    tokens: u128,
    nano_usd: u128,
    tool_calls: u128,
    retries: u128,
    /// Answers of models, of all tasks.
    answers: u128,
    cached: u128,
    cached_of_agent: u128,
    saved_nano_usd: u128,
    saved_unknown: u128,
}

/// The answers of models to all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerCounts {
    pub all: u64,
    /// Those from the cache of model answers.
    pub cached: u64,
    /// Those of the agent's own model.
    pub cached_of_agent: u64,
    /// What the cached ones would have cost.
    pub saved: Cost,
}

fn bounded(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl Totals {
    fn of(facts: &TaskFacts) -> Self {
        let own = |number: u64| match facts.reused_from {
            None => u128::from(number),
            Some(_) => 0,
        };
        Self {
            tasks: 1,
            answered: usize::from(facts.answers > 0),
            judged: usize::from(facts.scored && facts.unjudged.is_none()),
            unknown_costs: usize::from(facts.known_cost().is_none()),
            tokens: own(facts.tokens),
            nano_usd: own(facts.cost.at_least.0),
            tool_calls: own(facts.tool_calls),
            retries: own(facts.all_retries),
            answers: facts.answers.into(),
            cached: facts.cached_answers.into(),
            cached_of_agent: facts.cached_of_agent.into(),
            saved_nano_usd: facts.cost_saved.at_least.0.into(),
            saved_unknown: facts.cost_saved.unknown.into(),
        }
    }

    /// Replaces the part `before` of the sums by `after`.
    fn replace(&mut self, before: Self, after: Self) {
        self.tasks = self.tasks - before.tasks + after.tasks;
        self.answered = self.answered - before.answered + after.answered;
        self.judged = self.judged - before.judged + after.judged;
        self.unknown_costs = self.unknown_costs - before.unknown_costs + after.unknown_costs;
        self.tokens = self.tokens - before.tokens + after.tokens;
        self.nano_usd = self.nano_usd - before.nano_usd + after.nano_usd;
        self.tool_calls = self.tool_calls - before.tool_calls + after.tool_calls;
        self.retries = self.retries - before.retries + after.retries;
        self.answers = self.answers - before.answers + after.answers;
        self.cached = self.cached - before.cached + after.cached;
        self.cached_of_agent =
            self.cached_of_agent - before.cached_of_agent + after.cached_of_agent;
        self.saved_nano_usd = self.saved_nano_usd - before.saved_nano_usd + after.saved_nano_usd;
        self.saved_unknown = self.saved_unknown - before.saved_unknown + after.saved_unknown;
    }
}

impl TaskTable {
    /// Number of tasks.
    pub const fn len(&self) -> usize {
        self.totals.tasks
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of tasks with a model answer.
    pub const fn answered(&self) -> usize {
        self.totals.answered
    }

    /// Number of scored tasks without an infrastructure error.
    pub const fn judged(&self) -> usize {
        self.totals.judged
    }

    /// Whether the cost of every task is known.
    pub const fn costs_are_known(&self) -> bool {
        self.totals.unknown_costs == 0
    }

    /// What the tasks have spent, without those that another run executed.
    pub fn own_spending(&self) -> Spending {
        Spending {
            tokens: bounded(self.totals.tokens),
            cost: NanoUsd(bounded(self.totals.nano_usd)),
            tool_calls: bounded(self.totals.tool_calls),
            retries: bounded(self.totals.retries),
        }
    }

    pub fn answers(&self) -> AnswerCounts {
        let Totals {
            answers,
            cached,
            cached_of_agent,
            saved_nano_usd,
            saved_unknown,
            ..
        } = self.totals;
        AnswerCounts {
            all: bounded(answers),
            cached: bounded(cached),
            cached_of_agent: bounded(cached_of_agent),
            saved: Cost {
                at_least: NanoUsd(bounded(saved_nano_usd)),
                unknown: bounded(saved_unknown),
            },
        }
    }

    /// The sums over all tasks.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// The number of a task in the order of first events.
    pub fn number_of(&self, id: &str) -> Option<u32> {
        self.ids.find(id)
    }

    pub fn get(&self, id: &TaskId) -> Option<Cow<'_, TaskFacts>> {
        self.find(id.as_str())
    }

    /// As [`get`](Self::get), by the text of the id.
    pub fn find(&self, id: &str) -> Option<Cow<'_, TaskFacts>> {
        self.facts(self.ids.find(id)?)
    }

    /// All tasks in the order of their first event.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, Cow<'_, TaskFacts>)> {
        let numbers = (0..).take(self.ids.len());
        numbers.filter_map(|number| Some((self.id(number)?, self.facts(number)?)))
    }

    pub fn values(&self) -> impl Iterator<Item = Cow<'_, TaskFacts>> {
        let numbers = (0..).take(self.ids.len());
        numbers.filter_map(|number| self.facts(number))
    }

    /// The tasks that are not scored, in the order of their first event.
    pub fn unscored(&self) -> impl Iterator<Item = (TaskId, &TaskFacts)> {
        let open = self.open.iter().filter(|(_, facts)| !facts.scored);
        open.filter_map(|(number, facts)| Some((self.id(*number)?, &**facts)))
    }

    /// The scored tasks whose last events are the latest, newest first.
    pub fn latest_scored(&self, most: usize) -> Vec<TaskId> {
        let is_scored = |number: u32| match self.open.get(&number) {
            Some(facts) => facts.scored,
            None => self.row_of(number).is_some(),
        };
        let ends = (0..).zip(self.spans.iter().map(|(_, last)| *last));
        let mut ends: Vec<(u32, u32)> = ends.filter(|(number, _)| is_scored(*number)).collect();
        if ends.len() > most {
            ends.select_nth_unstable_by_key(most, |(_, last)| std::cmp::Reverse(*last));
            ends.truncate(most);
        }
        ends.sort_unstable_by_key(|(_, last)| std::cmp::Reverse(*last));
        let ids = ends.into_iter().filter_map(|(number, _)| self.id(number));
        ids.collect()
    }

    /// The sequences of the first and last event of these ids; `None` if there are none, or if they
    /// are unknown.
    pub fn span_of<'a>(&self, ids: impl Iterator<Item = &'a TaskId>) -> Option<(u64, u64)> {
        if self.spans_unknown {
            return None;
        }
        let spans = ids.filter_map(|id| self.span(self.ids.find(id.as_str())?));
        spans.reduce(|(first, last), span| (first.min(span.0), last.max(span.1)))
    }

    fn span(&self, number: u32) -> Option<(u64, u64)> {
        let (first, last) = *self.spans.get(number as usize)?;
        (first > 0).then_some((first.into(), last.into()))
    }

    /// The event at `sequence` belongs to `id`.
    pub fn extend_span(&mut self, id: &TaskId, sequence: u64) {
        let number = self.number(id.as_str());
        self.mark_changed(number);
        let Ok(sequence) = u32::try_from(sequence) else {
            self.spans_unknown = true;
            return;
        };
        if let Some((first, last)) = self.spans.get_mut(number as usize) {
            if *first == 0 {
                *first = sequence;
            }
            *last = sequence;
        }
    }

    /// Changes the facts of a task, which begins with this change if it is unknown.
    pub fn update<T>(&mut self, id: &TaskId, change: impl FnOnce(&mut TaskFacts) -> T) -> T {
        let number = self.number(id.as_str());
        self.mark_changed(number);
        self.unpack(number);
        let facts = self.open.get(&number);
        let before = facts.map_or_else(Totals::default, |facts| Totals::of(facts));
        let facts = self.open.entry(number).or_default();
        let result = change(facts);
        self.totals.replace(before, Totals::of(facts));
        if facts.scored {
            self.pack(number);
        }
        result
    }

    fn unpack(&mut self, number: u32) {
        let row = self.row_of(number);
        if let Some(facts) = row.and_then(|row| row::unpack(row, &self.labels)) {
            self.open.insert(number, Box::new(facts));
            self.set_row(number, 0);
            self.stale += 1;
        }
    }

    /// Packs a task, unless its row would not read back unchanged.
    fn pack(&mut self, number: u32) {
        let Some(facts) = self.open.get(&number) else {
            return;
        };
        let start = u32::try_from(self.bytes.len() + 1);
        if let Ok(start) = start
            && row::pack(facts, &mut self.labels, &mut self.bytes)
        {
            self.set_row(number, start);
            self.open.remove(&number);
        }
        if self.stale > self.ids.len() + STALE_ROWS {
            self.remove_stale_rows();
        }
    }

    fn remove_stale_rows(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        for start in &mut self.rows {
            let row = row_at(&bytes, *start).and_then(|row| row::unpack(row, &self.labels));
            let Some(facts) = row else { continue };
            *start = u32::try_from(self.bytes.len() + 1).unwrap_or_default();
            row::pack(&facts, &mut self.labels, &mut self.bytes);
        }
        self.stale = 0;
    }

    /// The number of an id, which is new if it has none yet.
    fn number(&mut self, id: &str) -> u32 {
        let number = self.ids.add(id);
        if self.ids.len() > self.rows.len() {
            self.rows.push(0);
            self.spans.push((0, 0));
        }
        number
    }

    fn id(&self, number: u32) -> Option<TaskId> {
        self.ids.get(number).map(TaskId::from)
    }

    fn facts(&self, number: u32) -> Option<Cow<'_, TaskFacts>> {
        if let Some(facts) = self.open.get(&number) {
            return Some(Cow::Borrowed(facts));
        }
        row::unpack(self.row_of(number)?, &self.labels).map(Cow::Owned)
    }

    fn row_of(&self, number: u32) -> Option<&[u8]> {
        row_at(&self.bytes, *self.rows.get(number as usize)?)
    }

    fn set_row(&mut self, number: u32, start: u32) {
        if let Some(row) = self.rows.get_mut(number as usize) {
            *row = start;
        }
    }

    fn mark_changed(&mut self, number: u32) {
        self.set_changed(number / CHUNK, true);
    }

    /// Sets whether a chunk has changed; returns whether it had, as a new one has.
    fn set_changed(&mut self, chunk: u32, has_changed: bool) -> bool {
        let chunk = chunk as usize;
        if self.changed.len() <= chunk {
            self.changed.resize(chunk + 1, true);
        }
        let changed = self.changed.get_mut(chunk);
        changed.is_some_and(|changed| std::mem::replace(changed, has_changed))
    }

    /// Number of ids.
    pub(super) fn ids(&self) -> u32 {
        u32::try_from(self.ids.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        (0..).map_while(|number| self.labels.get(number))
    }

    /// Whether the sequence of an event did not fit into a span.
    pub(super) const fn spans_are_unknown(&self) -> bool {
        self.spans_unknown
    }

    /// Whether a chunk has changed since the last call, or is new.
    pub(super) fn take_changed(&mut self, chunk: u32) -> bool {
        self.set_changed(chunk, false)
    }

    /// Passes the ids of a chunk on, in the order of their numbers; `None` if the facts of one
    /// cannot be packed. The labels of open tasks are numbered.
    pub(super) fn read_chunk(
        &mut self,
        chunk: u32,
        mut read: impl FnMut(StoredTask<'_>),
    ) -> Option<()> {
        let first = chunk.saturating_mul(CHUNK);
        let mut packed = Vec::new();
        for number in first..self.ids().min(first.saturating_add(CHUNK)) {
            packed.clear();
            let row = match self.open.get(&number) {
                Some(facts) => {
                    if !row::pack(facts, &mut self.labels, &mut packed) {
                        return None;
                    }
                    Some(packed.as_slice())
                }
                None => match self.row_of(number) {
                    Some(row) => Some(row::first(row)?),
                    None => None,
                },
            };
            read(StoredTask {
                id: self.ids.get(number)?,
                span: *self.spans.get(number as usize)?,
                row,
            });
        }
        Some(())
    }

    /// A table without ids, with the labels of the rows that are added to it.
    pub(super) fn with_labels(labels: &[String], spans_unknown: bool) -> Option<Self> {
        let mut table = Self {
            spans_unknown,
            ..Self::default()
        };
        for (number, label) in (0..).zip(labels) {
            let is_new = table.labels.has_room_for(label) && table.labels.add(label) == number;
            is_new.then_some(())?;
        }
        Some(table)
    }

    /// An empty table with the sums of one that was stored. It answers only what the sums answer.
    pub(super) fn with_totals(totals: Totals) -> Self {
        Self {
            totals,
            ..Self::default()
        }
    }

    /// The facts of a stored task, with the labels of the table; `None` if the row is not one.
    pub(super) fn stored_facts(&self, row: &[u8]) -> Option<TaskFacts> {
        row::unpack(row, &self.labels)
    }

    /// Takes memory for so many further ids at once.
    pub(super) fn reserve(&mut self, further: usize) {
        self.ids.reserve(further);
        self.spans.reserve_exact(further);
        self.rows.reserve_exact(further);
    }

    /// Adds an id that was stored; `None` if it is not one that was.
    pub(super) fn add_stored(&mut self, task: StoredTask<'_>) -> Option<()> {
        let StoredTask { id, span, row } = task;
        let number = self.ids();
        let is_new = self.ids.has_room_for(id) && self.number(id) == number;
        is_new.then_some(())?;
        *self.spans.last_mut()? = span;
        let Some(row) = row else { return Some(()) };
        let facts = row::unpack(row, &self.labels)?;
        let is_row = row::first(row)? == row && facts.score.is_finite();
        is_row.then_some(())?;
        self.totals.replace(Totals::default(), Totals::of(&facts));
        if facts.scored {
            let start = u32::try_from(self.bytes.len() + 1).ok()?;
            self.bytes.extend_from_slice(row);
            self.set_row(number, start);
        } else {
            self.open.insert(number, Box::new(facts));
        }
        Some(())
    }

    /// Allocated bytes, without the texts of open tasks.
    pub fn bytes(&self) -> usize {
        self.ids.bytes()
            + self.spans.capacity() * size_of::<(u32, u32)>()
            + self.rows.capacity() * size_of::<u32>()
            + self.bytes.capacity()
            + self.labels.bytes()
            + self.open.len() * size_of::<TaskFacts>()
    }

    /// Frees what was allocated for further tasks.
    pub fn shrink(&mut self) {
        self.ids.shrink();
        self.spans.shrink_to_fit();
        self.rows.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }
}

/// The bytes from a row on; `start` is its position plus 1.
fn row_at(bytes: &[u8], start: u32) -> Option<&[u8]> {
    bytes.get(start.checked_sub(1)? as usize..)
}

/// The same tasks and nodes with the same facts and spans, in any order.
impl PartialEq for TaskTable {
    fn eq(&self, other: &Self) -> bool {
        let has_same = |number: u32| {
            let found = self.ids.get(number).and_then(|id| other.ids.find(id));
            found.is_some_and(|found| {
                self.facts(number) == other.facts(found) && self.span(number) == other.span(found)
            })
        };
        self.ids.len() == other.ids.len()
            && self.spans_unknown == other.spans_unknown
            && (0..).take(self.ids.len()).all(has_same)
    }
}

impl fmt::Debug for TaskTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl FromIterator<(TaskId, TaskFacts)> for TaskTable {
    fn from_iter<I: IntoIterator<Item = (TaskId, TaskFacts)>>(tasks: I) -> Self {
        let mut table = Self::default();
        for (id, given) in tasks {
            table.update(&id, |facts| *facts = given);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(score: f64) -> TaskFacts {
        TaskFacts {
            score,
            scored: true,
            ..TaskFacts::default()
        }
    }

    #[test]
    fn a_task_that_changes_after_its_score_is_packed_again() {
        let mut table = TaskTable::default();
        let ids = ["a", "b"].map(TaskId::from);
        for id in &ids {
            table.update(id, |facts| *facts = scored(0.5));
        }
        for n in 1..=5 * STALE_ROWS as u64 {
            table.update(&ids[0], |facts| facts.tokens = n);
            assert_eq!(table.get(&ids[0]).unwrap().tokens, n);
        }
        assert_eq!(*table.get(&ids[1]).unwrap(), scored(0.5));
        assert_eq!(table.own_spending().tokens, 5 * STALE_ROWS as u64);
        assert!(table.open.is_empty());
        assert!(
            table.bytes.len() < 32 * STALE_ROWS,
            "stale rows are removed"
        );
    }

    #[test]
    fn tables_with_the_same_tasks_are_equal_in_any_order() {
        let task = |id: &str, score| (TaskId::from(id), scored(score));
        let of = |tasks: &[(TaskId, TaskFacts)]| TaskTable::from_iter(tasks.iter().cloned());
        let table = of(&[task("a", 0.0), task("b", 1.0)]);
        assert_eq!(table, of(&[task("b", 1.0), task("a", 0.0)]));
        assert_ne!(table, of(&[task("a", 0.0), task("b", 0.5)]));
        assert_ne!(table, of(&[task("a", 0.0)]));
        let mut with_span = table.clone();
        with_span.extend_span(&"a".into(), 3);
        assert_ne!(table, with_span);
    }

    #[test]
    fn nodes_without_facts_are_not_tasks() {
        let mut table = TaskTable::default();
        let node = TaskId::from("node");
        table.extend_span(&node, 2);
        table.extend_span(&node, 9);
        assert_eq!((table.len(), table.get(&node)), (0, None));
        assert_eq!(table.iter().count(), 0);
        assert_eq!(table.span_of(std::iter::once(&node)), Some((2, 9)));
        table.extend_span(&node, 1 << 40);
        assert_eq!(table.span_of(std::iter::once(&node)), None);
    }

    #[test]
    fn the_tasks_scored_last_come_first() {
        let mut table = TaskTable::default();
        for (sequence, id) in (1..).zip(["a", "b", "c", "d", "a"]) {
            table.extend_span(&id.into(), sequence);
            if id != "c" {
                table.update(&id.into(), |facts| *facts = scored(1.0));
            }
        }
        let ids = |most| {
            table
                .latest_scored(most)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(2), ["a", "d"]);
        assert_eq!(ids(9), ["a", "d", "b"]);
        assert_eq!(table.unscored().count(), 0);
    }
}
