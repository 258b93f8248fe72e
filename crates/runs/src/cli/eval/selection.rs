//! Options that select tasks of the suite and limit their time.

use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, Args)]
pub struct SelectionOptions {
    /// Task to run; repeat for several. A run over part of a suite is marked as such; gates refuse
    /// it by default
    #[arg(long = "task", value_name = "TASK")]
    tasks: Vec<String>,

    /// Run the tasks whose id matches this regular expression, anywhere in the id
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,

    /// Run the tasks with this tag in the scoring document; repeat for several, of which a task
    /// needs one. Not the tag of a run (--tag)
    #[arg(long = "task-tag", value_name = "TAG")]
    task_tags: Vec<String>,

    /// Run the tasks that an earlier run did not pass or did not judge; `latest` is one of the same
    /// agent and suite
    #[arg(long, value_name = "RUN", value_parser = crate::cli::run::run_id)]
    failed_of: Option<String>,

    /// Run only the first N of the selected tasks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Longest time of one task, such as 30s or 2m; a task that takes longer is unjudged
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

/// A duration with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.and_then(|found| Duration::try_from(found).ok());
    positive
        .filter(|found| found.as_millis() > 0)
        .ok_or_else(|| "must be a duration of at least 1ms with its unit, such as 30s".to_owned())
}

impl SelectionOptions {
    /// Adds the members of `configurable`.
    pub fn set(&self, configurable: &mut Map<String, Value>) {
        let mut selection = Map::new();
        let mut select = |name: &str, value: Value| selection.insert(name.to_owned(), value);
        if !self.tasks.is_empty() {
            select("ids", json!(self.tasks));
        }
        if let Some(filter) = &self.filter {
            select("filter", json!(filter));
        }
        if !self.task_tags.is_empty() {
            select("tags", json!(self.task_tags));
        }
        if let Some(run) = &self.failed_of {
            select("failedOf", json!(run));
        }
        if let Some(limit) = self.limit {
            select("limit", json!(limit));
        }
        if !selection.is_empty() {
            configurable.insert("evalTasks".to_owned(), Value::Object(selection));
        }
        if let Some(timeout) = self.timeout {
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            configurable.insert("evalTaskTimeoutMs".to_owned(), json!(millis));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SelectionOptions,
    }

    #[test]
    fn options_become_members_of_the_request() {
        let line = "eval --task a --task b --filter ^a --task-tag x --task-tag y --failed-of run_1 --limit 3 --timeout 1m30s";
        let mut found = Map::new();
        let line = Line::try_parse_from(line.split(' ')).unwrap();
        line.options.set(&mut found);
        let expected = json!({
            "evalTasks": {"ids": ["a", "b"], "filter": "^a", "tags": ["x", "y"], "failedOf": "run_1", "limit": 3},
            "evalTaskTimeoutMs": 90_000,
        });
        assert_eq!(Value::Object(found), expected);
    }

    #[test]
    fn without_options_every_task_runs() {
        let mut found = Map::new();
        SelectionOptions::default().set(&mut found);
        assert!(found.is_empty());
    }

    #[rstest]
    #[case("30s", Some(30_000))]
    #[case("250ms", Some(250))]
    #[case("2m", Some(120_000))]
    #[case("30", None)]
    #[case("0s", None)]
    #[case("-5s", None)]
    #[case("soon", None)]
    fn a_duration_needs_a_unit(#[case] text: &str, #[case] millis: Option<u128>) {
        assert_eq!(duration(text).ok().map(|found| found.as_millis()), millis);
    }
}
