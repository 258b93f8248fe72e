//! A calibration attempt: its cost limit, progress and result.
//!
//! Judging hundreds of samples takes longer than a request may wait, and each sample costs money.
//! An attempt is therefore a separate record that can be read while it runs. It contains numbers
//! and the name of a sample without a verdict, but no task content.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calibration::{Calibration, Sample};
use crate::rules::eval::judged::parts::JudgedParts;
use crate::rules::eval::scoring_document::{Assertion, ScoringDocument};
use crate::rules::run::record::JudgePin;
use touchstone_agents::rules::judging::prompt::{JudgedTexts, quoted};
use touchstone_agents::rules::{ModelReply, octets_of, usage_from_size};
use touchstone_kit::error::{ErrorEnvelope, Problem};
use touchstone_kit::ids::TaskId;
use touchstone_kit::json;
use touchstone_kit::money::{NanoUsd, TokenPrice};
use touchstone_openwop::suite::{Criterion, Task};

/// The default cost limit of an attempt: some hundred samples with a large model.
pub const USUAL_MAX_COST: NanoUsd = NanoUsd(5_000_000_000);

/// Status of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The judge is judging samples.
    Running,
    /// Every sample is judged, and the calibration is stored.
    Completed,
    /// It ended without a calibration.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub calibration_id: String,
    pub status: Status,
    /// The judge that is calibrated.
    #[serde(flatten)]
    pub judge: JudgePin,
    /// The suite that contains the rubrics.
    pub suite: String,
    /// Number of samples.
    pub samples: usize,
    /// Number of judged samples.
    pub judged: usize,
    /// Cost of the judge so far; absent if its price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// The cost limit.
    pub max_cost_usd: NanoUsd,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The result, once it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ErrorEnvelope>,
}

impl Attempt {
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

/// Estimated cost of the prompts, at the usual size of a token; the answers cost extra.
///
/// The prompts of a task are built once, without an answer; the size of each answer is only added.
pub fn likely_cost(
    paired: &[(&Sample, &Task)],
    scoring: Option<&ScoringDocument>,
    price: TokenPrice,
) -> NanoUsd {
    let mut of_tasks: HashMap<&TaskId, Vec<usize>> = HashMap::new();
    let mut cost = NanoUsd::ZERO;
    for (sample, task) in paired {
        let about_nothing = of_tasks
            .entry(&task.task_id)
            .or_insert_with(|| questions(task, scoring));
        let answer = quoted(&sample.output).len();
        for bytes in about_nothing {
            let read = usage_from_size(*bytes + answer, &ModelReply::default());
            cost = cost + price.cost(read.input, 0);
        }
    }
    cost
}

/// Size in bytes of the prompts for each criterion of a task, with an empty answer.
fn questions(task: &Task, scoring: Option<&ScoringDocument>) -> Vec<usize> {
    let output = Value::String(String::new());
    let bytes = |criterion: &Criterion| {
        let exhibit = JudgedTexts {
            criterion: &criterion.criterion,
            input: &task.input,
            output: &output,
        };
        exhibit.messages().iter().map(octets_of).sum()
    };
    let parts = JudgedParts::of(task, scoring);
    let criteria = parts.rubric.iter().map(bytes);
    // The questions of other forms differ in size; a criterion's is a lower limit of most.
    let of_assertion = |assertion: &Assertion| {
        let text = json::canonical_text(&serde_json::json!(assertion.check));
        bytes(&Criterion {
            criterion: text,
            weight: 1.0,
        })
    };
    let assertions = parts.assertions.iter().map(|(_, it)| of_assertion(it));
    criteria.chain(assertions).collect()
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
            tool_results: None,
            baseline: None,
        };
        let (short, long) = (sample(1), sample(4001));
        let price = TokenPrice::per_million(1.0, 1000.0);
        let one = likely_cost(&[(&short, &task)], None, price);
        let two = likely_cost(&[(&short, &task), (&long, &task)], None, price);
        // 4,000 bytes more are 1,000 tokens more, for each of two criteria; the size of the replies
        // is unknown.
        assert_eq!(two.0 - 2 * one.0, 2 * 1000 * 1000);
        assert_eq!(
            likely_cost(&[(&long, &task)], None, TokenPrice::per_million(0.0, 0.0)),
            NanoUsd::ZERO
        );
    }
}
