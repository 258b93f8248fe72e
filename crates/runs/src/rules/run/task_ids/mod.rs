//! The ids of the tasks of a run in suite order, in little memory.
//!
//! A run of a million tasks names each of them. As texts of their own they take 60 bytes each, in
//! each copy of its record. Here they take their text and four bytes, once for all copies.

mod form;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use self::form::COMPRESSED_FROM;
use touchstone_kit::ids::TaskId;

/// No id of a suite has this character.
const SEPARATOR: char = '\n';

/// Number of ids that are looked up without sorting all of them. A page needs one, a document one for
/// each of its pages.
const SEARCHES: u32 = 16;

/// Ids of tasks, each once. Clones share them.
#[derive(Clone, Default)]
pub struct TaskIds {
    ids: Arc<Ids>,
    /// Whether many ids are written compressed.
    is_compressible: bool,
}

#[derive(Debug, Default)]
struct Ids {
    /// All ids, each followed by a [`SEPARATOR`].
    text: String,
    /// Where each id ends in `text`.
    ends: Vec<u32>,
    /// Computed at the first use.
    sorted: OnceLock<Sorted>,
    /// Number of ids that were looked up before that.
    searched: AtomicU32,
}

#[derive(Debug)]
struct Sorted {
    /// The places of the ids in their order.
    places: Box<[u32]>,
    /// Whether all ids differ.
    is_distinct: bool,
}

impl Ids {
    fn push(&mut self, id: &str) {
        self.text.push_str(id);
        // A suite has at most 4 GiB.
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.ends.push(end);
        self.text.push(SEPARATOR);
    }

    fn get(&self, place: usize) -> Option<&str> {
        let start = match place.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize + SEPARATOR.len_utf8(),
            None => 0,
        };
        self.text.get(start..*self.ends.get(place)? as usize)
    }

    fn sorted(&self) -> &Sorted {
        self.sorted.get_or_init(|| {
            let id = |place: u32| self.get(place as usize).unwrap_or_default();
            let common = self.common_prefix();
            let places = (0..).take(self.ends.len());
            let keys = places.map(|place| (first_bytes(id(place).as_bytes().get(common..)), place));
            let mut keys: Vec<(u64, u32)> = keys.collect();
            // Comparing the first bytes that differ is many times faster than comparing the texts. An
            // id that is there twice keeps its order.
            keys.sort_unstable_by(|(a, at), (b, bt)| {
                a.cmp(b).then_with(|| id(*at).cmp(id(*bt))).then(at.cmp(bt))
            });
            let is_distinct = keys
                .windows(2)
                .all(|pair| matches!(pair, [(a, at), (b, bt)] if a != b || id(*at) != id(*bt)));
            Sorted {
                places: keys.into_iter().map(|(_, place)| place).collect(),
                is_distinct,
            }
        })
    }

    /// How many bytes all ids begin with in common.
    fn common_prefix(&self) -> usize {
        let all = |place: usize| self.get(place).unwrap_or_default();
        let first = all(0);
        (0..self.ends.len()).fold(first.len(), |common, place| {
            let same = |(a, b): &(u8, u8)| a == b;
            let pairs = first.bytes().zip(all(place).bytes());
            pairs.take(common).take_while(same).count()
        })
    }
}

/// The first eight bytes as a number in their order. Shorter texts come first.
fn first_bytes(text: Option<&[u8]>) -> u64 {
    let bytes = text.unwrap_or_default().iter().take(8);
    let (key, count) = bytes.fold((0, 0), |(key, count), byte| {
        (key << 8 | u64::from(*byte), count + 1)
    });
    key.checked_shl(8 * (8 - count)).unwrap_or_default()
}

impl TaskIds {
    /// The same ids, which are written compressed if they are many. Earlier versions cannot read
    /// that form (ADR 82).
    #[must_use]
    pub fn compressible(self) -> Self {
        Self {
            is_compressible: true,
            ..self
        }
    }

    pub fn len(&self) -> usize {
        self.ids.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.ends.is_empty()
    }

    pub fn get(&self, place: usize) -> Option<TaskId> {
        self.ids.get(place).map(TaskId::from)
    }

    /// The text of an id; empty beyond the last one.
    pub fn text(&self, place: usize) -> &str {
        self.ids.get(place).unwrap_or_default()
    }

    pub fn first(&self) -> Option<TaskId> {
        self.get(0)
    }

    /// The ids from a place on.
    pub fn from_place(&self, first: usize) -> impl DoubleEndedIterator<Item = TaskId> + Clone {
        let places = first.min(self.len())..self.len();
        places.map(|place| TaskId::from(self.text(place)))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = TaskId> + Clone {
        self.from_place(0)
    }

    /// The texts of the ids.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len()).map(|place| self.text(place))
    }

