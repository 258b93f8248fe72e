//! The scored tasks of a run with one outcome, in a chosen order, page by page.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::report::{TaskOutcome, outcome_of};
use crate::rules::run::fold::{EvalFacts, TaskFacts};
use crate::rules::run::record::EvalSpec;
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;

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
            "" | "suite" => Self::Suite,
            "score" => Self::LowestScore,
            "latency" => Self::Slowest,
            "cost" => Self::MostExpensive,
            "task" => Self::Name,
            _ => return None,
        })
    }
}

/// Where a page starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// After so many tasks.
    At(usize),
    /// After this task, which need not have the outcome and the name of the page.
    After(TaskId),
}

#[derive(Clone, Debug)]
pub struct TaskListQuery {
    /// A part of the ids of the tasks, in upper or lower case; empty for all tasks.
    pub name: String,
    /// Only tasks with this outcome.
    pub outcome: Option<TaskOutcome>,
    pub order: TaskOrder,
    pub start: PageStart,
    pub limit: usize,
}

#[derive(Debug, PartialEq)]
pub struct TaskListPage {
    /// The tasks of the page in its order.
    pub tasks: Vec<(TaskId, TaskFacts)>,
    /// Number of tasks on all pages.
    pub all: usize,
    /// Whether there is a next page.
    pub has_more: bool,
}

/// What tasks are sorted by. All keys of a list are of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Suite,
    /// Its bits, which have the order of the score, because scores are 0.0..=1.0.
    Score(u64),
    Latency(Reverse<Option<u64>>),
    Cost(Reverse<Option<NanoUsd>>),
    Name(&'a str),
}

impl<'a> Key<'a> {
    fn of(order: TaskOrder, id: &'a str, task: ListedTask) -> Self {
        match order {
            TaskOrder::Suite => Self::Suite,
            TaskOrder::LowestScore => Self::Score(task.score.to_bits()),
            TaskOrder::Slowest => Self::Latency(Reverse(task.latency_ms)),
            TaskOrder::MostExpensive => Self::Cost(Reverse(task.cost)),
            TaskOrder::Name => Self::Name(id),
        }
    }
}

/// What a list is sorted and filtered by.
#[derive(Clone, Copy, Debug)]
pub struct ListedTask {
    pub outcome: TaskOutcome,
    pub score: f64,
    pub latency_ms: Option<u64>,
    pub cost: Option<NanoUsd>,
}

impl ListedTask {
    fn of(facts: &TaskFacts) -> Self {
        Self {
            outcome: outcome_of(facts),
            score: facts.score,
            latency_ms: facts.latency_ms,
            cost: facts.known_cost(),
        }
    }
}

/// The places of the tasks of a page, in its order.
#[derive(Debug, PartialEq, Eq)]
pub struct PagePlaces {
    pub places: Vec<usize>,
    /// Number of tasks on all pages.
    pub all: usize,
    /// Whether there is a next page.
    pub has_more: bool,
}

/// The page of the scored tasks that the query asks for; `None` if it starts after a task that is
/// not scored. Memory depends on the place of the page, not on the number of tasks.
pub fn page_of(spec: &EvalSpec, facts: &EvalFacts, query: &TaskListQuery) -> Option<TaskListPage> {
    let scored = |place| facts.scored_task(spec.tasks.text(place));
    let listed = |place| Some(ListedTask::of(&*scored(place)?));
    let page = places_of(&spec.tasks, facts.scored_count, listed, query)?;
    let places = page.places.into_iter();
    let tasks = places.filter_map(|place| {
        let facts = scored(place)?.into_owned();
        Some((spec.tasks.get(place)?, facts))
    });
    Some(TaskListPage {
        tasks: tasks.collect(),
        all: page.all,
        has_more: page.has_more,
    })
}

/// As [`page_of`]. `listed` returns the task at a place, if it is scored; `scored_count` of them are.
pub fn places_of(
    ids: &TaskIds,
    scored_count: usize,
    listed: impl Fn(usize) -> Option<ListedTask>,
    query: &TaskListQuery,
) -> Option<PagePlaces> {
    if query.name.is_empty() && query.outcome.is_none() && query.order == TaskOrder::Suite {
        return places_in_suite(ids, scored_count, listed, query);
    }
    let (skip, after) = match &query.start {
        PageStart::At(from) => (*from, None),
        PageStart::After(task) => {
            let place = ids.position(task)?;
            let key = Key::of(query.order, ids.text(place), listed(place)?);
            (0, Some((key, place)))
        }
    };
    let name = query.name.to_lowercase();
    let is_named = |id: &str| name.is_empty() || id.to_lowercase().contains(&name);
    let most = skip.saturating_add(query.limit).saturating_add(1);
    let mut first = BinaryHeap::new();
    let mut all = 0;
    for (place, id) in ids.texts().enumerate() {
        if !is_named(id) {
            continue;
        }
        let Some(task) = listed(place) else {
            continue;
        };
        if query.outcome.is_some_and(|wanted| wanted != task.outcome) {
            continue;
        }
        all += 1;
        let key = (Key::of(query.order, id, task), place);
        if after.is_none_or(|after| key > after) {
            first.push(key);
            if first.len() > most {
                first.pop();
            }
        }
    }
    let has_more = first.len() == most;
    let places = first.into_sorted_vec().into_iter().skip(skip);
    let places = places.map(|(_, place)| place);
    Some(PagePlaces {
        places: places.take(query.limit).collect(),
        all,
        has_more,
    })
}

