//! A comparison with a part of its tasks.

use serde::Serialize;

use super::{RunComparison, UnchangedTasks};
use touchstone_kit::ids::TaskId;

/// A comparison with one page of its changes and of the tasks that are left out, which follow them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonPage {
    #[serde(flatten)]
    pub comparison: RunComparison,
    pub change_count: usize,
    pub left_out_count: usize,
    /// The cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<TaskId>,
}

impl RunComparison {
    /// The page of `limit` tasks that begins after a task; `None` if the comparison does not have
    /// this task.
    pub fn page(&self, after: Option<&TaskId>, limit: usize) -> Option<ComparisonPage> {
        let changes = self.changes.iter().map(|change| &change.task_id);
        let mut ids = changes.chain(self.left_out.iter().map(|task| &task.task_id));
        let from = match after {
            None => 0,
            Some(after) => 1 + ids.clone().position(|id| id == after)?,
        };
        let (change_count, left_out_count) = (self.changes.len(), self.left_out.len());
        let end = from.saturating_add(limit);
        let has_more = end < change_count + left_out_count;
        let last = end.checked_sub(1).and_then(|last| ids.nth(last));
        Some(ComparisonPage {
            change_count,
            left_out_count,
            next_cursor: last.filter(|_| has_more).cloned(),
            comparison: self.with_tasks(
                part(&self.changes, from, end),
                part(
                    &self.left_out,
                    from.saturating_sub(change_count),
                    end.saturating_sub(change_count),
                ),
            ),
        })
    }

    /// The same comparison with these lists of tasks, without the unchanged ones.
    pub fn with_tasks<C, L>(&self, changes: C, left_out: L) -> RunComparison<C, L> {
        RunComparison {
            baseline: self.baseline.clone(),
            candidate: self.candidate.clone(),
            differences: self.differences.clone(),
            notes: self.notes.clone(),
            n_tasks: self.n_tasks,
            left_out,
            score: self.score,
            cost_usd: self.cost_usd,
            latency_ms: self.latency_ms,
            confidence: self.confidence,
            fixed: self.fixed,
            broke: self.broke,
            mcnemar_p: self.mcnemar_p,
            regression: self.regression,
            changes,
            unchanged: UnchangedTasks::default(),
            diff_ref: self.diff_ref.clone(),
        }
    }
}

fn part<T: Clone>(all: &[T], from: usize, end: usize) -> Vec<T> {
    let part = all.iter().skip(from);
    part.take(end.saturating_sub(from)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use crate::rules::eval::comparison::changed_sample;

    #[test]
    fn the_pages_have_all_changes_and_then_all_tasks_that_are_left_out() {
        let whole = changed_sample();
        assert_eq!((whole.changes.len(), whole.left_out.len()), (3, 2));
        for limit in 1..=6 {
            let (mut changes, mut left_out) = (Vec::new(), Vec::new());
            let mut after = None;
            loop {
                let page = whole.page(after.as_ref(), limit).unwrap();
                assert_eq!((page.change_count, page.left_out_count), (3, 2));
                assert_eq!(page.comparison.regression, whole.regression);
                let found = page.comparison.changes.len() + page.comparison.left_out.len();
                assert!(found == limit || page.next_cursor.is_none());
                changes.extend(page.comparison.changes);
                left_out.extend(page.comparison.left_out);
                match page.next_cursor {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!((&changes, &left_out), (&whole.changes, &whole.left_out));
        }
        assert!(whole.page(Some(&"unknown".into()), 1).is_none());
    }
}
