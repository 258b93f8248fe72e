//! An attempt to compare a judge with people: what it may cost, how far it is, and what came of it.
//!
//! Hundreds of samples take a judge longer than any request may wait, and are paid for one by one. So an attempt is a record
//! of its own that is looked at while it is under way; it holds numbers, the name of a sample that got no verdict, and no word
//! of what is judged.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calibration::{Calibration, Sample};
use super::prompt::{Exhibit, quoted};
use super::rubric;
use crate::domain::agent::{ModelReply, octets_of, usage_from_size};
use crate::domain::ids::TaskId;
use crate::domain::money::{NanoUsd, TokenPrice};
use crate::domain::run::record::JudgePin;
use crate::protocol::error::{ErrorEnvelope, Problem};
use crate::protocol::openwop::suite::{Criterion, Task};

/// What an attempt may cost unless its caller says otherwise: some hundred samples of a large model.
pub const USUAL_MAX_COST: NanoUsd = NanoUsd(5_000_000_000);

/// How it stands with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The judge is judging.
    Running,
    /// Every sample is judged; the calibration is kept.
    Completed,
    /// It ended without one.
    Failed,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its id.
    pub calibration_id: String,
    /// How it stands.
    pub status: Status,
    /// Which judge.
    #[serde(flatten)]
    pub judge: JudgePin,
    /// The suite whose rubrics it applies.
    pub suite: String,
    /// Samples to judge.
    pub samples: usize,
    /// Those that are judged.
    pub judged: usize,
    /// What asking the judge has cost so far.
    pub cost_usd: NanoUsd,
    /// What it may cost.
    pub max_cost_usd: NanoUsd,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Why nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ErrorEnvelope>,
}

impl Attempt {
    /// Ends it.
    pub fn end(&mut self, outcome: Result<Calibration, Problem>, at: Timestamp) {
        self.ended_at = Some(at);
        match outcome {
            Ok(calibration) => {
                self.status = Status::Completed;
                self.calibration = Some(calibration);
            }
            Err(problem) => {
                self.status = Status::Failed;
                self.failure = Some(problem.envelope());
            }
        }
    }
}

/// What reading all of the questions will cost, at the usual size of a token: the answers come on top.
///
/// The questions of a task are put together once, about no answer; what is judged is only measured.
pub fn likely_cost(paired: &[(&Sample, &Task)], price: TokenPrice) -> NanoUsd {
    let mut of_tasks: HashMap<&TaskId, Vec<usize>> = HashMap::new();
    let mut cost = NanoUsd::ZERO;
    for (sample, task) in paired {
        let about_nothing = of_tasks
            .entry(&task.task_id)
            .or_insert_with(|| questions(task));
        let answer = quoted(&sample.output).len();
        for octets in about_nothing {
            let read = usage_from_size(*octets + answer, &ModelReply::default());
            cost = cost + price.cost(read.input, 0);
        }
    }
    cost
}

/// Octets of a question about each criterion of a task and an answer that is empty.
fn questions(task: &Task) -> Vec<usize> {
    let output = Value::String(String::new());
    let octets = |criterion: &Criterion| {
        let exhibit = Exhibit {
            criterion: &criterion.criterion,
            input: &task.input,
            output: &output,
        };
        exhibit.messages().iter().map(octets_of).sum()
    };
    let criteria = rubric(task).unwrap_or_default();
    criteria.iter().map(octets).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn every_criterion_of_every_sample_is_read() {
        let task: Task = from_value(json!({
            "taskId": "t", "input": "i", "expected": {"kind": "rubric", "rubric": [
                {"criterion": "polite", "weight": 1.0}, {"criterion": "short", "weight": 1.0}]},
        }))
        .unwrap();
        let sample = |length: usize| Sample {
            item: length.to_string(),
            task: None,
            output: json!("x".repeat(length)),
            human: vec![1.0],
        };
        let (short, long) = (sample(1), sample(4001));
        let price = TokenPrice::per_million(1.0, 1000.0);
        let one = likely_cost(&[(&short, &task)], price);
        let two = likely_cost(&[(&short, &task), (&long, &task)], price);
        // 4,000 octets more are 1,000 tokens more, for each of two criteria; what is answered is not known.
        assert_eq!(two.0 - 2 * one.0, 2 * 1000 * 1000);
        assert_eq!(
            likely_cost(&[(&long, &task)], TokenPrice::per_million(0.0, 0.0)),
            NanoUsd::ZERO
        );
    }
}