/// A page of all scored tasks in suite order. Reads only the tasks of the page, so that all pages
/// together read each task once.
fn places_in_suite(
    ids: &TaskIds,
    scored_count: usize,
    listed: impl Fn(usize) -> Option<ListedTask>,
    query: &TaskListQuery,
) -> Option<PagePlaces> {
    let (first, skip) = match &query.start {
        PageStart::At(from) => (0, *from),
        PageStart::After(task) => {
            let place = ids.position(task)?;
            listed(place)?;
            (place + 1, 0)
        }
    };
    let scored = (first..ids.len()).filter(|place| listed(*place).is_some());
    let mut scored = scored.skip(skip);
    let places = scored.by_ref().take(query.limit).collect();
    Some(PagePlaces {
        places,
        all: scored_count,
        has_more: scored.next().is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;
    use touchstone_kit::money::NanoUsd;

    /// Tasks `c`, `a`, `b` and `d`; `b` is not judged, and `e` not scored.
    fn run() -> (EvalSpec, EvalFacts) {
        let spec = json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 5, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"],
            "tasks": ["c", "a", "e", "b", "d"], "concurrency": 1,
        });
        let task = |score: Option<f64>, latency_ms, cost: u64| TaskFacts {
            score: score.unwrap_or_default(),
            passed: score == Some(1.0),
            unjudged: score.is_none().then(|| "connect".to_owned()),
            latency_ms,
            cost: crate::rules::run::fold::Cost {
                at_least: NanoUsd(cost),
                unknown: u64::from(cost == 0),
            },
            scored: true,
            ..TaskFacts::default()
        };
        let tasks = [
            ("c", task(Some(1.0), Some(10), 1)),
            ("a", task(Some(0.0), Some(30), 0)),
            ("b", task(None, None, 0)),
            ("d", task(Some(0.5), Some(30), 7)),
            ("e", TaskFacts::default()),
        ];
        let facts = EvalFacts {
            tasks: tasks
                .map(|(id, task)| (TaskId::from(id), task))
                .into_iter()
                .collect(),
            scored_count: 4,
            ..EvalFacts::default()
        };
        (serde_json::from_value(spec).unwrap(), facts)
    }

    fn query() -> TaskListQuery {
        TaskListQuery {
            name: String::new(),
            outcome: None,
            order: TaskOrder::Suite,
            start: PageStart::At(0),
            limit: 10,
        }
    }

    fn listed(query: &TaskListQuery) -> (String, usize) {
        let (spec, facts) = run();
        let page = page_of(&spec, &facts, query).unwrap();
        let ids = page.tasks.iter().map(|(id, _)| id.as_str());
        (ids.collect(), page.all)
    }

    #[rstest]
    #[case("", "cabd")]
    #[case("score", "abdc")]
    #[case("latency", "adcb")]
    #[case("cost", "dcab")]
    #[case("task", "abcd")]
    fn tasks_are_listed_in_the_chosen_order(#[case] order: &str, #[case] expected: &str) {
        let order = TaskOrder::parse(order).unwrap();
        let whole = TaskListQuery { order, ..query() };
        assert_eq!(listed(&whole), (expected.to_owned(), 4));
        // Pages of one task each, by place and by the task before.
        let (spec, facts) = run();
        let (mut by_place, mut by_task) = (String::new(), String::new());
        let mut start = PageStart::At(0);
        for at in 0..4 {
            let page = |start| {
                let query = TaskListQuery {
                    order,
                    start,
                    limit: 1,
                    ..query()
                };
                page_of(&spec, &facts, &query).unwrap()
            };
            by_place.push_str(page(PageStart::At(at)).tasks[0].0.as_str());
            let found = page(start);
            assert_eq!((found.all, found.has_more), (4, at < 3));
            by_task.push_str(found.tasks[0].0.as_str());
            start = PageStart::After(found.tasks[0].0.clone());
        }
        assert_eq!((by_place.as_str(), by_task.as_str()), (expected, expected));
    }

    #[rstest]
    #[case(Some(TaskOutcome::Failed), 0, "ad", 2)]
    #[case(Some(TaskOutcome::Failed), 1, "d", 2)]
    #[case(Some(TaskOutcome::Unjudged), 0, "b", 1)]
    #[case(None, 2, "bd", 4)]
    #[case(None, 9, "", 4)]
    fn a_page_has_the_tasks_with_its_outcome(
        #[case] outcome: Option<TaskOutcome>,
        #[case] from: usize,
        #[case] expected: &str,
        #[case] all: usize,
    ) {
        let start = PageStart::At(from);
        let query = TaskListQuery {
            outcome,
            start,
            limit: 2,
            ..query()
        };
        assert_eq!(listed(&query), (expected.to_owned(), all));
    }

    #[rstest]
    #[case("A", "a", 1)]
    #[case("x", "", 0)]
    #[case("", "cabd", 4)]
    fn tasks_are_found_by_a_part_of_their_id(
        #[case] name: &str,
        #[case] expected: &str,
        #[case] all: usize,
    ) {
        let name = name.to_owned();
        let query = TaskListQuery { name, ..query() };
        assert_eq!(listed(&query), (expected.to_owned(), all));
    }

    #[rstest]
    #[case("e")]
    #[case("unknown")]
    fn a_page_does_not_start_after_a_task_that_is_not_scored(#[case] task: &str) {
        let (spec, facts) = run();
        let start = PageStart::After(task.into());
        let query = TaskListQuery { start, ..query() };
        assert_eq!(page_of(&spec, &facts, &query), None);
    }

    #[test]
    fn an_unknown_order_is_refused() {
        assert_eq!(TaskOrder::parse("none"), None);
    }
}
