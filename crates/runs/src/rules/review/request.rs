//! What people send: the request for a queue, and labels.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{MAX_ITEMS, MAX_LABELLERS, MAX_STEPS, Review};
use crate::rules::eval::report::TaskOutcome;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::redaction::mask;

const MAX_NOTE_CHARS: usize = 2_000;

/// A request for a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReview {
    pub run: RunId,
    /// `None` for every outcome.
    pub outcome: Option<TaskOutcome>,
    /// `None` for every answer.
    pub sample: Option<usize>,
    pub seed: u64,
    pub labellers: u8,
    pub steps: u8,
}

impl NewReview {
    /// Parses the body of `POST /v1/host/touchstone/reviews`.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = ["runId", "outcome", "sample", "seed", "labellers", "steps"];
        let fields = Fields::closed(body, "", &known, Nulls::Absent)?;
        let run = fields.text_of("runId", 1..=128)?;
        let run = run.ok_or_else(|| fields.invalid("runId", "is required"))?;
        let outcome = match fields.text("outcome")? {
            None | Some("all") => None,
            Some("passed") => Some(TaskOutcome::Passed),
            Some("failed") => Some(TaskOutcome::Failed),
            Some("unjudged") => Some(TaskOutcome::Unjudged),
            Some(_) => {
                let names = "must be \"all\", \"passed\", \"failed\" or \"unjudged\"";
                return Err(fields.invalid("outcome", names));
            }
        };
        let within = |name: &str, least: u64, most: u64| match fields.whole(name, least)? {
            Some(number) if number > most => {
                let bounds = format!("must be an integer from {least} to {most}");
                Err(fields.invalid(name, &bounds))
            }
            number => Ok(number),
        };
        let most = u64::try_from(MAX_ITEMS).unwrap_or(u64::MAX);
        let sample = within("sample", 1, most)?;
        let seed = within("seed", 0, u64::from(u32::MAX))?;
        let small = |number: Option<u64>, usual| {
            number.and_then(|it| u8::try_from(it).ok()).unwrap_or(usual)
        };
        Ok(Self {
            run: run.into(),
            outcome,
            sample: sample.and_then(|it| usize::try_from(it).ok()),
            seed: seed.unwrap_or(0),
            labellers: small(within("labellers", 1, u64::from(MAX_LABELLERS))?, 2),
            steps: small(within("steps", 1, u64::from(MAX_STEPS))?, 1),
        })
    }

    /// Draws the tasks of the queue. Their order depends on the seed alone, so it says nothing
    /// about the scores.
    ///
    /// # Errors
    /// `validation_error` if no task has the outcome, or too many have it.
    pub fn choose(&self, tasks: Vec<(TaskId, TaskOutcome)>) -> Result<Vec<TaskId>, Problem> {
        let wanted = tasks
            .into_iter()
            .filter(|(_, outcome)| self.outcome.is_none_or(|it| it == *outcome));
        let mut keyed: Vec<([u8; 32], TaskId)> = wanted
            .map(|(task, _)| (position(self.seed, &task), task))
            .collect();
        keyed.sort();
        keyed.truncate(self.sample.unwrap_or(usize::MAX));
        if keyed.is_empty() {
            let none = "the run has no answer with this outcome; choose another outcome";
            return Err(Problem::validation("outcome", none));
        }
        if keyed.len() > MAX_ITEMS {
            let many = format!(
                "the run has {} such answers, and a queue has at most {MAX_ITEMS}; set `sample`",
                keyed.len()
            );
            return Err(Problem::validation("sample", many));
        }
        Ok(keyed.into_iter().map(|(_, task)| task).collect())
    }
}

fn position(seed: u64, task: &TaskId) -> [u8; 32] {
    let digest = Sha256::new().chain_update(seed.to_be_bytes());
    digest.chain_update(task.as_str()).finalize().into()
}

/// A label to record, with its note masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLabel {
    pub choice: u8,
    pub note: Option<String>,
}

