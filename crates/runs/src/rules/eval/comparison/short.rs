//! A comparison as texts show it: the first changed tasks, and the numbers of all. It is small, whatever
//! the number of tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{ExcludedTask, ExclusionReason, RunComparison, TaskChange};
use touchstone_kit::ids::TaskId;

/// Maximum number of changed tasks that a text names.
pub const CHANGES: usize = 200;

/// Tasks that are named for each reason to leave them out.
pub const NAMED: usize = 5;

/// A comparison with the first tasks of its lists.
pub type ShortComparison = RunComparison<FirstChanges, LeftOut>;

/// The first changed tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstChanges {
    pub first: Vec<TaskChange>,
    /// Number of all changed tasks.
    pub count: usize,
}

/// The tasks that are left out, by the reason: their number, and the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<ExclusionReason, (usize, Vec<TaskId>)>);

impl LeftOut {
    /// The number of tasks that are left out for a reason, and the first ones.
    pub fn of(&self, reason: ExclusionReason) -> (usize, &[TaskId]) {
        let found = self.0.get(&reason);
        found.map_or((0, &[]), |(count, first)| (*count, first))
    }
}

impl Extend<TaskChange> for FirstChanges {
    fn extend<T: IntoIterator<Item = TaskChange>>(&mut self, changes: T) {
        for change in changes {
            self.count += 1;
            if self.first.len() < CHANGES {
                self.first.push(change);
            }
        }
    }
}

impl Extend<ExcludedTask> for LeftOut {
    fn extend<T: IntoIterator<Item = ExcludedTask>>(&mut self, tasks: T) {
        for task in tasks {
            let (count, first) = self.0.entry(task.reason).or_default();
            *count += 1;
            if first.len() < NAMED {
                first.push(task.task_id);
            }
        }
    }
}

impl RunComparison {
    pub fn short(&self) -> ShortComparison {
        let mut changes = FirstChanges::default();
        changes.extend(self.changes.iter().take(CHANGES).cloned());
        changes.count = self.changes.len();
        let mut left_out = LeftOut::default();
        left_out.extend(self.left_out.iter().cloned());
        self.with_tasks(changes, left_out)
    }
}

impl ShortComparison {
    /// Whether at least one task was compared, and none was excluded because it was not judged.
    pub fn is_whole(&self) -> bool {
        let missing = self.baseline.missing_trials + self.candidate.missing_trials;
        let (unjudged, _) = self.left_out.of(ExclusionReason::Unjudged);
        self.n_tasks > 0 && missing == 0 && unjudged == 0
    }
}

impl<'de> Deserialize<'de> for FirstChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Each::<Self, TaskChange>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for LeftOut {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Each::<Self, ExcludedTask>(PhantomData))
    }
}

/// Adds the items of a list one by one.
struct Each<L, T>(PhantomData<(L, T)>);

impl<'de, L: Default + Extend<T>, T: Deserialize<'de>> Visitor<'de> for Each<L, T> {
    type Value = L;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of tasks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<L, A::Error> {
        let mut list = L::default();
        while let Some(item) = items.next_element::<T>()? {
            list.extend([item]);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::eval::comparison::tests::Run;

    #[test]
    fn the_short_form_is_the_same_from_memory_and_from_a_document() {
        let tasks = 2 * CHANGES;
        let before: Vec<Option<f64>> = (0..tasks).map(|n| (n % 7 > 0).then_some(1.0)).collect();
        let after: Vec<Option<f64>> = (0..tasks)
            .map(|n| (n % 11 > 0).then_some(f64::from(u8::from(n % 5 == 0))))
            .collect();
        let [before, after] =
            [("run_1", before), ("run_2", after)].map(|(id, it)| Run::new(id, &it));
        let whole = before.compared(&after).unwrap();
        let text = serde_json::to_string(&whole).unwrap();
        let short: ShortComparison = serde_json::from_str(&text).unwrap();
        assert_eq!(short, whole.short());
        assert_eq!(short.changes.count, whole.changes.len());
        assert_eq!(short.changes.first, whole.changes[..CHANGES]);
        let (count, first) = short.left_out.of(ExclusionReason::Unjudged);
        assert_eq!((count, first.len()), (whole.left_out.len(), NAMED));
        assert!(!short.is_whole());
    }
}
