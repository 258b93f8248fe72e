//! `configurable.evalTasks`: a part of a suite.

use std::collections::{BTreeSet, HashSet};

use regex::{Regex, RegexBuilder};

use crate::rules::eval::report::{TaskOutcome, outcome_of};
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::scoring_document::limits::MAX_TAG_CHARS;
use crate::rules::run::fold::EvalFacts;
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::near::did_you_mean;

/// The member of `configurable`.
pub const TASK_SELECTION: &str = "evalTasks";

const MAX_IDS: usize = 10_000;
const MAX_ID_CHARS: usize = 256;
const MAX_TAGS: usize = 100;
/// Tags that an error lists.
const TAGS_SHOWN: usize = 10;
const MAX_FILTER_BYTES: usize = 512;
/// Maximum size of a compiled filter, in bytes.
const MAX_FILTER_MEMORY: usize = 1 << 20;

/// The tasks that match every member; without members, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSelection {
    pub ids: Option<Vec<TaskId>>,
    /// A regular expression over ids.
    pub filter: Option<String>,
    /// Tags of tasks, of which a task needs one.
    pub tags: Option<Vec<String>>,
    /// The run whose tasks count if it did not pass them.
    pub failed_of: Option<RunId>,
    /// Those tasks, once the run is read.
    pub failed: Option<Vec<TaskId>>,
    pub limit: Option<usize>,
}

impl TaskSelection {
    pub const fn is_empty(&self) -> bool {
        self.ids.is_none()
            && self.filter.is_none()
            && self.tags.is_none()
            && self.failed_of.is_none()
            && self.limit.is_none()
    }

    /// Parses the member of `configurable`.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub(super) fn read(configurable: &Fields<'_>) -> Result<Self, Problem> {
        let Some(members) = configurable.get(TASK_SELECTION) else {
            return Ok(Self::default());
        };
        const KNOWN: &[&str] = &["ids", "filter", "tags", "failedOf", "limit"];
        let fields = Fields::closed(members, "configurable.evalTasks", KNOWN, Nulls::Absent)?;
        let ids = fields.texts("ids", MAX_IDS, MAX_ID_CHARS)?;
        if ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(fields.invalid("ids", "must name at least one task; or leave it out"));
        }
        let filter = fields.text("filter")?;
        if let Some(filter) = filter {
            pattern(filter).map_err(|problem| fields.invalid("filter", &problem))?;
        }
        let tags = fields.texts("tags", MAX_TAGS, MAX_TAG_CHARS)?;
        if tags.as_ref().is_some_and(Vec::is_empty) {
            return Err(fields.invalid("tags", "must name at least one tag; or leave it out"));
        }
        let limit = fields.whole("limit", 1)?;
        Ok(Self {
            ids: ids.map(|ids| ids.into_iter().map(TaskId::from).collect()),
            filter: filter.map(str::to_owned),
            tags,
            failed_of: fields.text("failedOf")?.map(RunId::from),
            failed: None,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        })
    }

    /// The selected ones of the tasks of a suite that can be scored, in the order of the suite.
    ///
    /// # Errors
    /// `validation_error` if a named task or tag is unknown, a named task cannot be scored, or no
    /// task is selected.
    pub fn select(
        &self,
        suite: &TaskIds,
        scoring: Option<&ScoringDocument>,
        tasks: TaskIds,
    ) -> Result<TaskIds, Problem> {
        if self.is_empty() {
            return Ok(tasks);
        }
        let mut tasks: Vec<TaskId> = tasks.iter().collect();
        if let Some(ids) = &self.ids {
            check_ids(ids, suite, &tasks)?;
            keep(&mut tasks, ids);
        }
        if let Some(tags) = &self.tags {
            keep_tagged(&mut tasks, tags, scoring)?;
        }
        if let Some(failed) = &self.failed {
            keep(&mut tasks, failed);
            if tasks.is_empty() {
                return Err(Problem::validation(
                    "configurable.evalTasks.failedOf",
                    "that run passed every selected task of this suite; select others, or start a \
                     run over all tasks",
                ));
            }
        }
        if let Some(filter) = &self.filter {
            let field = "configurable.evalTasks.filter";
            let filter = pattern(filter).map_err(|problem| Problem::validation(field, problem))?;
            let first = tasks.first().map(ToString::to_string).unwrap_or_default();
            tasks.retain(|task| filter.is_match(task.as_str()));
            if tasks.is_empty() {
                return Err(Problem::validation(
                    field,
                    format!("`{field}` matches no task id; an id is, for example, `{first}`"),
                ));
            }
        }
        tasks.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(tasks.into())
    }
}

fn keep(tasks: &mut Vec<TaskId>, wanted: &[TaskId]) {
    let wanted: HashSet<&TaskId> = wanted.iter().collect();
    tasks.retain(|task| wanted.contains(task));
}