impl NewLabel {
    /// Parses the body of `POST /v1/host/touchstone/reviews/{reviewId}/items/{item}/label`.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", &["choice", "note"], Nulls::Absent)?;
        let choice = fields.whole("choice", 0)?;
        let choice = choice.ok_or_else(|| fields.invalid("choice", "is required"))?;
        let choice = u8::try_from(choice).unwrap_or(u8::MAX);
        let note = fields.text_of("note", 0..=MAX_NOTE_CHARS)?;
        let note = note.map(str::trim).filter(|it| !it.is_empty()).map(mask);
        if note
            .as_ref()
            .is_some_and(|it| it.chars().count() > MAX_NOTE_CHARS)
        {
            let long = format!(
                "must be a string of at most {MAX_NOTE_CHARS} characters after credentials are \
                 masked"
            );
            return Err(fields.invalid("note", &long));
        }
        let note = note.map(std::borrow::Cow::into_owned);
        Ok(Self { choice, note })
    }

    /// Checks the choice against the queue's scale.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn check(&self, review: &Review) -> Result<(), Problem> {
        if self.choice <= review.steps {
            return Ok(());
        }
        let bounds = format!("`choice` must be an integer from 0 to {}", review.steps);
        Err(Problem::validation("choice", bounds))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_defaults() {
        let found = NewReview::parse(&json!({"runId": "run_1"})).unwrap();
        assert_eq!(
            found,
            NewReview {
                run: "run_1".into(),
                outcome: None,
                sample: None,
                seed: 0,
                labellers: 2,
                steps: 1,
            }
        );
    }

    #[rstest]
    #[case(json!({}), "runId")]
    #[case(json!({"runId": "run_1", "outcome": "good"}), "outcome")]
    #[case(json!({"runId": "run_1", "sample": 0}), "sample")]
    #[case(json!({"runId": "run_1", "sample": 2001}), "sample")]
    #[case(json!({"runId": "run_1", "labellers": 6}), "labellers")]
    #[case(json!({"runId": "run_1", "labellers": 0}), "labellers")]
    #[case(json!({"runId": "run_1", "steps": 10}), "steps")]
    #[case(json!({"runId": "run_1", "seed": -1}), "seed")]
    fn a_wrong_request_is_refused_by_field(#[case] body: Value, #[case] field: &str) {
        let problem = NewReview::parse(&body).unwrap_err();
        assert_eq!(problem.details["field"], field);
    }

    fn tasks(count: usize) -> Vec<(TaskId, TaskOutcome)> {
        let outcome = |n: usize| match n % 3 {
            0 => TaskOutcome::Passed,
            1 => TaskOutcome::Failed,
            _ => TaskOutcome::Unjudged,
        };
        (0..count)
            .map(|n| (format!("task-{n}").as_str().into(), outcome(n)))
            .collect()
    }

    fn request(change: impl FnOnce(&mut NewReview)) -> NewReview {
        let mut request = NewReview::parse(&json!({"runId": "run_1"})).unwrap();
        change(&mut request);
        request
    }

    #[test]
    fn a_seed_draws_the_same_tasks_in_the_same_order() {
        let drawn = |seed| {
            request(|it| {
                it.seed = seed;
                it.sample = Some(10);
            })
            .choose(tasks(60))
            .unwrap()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_eq!(drawn(1).len(), 10);
        let all = request(|_| ()).choose(tasks(60)).unwrap();
        assert_eq!(all.len(), 60);
        assert_ne!(all.first().unwrap().as_str(), "task-0");
    }

    #[test]
    fn only_tasks_of_the_outcome_are_drawn() {
        let failed = request(|it| it.outcome = Some(TaskOutcome::Failed));
        assert_eq!(failed.choose(tasks(9)).unwrap().len(), 3);
        let none = failed.choose(tasks(1)).unwrap_err();
        assert_eq!(none.details["field"], "outcome");
        let many = request(|_| ()).choose(tasks(2001)).unwrap_err();
        assert_eq!(many.details["field"], "sample");
        let sampled = request(|it| it.sample = Some(2000));
        assert_eq!(sampled.choose(tasks(3000)).unwrap().len(), 2000);
    }

    #[rstest]
    #[case(json!({"choice": 1, "note": " odd "}), Some((1, Some("odd"))))]
    #[case(json!({"choice": 0, "note": " "}), Some((0, None)))]
    #[case(json!({}), None)]
    #[case(json!({"choice": 1.5}), None)]
    #[case(json!({"choice": 1, "note": "x".repeat(2001)}), None)]
    fn a_label_is_a_choice_with_a_note(
        #[case] body: Value,
        #[case] expected: Option<(u8, Option<&str>)>,
    ) {
        let found = NewLabel::parse(&body).ok();
        let found = found.as_ref().map(|it| (it.choice, it.note.as_deref()));
        assert_eq!(found, expected);
    }
}
