//! The tasks of a report with one outcome, in a chosen order, page by page.

use std::cmp::Reverse;

use super::report::{EvalReport, TaskOutcome};
use touchstone_kit::ids::TaskId;

/// The order of the tasks. Tasks that are equal in it stay in suite order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskOrder {
    #[default]
    Suite,
    LowestScore,
    Slowest,
    MostExpensive,
    Name,
}

impl TaskOrder {
    /// `None` for an unknown name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" => Self::Suite,
            "score" => Self::LowestScore,
            "latency" => Self::Slowest,
            "cost" => Self::MostExpensive,
            "task" => Self::Name,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct TaskListQuery<'a> {
    /// A part of the ids of the tasks, in upper or lower case; empty for all tasks.
    pub name: &'a str,
    /// Only tasks with this outcome.
    pub outcome: Option<TaskOutcome>,
    pub order: TaskOrder,
    /// Number of tasks before the page.
    pub from: usize,
    pub limit: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub struct TaskListPage {
    /// The places of the tasks in the report.
    pub places: Vec<usize>,
    /// Number of tasks on all pages.
    pub all: usize,
}

/// The page of the report's tasks that the query asks for.
pub fn page_of(report: &EvalReport, query: &TaskListQuery<'_>) -> TaskListPage {
    let pairs = report.summary.tasks.iter().zip(&report.tasks).enumerate();
    let name = query.name.to_lowercase();
    let is_named = |id: &TaskId| name.is_empty() || id.as_str().to_lowercase().contains(&name);
    let mut found: Vec<_> = pairs
        .filter(|(_, (_, task))| is_named(&task.task_id))
        .filter(|(_, (_, task))| query.outcome.is_none_or(|it| it == task.outcome))
        .collect();
    match query.order {
        TaskOrder::Suite => {}
        TaskOrder::LowestScore => {
            found.sort_by(|(_, (a, _)), (_, (b, _))| a.score.total_cmp(&b.score));
        }
        TaskOrder::Slowest => found.sort_by_key(|(_, (it, _))| Reverse(it.latency_ms)),
        TaskOrder::MostExpensive => found.sort_by_key(|(_, (it, _))| Reverse(it.cost_usd)),
        TaskOrder::Name => found.sort_by(|(_, (_, a)), (_, (_, b))| a.task_id.cmp(&b.task_id)),
    }
    TaskListPage {
        all: found.len(),
        places: found
            .into_iter()
            .skip(query.from)
            .take(query.limit)
            .map(|(at, _)| at)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::eval::sample;
    use rstest::rstest;
    use touchstone_kit::money::NanoUsd;

    /// Tasks `c`, `a`, `b` and `d`; `b` is not judged.
    fn report() -> EvalReport {
        let scores = [Some(1.0), Some(0.0), None, Some(0.5)];
        let mut report = sample::report("run_1", &["golden"], &scores);
        let outcomes = [
            TaskOutcome::Passed,
            TaskOutcome::Failed,
            TaskOutcome::Unjudged,
            TaskOutcome::Failed,
        ];
        let numbers = report.summary.tasks.iter_mut().zip(&mut report.tasks);
        for (n, (numbers, task)) in numbers.enumerate() {
            task.task_id = ["c", "a", "b", "d"][n].into();
            task.outcome = outcomes[n];
            numbers.latency_ms = [Some(10), Some(30), None, Some(30)][n];
            numbers.cost_usd = [Some(NanoUsd(1)), None, None, Some(NanoUsd(7))][n];
        }
        report
    }

    #[rstest]
    #[case("", &[0, 1, 2, 3])]
    #[case("score", &[1, 2, 3, 0])]
    #[case("latency", &[1, 3, 0, 2])]
    #[case("cost", &[3, 0, 1, 2])]
    #[case("task", &[1, 2, 0, 3])]
    fn tasks_are_listed_in_the_chosen_order(#[case] order: &str, #[case] expected: &[usize]) {
        let query = TaskListQuery {
            order: TaskOrder::parse(order).unwrap(),
            limit: 10,
            ..TaskListQuery::default()
        };
        let found = page_of(&report(), &query);
        assert_eq!((found.places.as_slice(), found.all), (expected, 4));
    }

    #[rstest]
    #[case(Some(TaskOutcome::Failed), 0, &[1, 3], 2)]
    #[case(Some(TaskOutcome::Failed), 1, &[3], 2)]
    #[case(Some(TaskOutcome::Unjudged), 0, &[2], 1)]
    #[case(None, 2, &[2, 3], 4)]
    #[case(None, 9, &[], 4)]
    fn a_page_has_the_tasks_with_its_outcome(
        #[case] outcome: Option<TaskOutcome>,
        #[case] from: usize,
        #[case] expected: &[usize],
        #[case] all: usize,
    ) {
        let query = TaskListQuery {
            outcome,
            from,
            limit: 2,
            ..TaskListQuery::default()
        };
        let found = page_of(&report(), &query);
        assert_eq!((found.places.as_slice(), found.all), (expected, all));
    }

    #[rstest]
    #[case("A", &[1], 1)]
    #[case("x", &[], 0)]
    #[case("", &[0, 1, 2, 3], 4)]
    fn tasks_are_found_by_a_part_of_their_id(
        #[case] name: &str,
        #[case] expected: &[usize],
        #[case] all: usize,
    ) {
        let query = TaskListQuery {
            name,
            limit: 10,
            ..TaskListQuery::default()
        };
        let found = page_of(&report(), &query);
        assert_eq!((found.places.as_slice(), found.all), (expected, all));
    }

    #[test]
    fn an_unknown_order_is_refused() {
        assert_eq!(TaskOrder::parse("none"), None);
    }
}