/// Keeps the tasks with one of the tags.
fn keep_tagged(
    tasks: &mut Vec<TaskId>,
    wanted: &[String],
    scoring: Option<&ScoringDocument>,
) -> Result<(), Problem> {
    let refused = |problem: String| Problem::validation("configurable.evalTasks.tags", problem);
    let entries = scoring.iter().flat_map(|document| document.tasks.values());
    let known: BTreeSet<&str> = entries
        .flat_map(|entry| entry.tags.iter().map(String::as_str))
        .collect();
    if let Some(other) = wanted.iter().find(|tag| !known.contains(tag.as_str())) {
        let remedy = match did_you_mean(other, known.iter().copied()) {
            _ if known.is_empty() => {
                "add `tags` to the tasks of its scoring document, or select by id".to_owned()
            }
            Some(remedy) => remedy,
            None => {
                let shown: Vec<&str> = known.iter().copied().take(TAGS_SHOWN).collect();
                let more = if known.len() > TAGS_SHOWN {
                    ", …"
                } else {
                    ""
                };
                format!("its tags are {}{more}", shown.join(", "))
            }
        };
        let problem = format!("no task of the suite has the tag `{other}`; {remedy}");
        return Err(refused(problem));
    }
    let has_one = |task: &TaskId| {
        let tags = scoring.map_or(&[][..], |document| document.tags(task));
        tags.iter().any(|tag| wanted.contains(tag))
    };
    tasks.retain(has_one);
    if tasks.is_empty() {
        return Err(refused(
            "no task with these tags is selected by the other members and can be scored in these \
             modes; select fewer members, or add the mode `rubric`"
                .to_owned(),
        ));
    }
    Ok(())
}

fn check_ids(ids: &[TaskId], suite: &TaskIds, scored: &[TaskId]) -> Result<(), Problem> {
    let scored: HashSet<&TaskId> = scored.iter().collect();
    let Some(other) = ids.iter().find(|id| !scored.contains(id)) else {
        return Ok(());
    };
    let problem = if suite.contains(other) {
        format!("task `{other}` cannot be scored in these modes; add the mode `rubric`")
    } else {
        let remedy = did_you_mean(other.as_str(), suite.texts());
        let remedy = remedy.unwrap_or_else(|| "use the ids of the suite's tasks".to_owned());
        format!("the suite has no task `{other}`; {remedy}")
    };
    Err(Problem::validation("configurable.evalTasks.ids", problem))
}

/// A filter of bounded size. The engine takes linear time for every expression.
fn pattern(filter: &str) -> Result<Regex, String> {
    if filter.len() > MAX_FILTER_BYTES {
        return Err(format!("must have at most {MAX_FILTER_BYTES} bytes"));
    }
    RegexBuilder::new(filter)
        .size_limit(MAX_FILTER_MEMORY)
        .build()
        .map_err(|fault| {
            let fault = fault.to_string();
            // The first lines of a syntax error repeat and mark the expression.
            let reason = fault.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("is not a regular expression: {reason}")
        })
}

/// The planned tasks of a run that did not pass, or have no result.
pub fn not_passed(planned: &TaskIds, facts: &EvalFacts) -> Vec<TaskId> {
    planned
        .iter()
        .filter(|id| facts.scored(id).map(|it| outcome_of(&it)) != Some(TaskOutcome::Passed))
        .collect()
}

