//! Assertions about the similarity of an answer to reference texts.
//!
//! ROUGE-N and BLEU compare words: runs of letters and digits, in lower case.

use std::collections::HashMap;

use super::{Evaluator, Finding, NoResult, quoted};
use crate::rules::eval::scoring::EPSILON;
use crate::rules::eval::scoring_document::checks::{
    Levenshtein, MIN_BLEU, RougeMeasure, RougeN, Similarity,
};

/// Steps per byte of a text whose n-grams are counted.
const WORD_STEPS: usize = 64;
/// The longest n-grams of BLEU.
const BLEU_ORDER: usize = 4;
/// Stands for no common n-grams of one length (Chen and Cherry 2014, smoothing 1).
const BLEU_EPSILON: f64 = 0.1;

impl Evaluator<'_> {
    pub(super) fn levenshtein(&self, it: &Levenshtein) -> Result<Finding, NoResult> {
        let text = self.text()?;
        let fold = |text: &str| match it.ignore_case {
            true => text.to_lowercase(),
            false => text.to_owned(),
        };
        let answer = fold(&text);
        let length = answer.chars().count();
        let (mut similarity, mut distance) = (0.0_f64, usize::MAX);
        for reference in it.references().map(fold) {
            let other = reference.chars().count();
            self.spend(length.saturating_mul(other).saturating_add(length + other))?;
            let changes = strsim::levenshtein(&answer, &reference);
            similarity = similarity.max(1.0 - ratio(changes, length.max(other)));
            distance = distance.min(changes);
        }
        let (within, limit) = match it.max_distance {
            Some(max) => (distance <= max as usize, format!("distance at most {max}")),
            None => (true, String::new()),
        };
        let min = it
            .min
            .or(it.max_distance.is_none().then_some(Levenshtein::MIN));
        let enough = min.is_none_or(|min| similarity + EPSILON >= min);
        let mut wanted: Vec<String> = Vec::new();
        wanted.extend(min.map(|min| format!("similarity at least {min}")));
        wanted.extend(Some(limit).filter(|limit| !limit.is_empty()));
        let found = format!("{similarity:.3}, distance {distance}: {}", quoted(&text));
        let expected = format!("Levenshtein {}", wanted.join(", "));
        Ok(measured(
            within && enough,
            similarity,
            it.graded,
            expected,
            found,
        ))
    }

    pub(super) fn rouge_n(&self, it: &RougeN) -> Result<Finding, NoResult> {
        let text = self.text()?;
        let n = it.n.clamp(1, 4) as usize;
        self.spend(text.len().saturating_mul(WORD_STEPS))?;
        let answer = words(&text);
        let mut best = 0.0_f64;
        for reference in it.references() {
            self.spend(
                reference
                    .len()
                    .saturating_add(text.len())
                    .saturating_mul(WORD_STEPS),
            )?;
            best = best.max(rouge(&answer, &words(reference), n, it.measure));
        }
        let min = it.min.unwrap_or(RougeN::MIN);
        let measure = match it.measure {
            RougeMeasure::Recall => "recall",
            RougeMeasure::Precision => "precision",
            RougeMeasure::F1 => "F1",
        };
        let expected = format!("ROUGE-{n} {measure} at least {min}");
        let found = format!("{best:.3}: {}", quoted(&text));
        Ok(measured(
            best + EPSILON >= min,
            best,
            it.graded,
            expected,
            found,
        ))
    }

    pub(super) fn bleu(&self, it: &Similarity) -> Result<Finding, NoResult> {
        let text = self.text()?;
        let mut references = Vec::new();
        self.spend(text.len().saturating_mul(WORD_STEPS))?;
        for reference in it.references() {
            self.spend(
                reference
                    .len()
                    .saturating_add(text.len())
                    .saturating_mul(WORD_STEPS),
            )?;
            references.push(words(reference));
        }
        let score = bleu(&words(&text), &references);
        let min = it.min.unwrap_or(MIN_BLEU);
        let expected = format!("BLEU at least {min}");
        let found = format!("{score:.3}: {}", quoted(&text));
        Ok(measured(
            score + EPSILON >= min,
            score,
            it.graded,
            expected,
            found,
        ))
    }
}

fn measured(holds: bool, value: f64, graded: bool, expected: String, found: String) -> Finding {
    Finding {
        score: graded.then_some(value),
        value: Some(value),
        ..Finding::new(holds, expected, Some(found))
    }
}