    /// The places in the order of the ids.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.ids.sorted().places.iter().map(|place| *place as usize)
    }

    /// Whether both share their ids in memory, and all ids differ.
    pub fn shares_distinct(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ids, &other.ids) && self.ids.sorted().is_distinct
    }

    /// The place of an id. The first look-ups read all ids, the next one sorts them.
    pub fn position(&self, id: &TaskId) -> Option<usize> {
        let is_sorted = self.ids.sorted.get().is_some();
        if !is_sorted && self.ids.searched.fetch_add(1, Relaxed) < SEARCHES {
            return self.texts().position(|text| text == id.as_str());
        }
        let sorted = &self.ids.sorted().places;
        let text = |place: &u32| self.text(*place as usize);
        let found = sorted.partition_point(|place| text(place) < id.as_str());
        let place = sorted.get(found).filter(|it| text(it) == id.as_str())?;
        Some(*place as usize)
    }

    pub fn contains(&self, id: &TaskId) -> bool {
        self.position(id).is_some()
    }

    /// Estimated size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.ids.text.capacity() + (self.ids.ends.capacity() + self.len()) * size_of::<u32>()
    }
}

/// Collects ids.
#[derive(Debug, Default)]
pub struct TaskIdsBuilder {
    ids: Ids,
}

impl TaskIdsBuilder {
    pub fn push(&mut self, id: &str) {
        self.ids.push(id);
    }

    pub fn len(&self) -> usize {
        self.ids.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.ends.is_empty()
    }

    pub fn finish(mut self) -> TaskIds {
        self.ids.text.shrink_to_fit();
        self.ids.ends.shrink_to_fit();
        TaskIds {
            ids: Arc::new(self.ids),
            is_compressible: false,
        }
    }
}

impl<'a> FromIterator<&'a str> for TaskIds {
    fn from_iter<I: IntoIterator<Item = &'a str>>(ids: I) -> Self {
        let mut builder = TaskIdsBuilder::default();
        ids.into_iter().for_each(|id| builder.push(id));
        builder.finish()
    }
}

impl<'a> FromIterator<&'a TaskId> for TaskIds {
    fn from_iter<I: IntoIterator<Item = &'a TaskId>>(ids: I) -> Self {
        ids.into_iter().map(TaskId::as_str).collect()
    }
}

impl FromIterator<TaskId> for TaskIds {
    fn from_iter<I: IntoIterator<Item = TaskId>>(ids: I) -> Self {
        let mut builder = TaskIdsBuilder::default();
        ids.into_iter().for_each(|id| builder.push(id.as_str()));
        builder.finish()
    }
}

impl From<Vec<TaskId>> for TaskIds {
    fn from(ids: Vec<TaskId>) -> Self {
        ids.iter().collect()
    }
}

/// The same ids in the same order, in whichever form they are written.
impl PartialEq for TaskIds {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ids, &other.ids)
            || self.ids.ends == other.ids.ends && self.ids.text == other.ids.text
    }
}

impl Eq for TaskIds {}

impl fmt::Debug for TaskIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(ids: &[&str]) -> TaskIds {
        ids.iter().copied().collect()
    }

    #[test]
    fn ids_keep_their_places() {
        let ids = ids(&["refund", "a", "a-b", "login"]);
        for (place, text) in ids.texts().enumerate() {
            let id = TaskId::from(text);
            assert_eq!(ids.position(&id), Some(place));
            assert_eq!(ids.get(place), Some(id));
        }
        for unknown in ["", "b", "a-", "refund-1", "zzz"] {
            assert_eq!(ids.position(&unknown.into()), None, "{unknown}");
        }
        assert_eq!((ids.len(), ids.get(4)), (4, None));
    }

    #[test]
    fn ids_are_read_from_a_place_on_and_in_their_own_order() {
        let ids = ids(&["c", "a", "b"]);
        let from = |place| {
            ids.from_place(place)
                .map(|id| id.to_string())
                .collect::<String>()
        };
        assert_eq!([from(0), from(2), from(9)], ["cab", "b", ""]);
        let sorted: String = ids.sorted().map(|place| ids.text(place)).collect();
        assert_eq!(sorted, "abc");
        let backwards: String = ids.iter().rev().map(|id| id.to_string()).collect();
        assert_eq!(backwards, "bac");
    }

    #[test]
    fn ids_are_found_before_and_after_they_are_sorted() {
        let all: TaskIds = (0..500)
            .map(|n| TaskId::from(format!("task-{}", n * 7919 % 500)))
            .collect();
        for round in 0..2 * SEARCHES as usize {
            let id = all.get(round * 11).unwrap();
            assert_eq!(all.position(&id), Some(round * 11));
            assert_eq!(all.position(&"task-500".into()), None);
        }
        assert!(all.ids.sorted.get().is_some());
    }

    proptest! {
        #[test]
        fn places_are_in_the_order_of_the_ids(ids in prop::collection::vec("p[ab]{0,12}", 0..40)) {
            let all: TaskIds = ids.iter().map(String::as_str).collect();
            let mut expected: Vec<usize> = (0..ids.len()).collect();
            expected.sort_by_key(|place| &ids[*place]);
            prop_assert_eq!(all.sorted().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn no_ids_have_no_places() {
        let none = TaskIds::default();
        assert!(none.is_empty() && none.iter().next().is_none());
        assert!(!none.contains(&"a".into()));
        assert_eq!(none, ids(&[]));
    }

    #[test]
    fn ids_that_run_together_differ() {
        assert_ne!(ids(&["ab", "c"]), ids(&["a", "bc"]));
    }
}
