//! The tasks that an attempt has judged: 16 bytes a task. Their ids are those of the run's record.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::ids::TaskId;

/// Judged tasks in suite order.
#[derive(Clone, Default)]
pub struct AttemptTasks {
    /// Those of the rows, and perhaps of other tasks.
    ids: TaskIds,
    /// In the order of the ids.
    rows: Vec<Row>,
    /// The kinds of critical safety findings, by the place of the task. Most tasks have none.
    critical: BTreeMap<u32, Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    place: u32,
    passed: bool,
    score: f64,
}

/// A judged task of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptedTask {
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether it reached its pass score.
    pub passed: bool,
    /// Kinds of critical safety findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub critical: Vec<String>,
}

/// The result of a judged task, without its id.
#[derive(Clone, Debug)]
pub struct Judgment {
    /// 0.0..=1.0.
    pub score: f64,
    pub passed: bool,
    /// Kinds of critical safety findings.
    pub critical: Vec<String>,
}

impl AttemptTasks {
    /// The tasks of `ids` that `judgment` knows.
    pub fn of(ids: &TaskIds, judgment: impl Fn(&str) -> Option<Judgment>) -> Self {
        let tasks = (0..).zip(ids.texts());
        Self::at_places(
            ids,
            tasks.filter_map(|(place, id)| Some((place, judgment(id)?))),
        )
    }

    /// The tasks at these places of `ids`, ascending.
    pub fn at_places(ids: &TaskIds, judgments: impl Iterator<Item = (u32, Judgment)>) -> Self {
        let mut tasks = Self {
            ids: ids.clone(),
            ..Self::default()
        };
        judgments.for_each(|(place, judgment)| tasks.push(place, judgment));
        tasks.rows.shrink_to_fit();
        tasks
    }

    fn push(&mut self, place: u32, judgment: Judgment) {
        let Judgment {
            score,
            passed,
            critical,
        } = judgment;
        self.rows.push(Row {
            place,
            passed,
            score,
        });
        if !critical.is_empty() {
            self.critical.insert(place, critical);
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Estimated size in memory without the ids, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
    }

    /// The tasks in suite order.
    pub fn iter(&self) -> impl Iterator<Item = AttemptedTask> {
        self.rows.iter().map(|row| AttemptedTask {
            task_id: self.ids.text(row.place as usize).into(),
            score: row.score,
            passed: row.passed,
            critical: self.critical.get(&row.place).cloned().unwrap_or_default(),
        })
    }

    /// Ids and scores in the order of the ids.
    pub fn scores(&self) -> impl Iterator<Item = (&str, f64)> {
        let places = self.ids.sorted();
        places.filter_map(|place| Some((self.ids.text(place), self.row(place)?.score)))
    }

    /// The places of the ids in the order of the ids, if all attempts share their ids in memory.
    pub fn shared_places<'a>(all: &[&'a Self]) -> Option<impl Iterator<Item = usize> + 'a> {
        let (first, others) = all.split_first()?;
        let is_shared = |it: &&Self| it.ids.shares_distinct(&first.ids);
        (is_shared(first) && others.iter().all(is_shared)).then(|| first.ids.sorted())
    }

    /// The score of the task whose id is at a place.
    pub fn score(&self, place: usize) -> Option<f64> {
        Some(self.row(place)?.score)
    }

    fn row(&self, place: usize) -> Option<&Row> {
        let is_it = |row: &&Row| row.place as usize == place;
        // Most attempts have judged every task.
        if let Some(row) = self.rows.get(place).filter(is_it) {
            return Some(row);
        }
        let found = self
            .rows
            .partition_point(|row| (row.place as usize) < place);
        self.rows.get(found).filter(is_it)
    }

    /// The kinds of critical safety findings, in suite order.
    pub fn critical(&self) -> impl Iterator<Item = &str> {
        self.critical.values().flatten().map(String::as_str)
    }
}

impl FromIterator<AttemptedTask> for AttemptTasks {
    fn from_iter<I: IntoIterator<Item = AttemptedTask>>(tasks: I) -> Self {
        let given: Vec<AttemptedTask> = tasks.into_iter().collect();
        let mut tasks = Self {
            ids: given.iter().map(|task| &task.task_id).collect(),
            ..Self::default()
        };
        for (place, task) in (0..).zip(given) {
            let judgment = Judgment {
                score: task.score,
                passed: task.passed,
                critical: task.critical,
            };
            tasks.push(place, judgment);
        }
        tasks
    }
}

impl PartialEq for AttemptTasks {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for AttemptTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for AttemptTasks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for AttemptTasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<AttemptedTask>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tasks_are_written_in_suite_order_and_scores_read_in_that_of_the_ids() {
        let ids = TaskIds::from_iter(["c", "a", "d", "b"]);
        let tasks = AttemptTasks::of(&ids, |id| {
            (id != "d").then(|| Judgment {
                score: 0.5,
                passed: id == "a",
                critical: vec!["leak".to_owned(); usize::from(id == "c")],
            })
        });
        let document = json!([
            {"taskId": "c", "score": 0.5, "passed": false, "critical": ["leak"]},
            {"taskId": "a", "score": 0.5, "passed": true},
            {"taskId": "b", "score": 0.5, "passed": false},
        ]);
        assert_eq!(json!(tasks), document);
        let read: AttemptTasks = serde_json::from_value(document).unwrap();
        assert_eq!(read, tasks);
        for tasks in [&tasks, &read] {
            let ids: String = tasks.scores().map(|(id, _)| id).collect();
            assert_eq!(ids, "abc");
            assert_eq!(tasks.critical().collect::<Vec<_>>(), ["leak"]);
            assert_eq!((tasks.len(), tasks.is_empty()), (3, false));
        }
    }
}