#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
fn ratio(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn n_grams(words: &[String], n: usize) -> HashMap<&[String], usize> {
    let mut counts = HashMap::new();
    for gram in words.windows(n) {
        *counts.entry(gram).or_default() += 1;
    }
    counts
}

/// ROUGE-N (Lin 2004, "ROUGE: A package for automatic evaluation of summaries").
fn rouge(answer: &[String], reference: &[String], n: usize, measure: RougeMeasure) -> f64 {
    let (of_answer, of_reference) = (n_grams(answer, n), n_grams(reference, n));
    let common: usize = of_answer
        .iter()
        .map(|(gram, count)| *count.min(of_reference.get(gram).unwrap_or(&0)))
        .sum();
    let count = |words: &[String]| (words.len() + 1).saturating_sub(n);
    let recall = ratio(common, count(reference));
    let precision = ratio(common, count(answer));
    match measure {
        RougeMeasure::Recall => recall,
        RougeMeasure::Precision => precision,
        RougeMeasure::F1 if recall + precision > 0.0 => {
            2.0 * recall * precision / (recall + precision)
        }
        RougeMeasure::F1 => 0.0,
    }
}

/// BLEU of one sentence (Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine
/// translation"): the geometric mean of the clipped n-gram precisions for n up to 4 and up to the
/// answer's length, times the brevity penalty.
fn bleu(answer: &[String], references: &[Vec<String>]) -> f64 {
    let order = BLEU_ORDER.min(answer.len());
    if order == 0 || references.iter().all(Vec::is_empty) {
        return 0.0;
    }
    let mut logs = 0.0;
    for n in 1..=order {
        let of_references: Vec<_> = references.iter().map(|it| n_grams(it, n)).collect();
        let clipped = |(gram, count): (&&[String], &usize)| {
            let most = of_references.iter().filter_map(|it| it.get(*gram)).max();
            (*count).min(most.copied().unwrap_or(0))
        };
        let common: usize = n_grams(answer, n).iter().map(clipped).sum();
        let all = answer.len() + 1 - n;
        let precision = match (common, n) {
            // Nothing in common at all.
            (0, 1) => return 0.0,
            (0, _) => BLEU_EPSILON * ratio(1, all),
            (common, _) => ratio(common, all),
        };
        logs += precision.ln();
    }
    let closest = references
        .iter()
        .map(Vec::len)
        .min_by_key(|length| (length.abs_diff(answer.len()), *length))
        .unwrap_or_default();
    let penalty = match answer.len() >= closest {
        true => 1.0,
        false => (1.0 - ratio(closest, answer.len())).exp(),
    };
    (penalty * (logs / ratio(order, 1)).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn rouge_has_the_values_of_the_definition() {
        let answer = words("The cat was found under the bed.");
        let reference = words("the cat was under the bed");
        near(rouge(&answer, &reference, 1, RougeMeasure::Recall), 1.0);
        near(
            rouge(&answer, &reference, 1, RougeMeasure::Precision),
            6.0 / 7.0,
        );
        near(
            rouge(&answer, &reference, 2, RougeMeasure::Recall),
            4.0 / 5.0,
        );
        near(
            rouge(&answer, &reference, 2, RougeMeasure::Precision),
            4.0 / 6.0,
        );
        near(rouge(&answer, &reference, 2, RougeMeasure::F1), 8.0 / 11.0);
    }

    #[test]
    fn repeated_words_are_counted_at_most_as_often_as_in_the_reference() {
        let answer = words("the the the the the the the");
        let reference = words("the cat is on the mat");
        near(
            rouge(&answer, &reference, 1, RougeMeasure::Precision),
            2.0 / 7.0,
        );
    }

    /// The example of Papineni et al., with the value that NLTK documents for it.
    #[test]
    fn bleu_has_the_published_value() {
        let answer = words(
            "It is a guide to action which ensures that the military always obeys the commands of \
             the party",
        );
        let references = [
            words(
                "It is a guide to action that ensures that the military will forever heed Party \
                 commands",
            ),
            words(
                "It is the guiding principle which guarantees the military forces always being \
                 under the command of the Party",
            ),
            words(
                "It is the practical guide for the army always to heed the directions of the party",
            ),
        ];
        assert!((bleu(&answer, &references) - 0.504_566_684).abs() < 1e-6);
    }

    #[test]
    fn bleu_of_equal_short_texts_is_1() {
        near(bleu(&words("Paris"), &[words("paris.")]), 1.0);
        near(bleu(&words("London"), &[words("Paris")]), 0.0);
        near(bleu(&[], &[words("Paris")]), 0.0);
    }

    #[test]
    fn bleu_penalizes_brevity() {
        // All 3 unigrams to trigrams match; the reference is twice as long.
        let score = bleu(&words("a b c"), &[words("a b c d e f")]);
        near(score, (1.0_f64 - 2.0).exp());
    }
}
