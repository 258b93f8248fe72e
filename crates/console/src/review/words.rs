//! Scales, choices and agreement in words.

use serde_json::Value;

use crate::page::text::{cut, text_or_json};
use touchstone_runs::rules::eval::report::TaskOutcome;
use touchstone_runs::rules::review::Review;
use touchstone_runs::rules::review::agreement::{Meaning, ReviewAgreement};

/// Longest shown text of an answer, in characters.
const LONGEST: usize = 20_000;

/// A choice of a person.
pub struct Choice {
    pub value: u8,
    pub text: String,
    /// The key that chooses it.
    pub key: String,
    pub is_chosen: bool,
}

/// The choices of a queue; the best one comes first if there are two.
pub fn choices(steps: u8, chosen: Option<u8>) -> Vec<Choice> {
    let choice = |value, text, key| Choice {
        value,
        text,
        key,
        is_chosen: chosen == Some(value),
    };
    match steps {
        0 | 1 => vec![
            choice(1, "Pass".to_owned(), "Y".to_owned()),
            choice(0, "Fail".to_owned(), "N".to_owned()),
        ],
        steps => (0..=steps)
            .map(|it| choice(it, score(it, steps), it.to_string()))
            .collect(),
    }
}

fn score(choice: u8, steps: u8) -> String {
    format!("{:.2}", f64::from(choice) / f64::from(steps))
}

/// A choice as people read it.
pub fn chosen(choice: u8, steps: u8) -> String {
    match (steps, choice) {
        (0 | 1, 0) => "Fail".to_owned(),
        (0 | 1, _) => "Pass".to_owned(),
        _ => score(choice, steps),
    }
}

pub fn scale(review: &Review) -> String {
    match review.steps {
        0 | 1 => "Pass or fail".to_owned(),
        steps => format!("Score from 0 to 1 in {steps} steps"),
    }
}

/// Which answers the queue has.
pub fn drawn(review: &Review) -> String {
    let kind = match review.outcome {
        None => "All answers",
        Some(TaskOutcome::Passed) => "Answers that passed",
        Some(TaskOutcome::Failed) => "Answers that failed",
        Some(TaskOutcome::Unjudged) => "Answers without a judgement",
    };
    match review.sample {
        None => format!("{kind}, in the order of seed {}", review.seed),
        Some(sample) => format!("{kind}, {sample} drawn with seed {}", review.seed),
    }
}

/// The meaning of the agreement.
pub fn meaning(agreement: &ReviewAgreement) -> &'static str {
    match agreement.meaning {
        Meaning::NothingToCompare => {
            "There is nothing to compare yet: no answer has labels of two people."
        }
        Meaning::TooFew => "With fewer than ten answers, chance decides these numbers.",
        Meaning::Constant => {
            "All answers have the same label. That agreement says little: it can be chance."
        }
        Meaning::Reliable => "People agree far more than by chance. You can rely on the labels.",
        Meaning::Tentative => {
            "People agree more than by chance, but not always. Draw only cautious conclusions."
        }
        Meaning::Unreliable => {
            "People agree too little to rely on the labels. Discuss the answers below, and write \
             down what a good answer is."
        }
    }
}

/// A share as a percentage.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |it| format!("{:.0} %", it * 100.0))
}

pub fn coefficient(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"))
}

/// A value as text or indented JSON, of limited length.
pub fn shown(value: &Value) -> String {
    let parsed = value
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .filter(|it| it.is_object() || it.is_array());
    lines(&text_or_json(parsed.as_ref().unwrap_or(value)))
}

/// A text without control characters, with its line breaks.
pub fn lines(text: &str) -> String {
    cut(text, LONGEST, |left| format!("\n… {left} more characters"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_choice_has_a_key() {
        let two: Vec<_> = choices(1, Some(0))
            .into_iter()
            .map(|it| (it.key, it.is_chosen))
            .collect();
        assert_eq!(two, [("Y".to_owned(), false), ("N".to_owned(), true)]);
        let five: Vec<_> = choices(4, None)
            .into_iter()
            .map(|it| (it.key, it.text))
            .collect();
        assert_eq!(five[1], ("1".to_owned(), "0.25".to_owned()));
        assert_eq!(
            (five.len(), chosen(4, 4).as_str(), chosen(1, 1).as_str()),
            (5, "1.00", "Pass")
        );
    }

    #[test]
    fn json_is_indented_and_a_long_text_is_cut() {
        assert_eq!(shown(&json!("{\"a\":1}")), "{\n  \"a\": 1\n}");
        assert_eq!(shown(&json!("plain")), "plain");
        assert!(shown(&json!("x".repeat(30_000))).ends_with("… 10000 more characters"));
    }
}