pub fn unknown_source(run: &RunId) -> Problem {
    Problem::validation(
        "configurable.evalTasks.failedOf",
        format!("`{run}` is not an eval run of this tenant; name one of its eval runs"),
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::run::fold::TaskFacts;

    fn read(member: &Value) -> Result<TaskSelection, Problem> {
        let configurable = json!({"evalTasks": member});
        let members = configurable.as_object().unwrap();
        TaskSelection::read(&Fields::of(members, "configurable"))
    }

    fn suite() -> TaskIds {
        TaskIds::from_iter(["refund-1", "refund-2", "login", "tone"])
    }

    fn tagged() -> ScoringDocument {
        let tasks = json!({
            "refund-1": {"tags": ["billing"]},
            "refund-2": {"tags": ["slow", "billing"]},
            "login": {"tags": ["slow"]},
            "tone": {"tags": ["voice"]},
        });
        let suite = "vendor.acme.evals.x";
        let document = json!({"scoringVersion": 1, "suiteId": suite, "tasks": tasks});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn tags_of_a_suite_without_any_are_refused() {
        let selection = read(&json!({"tags": ["billing"]})).unwrap();
        let problem = selection.select(&suite(), None, scored()).unwrap_err();
        assert!(
            problem.message.contains("add `tags`"),
            "{}",
            problem.message
        );
    }

    /// All tasks but `tone`.
    fn scored() -> TaskIds {
        TaskIds::from_iter(["refund-1", "refund-2", "login"])
    }

    #[rstest]
    #[case::all(json!({}), &["refund-1", "refund-2", "login"])]
    #[case::in_the_suites_order(json!({"ids": ["login", "refund-1", "login"]}), &["refund-1", "login"])]
    #[case::by_a_part_of_the_id(json!({"filter": "fund"}), &["refund-1", "refund-2"])]
    #[case::by_the_whole_id(json!({"filter": "^login$"}), &["login"])]
    #[case::the_first(json!({"limit": 2}), &["refund-1", "refund-2"])]
    #[case::more_than_there_are(json!({"limit": 9}), &["refund-1", "refund-2", "login"])]
    #[case::all_members_apply(json!({"ids": ["login", "refund-2"], "filter": "-", "limit": 5}), &["refund-2"])]
    #[case::by_a_tag(json!({"tags": ["billing"]}), &["refund-1", "refund-2"])]
    #[case::by_any_of_several_tags(json!({"tags": ["slow", "billing"]}), &["refund-1", "refund-2", "login"])]
    #[case::by_tag_and_id(json!({"tags": ["slow"], "filter": "refund"}), &["refund-2"])]
    #[case::nulls(json!({"ids": null, "limit": null}), &["refund-1", "refund-2", "login"])]
    fn tasks_that_match_every_member_are_selected(
        #[case] member: Value,
        #[case] expected: &[&str],
    ) {
        let selected = read(&member)
            .unwrap()
            .select(&suite(), Some(&tagged()), scored())
            .unwrap();
        let selected: Vec<&str> = selected.texts().collect();
        assert_eq!(selected, expected);
    }

    #[rstest]
    #[case(json!({"ids": ["refnd-1"]}), "ids", "did you mean refund-1")]
    #[case(json!({"ids": ["zzz"]}), "ids", "use the ids of the suite's tasks")]
    #[case(json!({"ids": ["tone"]}), "ids", "add the mode `rubric`")]
    #[case(json!({"tags": ["billling"]}), "tags", "did you mean billing")]
    #[case(json!({"tags": ["zzz"]}), "tags", "its tags are billing, slow, voice")]
    #[case(json!({"tags": ["voice"]}), "tags", "add the mode `rubric`")]
    #[case(json!({"filter": "zzz"}), "filter", "for example, `refund-1`")]
    fn a_selection_without_tasks_is_refused_with_a_remedy(
        #[case] member: Value,
        #[case] field: &str,
        #[case] part: &str,
    ) {
        let problem = read(&member)
            .unwrap()
            .select(&suite(), Some(&tagged()), scored())
            .unwrap_err();
        let field = format!("configurable.evalTasks.{field}");
        assert_eq!(problem.details.get("field"), Some(&json!(field)));
        assert!(problem.message.contains(part), "{}", problem.message);
    }

    #[rstest]
    #[case(json!({"ids": []}), "ids")]
    #[case(json!({"ids": [""]}), "ids")]
    #[case(json!({"ids": "a"}), "ids")]
    #[case(json!({"filter": "("}), "filter")]
    #[case(json!({"filter": "x".repeat(600)}), "filter")]
    #[case(json!({"filter": r"\w{1000}{1000}"}), "filter")]
    #[case(json!({"limit": 0}), "limit")]
    #[case(json!({"failedOf": 3}), "failedOf")]
    #[case(json!({"tags": []}), "tags")]
    #[case(json!({"tags": [""]}), "tags")]
    #[case(json!({"tag": ["x"]}), "tag")]
    fn invalid_members_are_refused_by_name(#[case] member: Value, #[case] field: &str) {
        let problem = read(&member).unwrap_err();
        let field = format!("configurable.evalTasks.{field}");
        assert_eq!(problem.details.get("field"), Some(&json!(field)));
    }

    #[test]
    fn a_failed_or_unjudged_task_is_selected_again() {
        let facts = |passed: bool, unjudged: Option<&str>| TaskFacts {
            scored: true,
            passed,
            unjudged: unjudged.map(str::to_owned),
            ..TaskFacts::default()
        };
        let tasks = [
            ("refund-1", facts(true, None)),
            ("refund-2", facts(false, None)),
            ("login", facts(false, Some("connect"))),
        ];
        let facts = EvalFacts {
            tasks: tasks
                .map(|(id, facts)| (id.into(), facts))
                .into_iter()
                .collect(),
            ..EvalFacts::default()
        };
        let planned = ["refund-1", "refund-2", "login", "never-ran", "deleted"];
        let failed = not_passed(&TaskIds::from_iter(planned), &facts);
        let ids: Vec<&str> = failed.iter().map(TaskId::as_str).collect();
        assert_eq!(ids, ["refund-2", "login", "never-ran", "deleted"]);

        let mut selection = read(&json!({"failedOf": "run_1"})).unwrap();
        selection.failed = Some(failed);
        let selected = selection
            .select(&suite(), Some(&tagged()), scored())
            .unwrap();
        assert_eq!(selected, TaskIds::from_iter(["refund-2", "login"]));
        selection.failed = Some(Vec::new());
        let problem = selection
            .select(&suite(), Some(&tagged()), scored())
            .unwrap_err();
        assert!(problem.message.contains("passed every"), "{problem:?}");
    }
}
