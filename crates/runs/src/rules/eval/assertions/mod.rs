//! Evaluates the assertions of a scoring document over what is known about an answer.
//!
//! Everything evaluated here is in the run's log, so the same results are computed again whenever a
//! task is shown.

mod external;
mod json;
mod similarity;
mod text;
mod tools;
pub mod turns;

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scoring::EPSILON;
use super::scoring_document::checks::{Check, Combined};
use super::scoring_document::limits::MAX_STEPS;
use super::scoring_document::scope::{Part, Scope};
use super::scoring_document::{Assertion, EffectiveScoring, Place};
pub use external::{External, JUDGES};
pub use tools::{ToolCall, mark_answered};
use touchstone_kit::money::NanoUsd;
use turns::TurnLog;

/// Characters of a value in a result.
const SHOWN_CHARS: usize = 200;

/// The known facts about an answer.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub answer: &'a Value,
    /// In the order of the calls, also refused ones.
    pub calls: &'a [ToolCall],
    pub latency_ms: Option<u64>,
    /// Cost, unless it is unknown, and tokens of the attempt that gave the answer, without the
    /// judge's.
    pub cost: Option<NanoUsd>,
    pub tokens: u64,
    /// How the answer meets the suite's own expectation; absent if no assertion refers to it, or a
    /// judge has not decided it.
    pub expected: Option<Expectation>,
    /// Decisions from outside of this host.
    pub external: External<'a>,
}

/// How an answer meets the suite's own expectation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// 0.0..=1.0.
    pub score: f64,
    pub passed: bool,
}

/// The result of one assertion. It quotes the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionResult {
    #[serde(rename = "type")]
    pub kind: String,
    /// False if nothing was decided.
    pub holds: bool,
    /// Whether the assertion does not apply to the run, and does not count.
    #[serde(
        default,
        rename = "leftOut",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_left_out: bool,
    /// Whether a decision from outside of this host is missing.
    #[serde(
        default,
        rename = "undecided",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_undecided: bool,
    /// Its part of the task's score before it is weighted, 0.0..=1.0.
    pub score: f64,
    /// The measured value, 0.0..=1.0: for a similarity, the similarity even if the score is 1 or 0.
    pub value: f64,
    pub weight: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    pub expected: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<Self>,
}

/// The result of all assertions of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// 0.0..=1.0.
    pub score: f64,
    pub passed: bool,
    pub assertions: Vec<AssertionResult>,
    /// Whether the evaluation was given up because the answer is too large for these assertions.
    /// The task then fails.
    pub gave_up: bool,
    /// Whether a decision from outside of this host is missing, so that there is no result.
    pub undecided: bool,
}

impl Evaluation {
    /// Whether each assertion of the task holds.
    pub fn held(&self) -> Vec<bool> {
        self.assertions.iter().map(|it| it.holds).collect()
    }

    /// Number of assertions that do not count.
    pub fn left_out(&self) -> u32 {
        let left_out = self.assertions.iter().filter(|it| it.is_left_out).count();
        u32::try_from(left_out).unwrap_or(u32::MAX)
    }

    /// The measured values by name; the mean, where assertions share a name.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        collect(&self.assertions, &mut sums);
        let means = sums.into_iter();
        means
            .map(|(name, (sum, count))| (name, (sum / count).clamp(0.0, 1.0)))
            .collect()
    }
}

fn collect(results: &[AssertionResult], sums: &mut BTreeMap<String, (f64, f64)>) {
    for result in results {
        if let Some(name) = &result.metric {
            let (sum, count) = sums.entry(name.clone()).or_default();
            *sum += result.value;
            *count += 1.0;
        }
        collect(&result.assertions, sums);
    }
}

/// Evaluates the assertions of a task with one answer.
#[cfg(test)]
pub fn evaluate(scoring: &EffectiveScoring<'_>, observed: &Observed<'_>) -> Evaluation {
    evaluate_turns(scoring, observed, &Value::Null, &TurnLog::default())
}

/// Evaluates the assertions of a task with this input and these turns.
pub fn evaluate_turns(
    scoring: &EffectiveScoring<'_>,
    observed: &Observed<'_>,
    input: &Value,
    turns: &TurnLog,
) -> Evaluation {
    let steps = Cell::new(MAX_STEPS);
    let results: Result<Vec<_>, NoResult> = results(
        scoring,
        &TaskFacts {
            observed,
            input,
            turns,
        },
        &steps,
    )
    .collect();
    match results {
        Ok(assertions) => Evaluation {
            score: weighted(&assertions),
            passed: reaches(&assertions, scoring.threshold),
            assertions,
            ..Evaluation::default()
        },
        Err(NoResult::TooManySteps) => Evaluation {
            gave_up: true,
            ..Evaluation::default()
        },
        Err(NoResult::Undecided) => Evaluation {
            undecided: true,
            ..Evaluation::default()
        },
    }
}

/// The results of an unjudged task, as far as its assertions are decided. Empty if the evaluation
/// needed too many steps.
pub fn evaluate_decided(
    scoring: &EffectiveScoring<'_>,
    observed: &Observed<'_>,
    input: &Value,
    turns: &TurnLog,
) -> Vec<AssertionResult> {
    let steps = Cell::new(MAX_STEPS);
    let task = TaskFacts {
        observed,
        input,
        turns,
    };
    let results = results(scoring, &task, &steps);
    let decided = scoring.assertions.iter().zip(results);
    let decided = decided.map(|(assertion, result)| match result {
        Ok(result) => Some(result),
        Err(NoResult::Undecided) => Some(external::undecided(assertion)),
        Err(NoResult::TooManySteps) => None,
    });
    decided.collect::<Option<_>>().unwrap_or_default()
}

/// The result of each assertion of the task.
fn results<'a>(
    scoring: &'a EffectiveScoring<'_>,
    task: &'a TaskFacts<'_>,
    steps: &'a Cell<u64>,
) -> impl Iterator<Item = Result<AssertionResult, NoResult>> {
    let evaluator = Evaluator {
        observed: task.observed,
        task,
        steps,
    };
    let assertions = scoring.assertions.iter().enumerate();
    assertions.map(move |(index, assertion)| evaluator.result(assertion, Place::top(index)))
}

/// Why an assertion has no result.
#[derive(Debug)]
enum NoResult {
    /// The evaluation would take too long.
    TooManySteps,
    /// It is decided outside of this host, and no decision is recorded.
    Undecided,
}

/// The finding of a check.
struct Finding {
    holds: bool,
    /// Absent if the score is 1 or 0.
    score: Option<f64>,
    /// Absent if it is the score.
    value: Option<f64>,
    expected: String,
    found: Option<String>,
    assertions: Vec<AssertionResult>,
}

impl Finding {
    fn new(holds: bool, expected: impl Into<String>, found: Option<String>) -> Self {
        Self {
            holds,
            score: None,
            value: None,
            expected: expected.into(),
            found,
            assertions: Vec::new(),
        }
    }
}

struct Evaluator<'a> {
    /// The facts that the assertion checks.
    observed: &'a Observed<'a>,
    task: &'a TaskFacts<'a>,
    steps: &'a Cell<u64>,
}

/// The whole task.
struct TaskFacts<'a> {
    observed: &'a Observed<'a>,
    input: &'a Value,
    turns: &'a TurnLog,
}

impl Evaluator<'_> {
    /// Accounts for work before it is done.
    fn spend(&self, steps: usize) -> Result<(), NoResult> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let left = self.steps.get().checked_sub(steps);
        let left = left.ok_or(NoResult::TooManySteps)?;
        self.steps.set(left);
        Ok(())
    }

    /// Checks what an assertion with this scope looks at; `None` if it did not take place.
    fn check_in(
        &self,
        scope: Scope,
        check: &Check,
        place: Place<'_>,
    ) -> Result<Option<Finding>, NoResult> {
        let task = self.task;
        let whole = task.observed;
        let Ok(seen) = task.turns.seen(scope, task.input, whole.answer) else {
            return Ok(None);
        };
        let observed = Observed {
            answer: &seen.answer,
            calls: whole.calls.get(seen.calls).unwrap_or_default(),
            ..*whole
        };
        let evaluator = Evaluator {
            observed: &observed,
            ..*self
        };
        evaluator.check(check, place).map(Some)
    }

    fn result(&self, assertion: &Assertion, place: Place<'_>) -> Result<AssertionResult, NoResult> {
        if assertion.check.needs_baseline() && !self.observed.external.has_baseline {
            return Ok(external::left_out(assertion));
        }
        let found = match assertion.scope() {
            None => self.check(&assertion.check, place)?,
            Some(scope) => match self.check_in(scope, &assertion.check, place)? {
                Some(found) => found,
                None => return Ok(missing_turn(assertion)),
            },
        };
        let as_score = |holds: bool| if holds { 1.0 } else { 0.0 };
        let mut holds = found.holds;
        let mut score = found.score.unwrap_or_else(|| as_score(holds));
        let mut value = found.value.unwrap_or(score);
        let mut expected = found.expected;
        if let Some(scope) = assertion.scope() {
            expected = format!("{}: {expected}", part_seen(scope));
        }
        if assertion.not {
            holds = !holds;
            score = 1.0 - score;
            value = 1.0 - value;
            expected = format!("not: {expected}");
        }
        Ok(AssertionResult {
            kind: assertion.check.name().to_owned(),
            holds,
            is_left_out: false,
            is_undecided: false,
            score,
            value,
            weight: assertion.weight,
            metric: assertion.metric.clone(),
            expected,
            found: found.found,
            assertions: found.assertions,
        })
    }

    fn check(&self, check: &Check, place: Place<'_>) -> Result<Finding, NoResult> {
        match check {
            Check::Expected => self.expected(),
            Check::Equals(it) => self.equals(it),
            Check::Contains(it) => self.contains(&it.value, it.ignore_case),
            Check::Icontains(it) => self.contains(&it.value, true),
            Check::ContainsAny(it) => self.contains_some(it, false),
            Check::ContainsAll(it) => self.contains_some(it, true),
            Check::StartsWith(it) => self.at_end(it, true),
            Check::EndsWith(it) => self.at_end(it, false),
            Check::Regex(it) => self.regex(it),
            Check::IsJson(it) => self.is_json(it),
            Check::JsonPath(it) => self.json_path(it),
            Check::JsonPointer(it) => self.json_pointer(it),
            Check::Number(it) => self.number(it),
            Check::Levenshtein(it) => self.levenshtein(it),
            Check::RougeN(it) => self.rouge_n(it),
            Check::Bleu(it) => self.bleu(it),
            Check::Similar(it) => self.similar(it, place),
            Check::Latency(it) => Ok(self.latency(it.max_ms)),
            Check::Cost(it) => Ok(self.cost(it.max_usd)),
            Check::Tokens(it) => Ok(self.tokens(it.max)),
            Check::ToolCalled(it) => Ok(tools::called(it, self.observed.calls)),
            Check::ToolsCalledInOrder(it) => Ok(tools::in_order(it, self.observed.calls)),
            Check::ToolNotCalled(it) => Ok(tools::not_called(it, self.observed.calls)),
            Check::Refusal => self.refusal(),
            Check::ClosedQuestion(it) => self.closed_question(it, place),
            Check::Rubric(it) => self.rubric(it, place),
            Check::Factuality(it) => self.factuality(it, place),
            Check::AnswerRelevance(it) => {
                self.measure("statements are relevant", it.min, it.graded, place)
            }
            Check::Faithfulness(it) => self.measure(
                "statements follow from the context",
                it.min,
                it.graded,
                place,
            ),
            Check::ContextPrecision(it) => {
                self.measure("useful context comes first", it.min, it.graded, place)
            }
            Check::ContextRecall(it) => self.measure(
                "statements of the reference follow from the context",
                it.min,
                it.graded,
                place,
            ),
            Check::ContextRelevance(it) => self.measure(
                "sentences of the context are needed",
                it.min,
                it.graded,
                place,
            ),
            Check::PreferredToBaseline(it) => self.preferred(it, place),
            Check::Command(it) => self.command(it, place),
            Check::All(it) => self.all(it, place),
            Check::Any(it) => self.any(it, place),
            Check::None(it) => self.none(&it.assertions, place),
        }
    }

    fn expected(&self) -> Result<Finding, NoResult> {
        let expectation = self.observed.expected.ok_or(NoResult::Undecided)?;
        let holds = expectation.passed;
        Ok(Finding {
            score: Some(expectation.score),
            ..Finding::new(holds, "the expectation of the suite", None)
        })
    }

    fn latency(&self, max_ms: u64) -> Finding {
        let found = self.observed.latency_ms;
        let holds = found.is_some_and(|ms| ms <= max_ms);
        let found = found.map_or_else(|| "not measured".to_owned(), |ms| format!("{ms} ms"));
        Finding::new(holds, format!("at most {max_ms} ms"), Some(found))
    }

    fn cost(&self, max_usd: f64) -> Finding {
        let cost = self.observed.cost;
        let max = NanoUsd::from_usd(max_usd);
        let holds = cost.is_some_and(|cost| max.is_none_or(|max| cost <= max));
        let found = cost.map_or_else(|| "unknown".to_owned(), |it| format!("{} USD", it.usd()));
        Finding::new(holds, format!("at most {max_usd} USD"), Some(found))
    }

    fn tokens(&self, max: u64) -> Finding {
        let tokens = self.observed.tokens;
        let found = format!("{tokens} tokens");
        Finding::new(tokens <= max, format!("at most {max} tokens"), Some(found))
    }

    fn results(
        &self,
        assertions: &[Assertion],
        place: Place<'_>,
    ) -> Result<Vec<AssertionResult>, NoResult> {
        let nested = assertions.iter().enumerate();
        nested
            .map(|(index, it)| self.result(it, place.nested(index)))
            .collect()
    }

    fn all(&self, combined: &Combined, place: Place<'_>) -> Result<Finding, NoResult> {
        let results = self.results(&combined.assertions, place)?;
        let holds = reaches(&results, combined.threshold);
        let expected = match combined.threshold {
            Some(threshold) => format!("a weighted mean of at least {threshold}"),
            None => "every assertion holds".to_owned(),
        };
        Ok(combination(holds, weighted(&results), expected, results))
    }

    fn any(&self, combined: &Combined, place: Place<'_>) -> Result<Finding, NoResult> {
        let results = self.results(&combined.assertions, place)?;
        let best = best(&results);
        let holds = match combined.threshold {
            Some(threshold) => best + EPSILON >= threshold,
            None => counting(&results).any(|it| it.holds),
        };
        let expected = match combined.threshold {
            Some(threshold) => format!("an assertion with a score of at least {threshold}"),
            None => "one or more assertions hold".to_owned(),
        };
        Ok(combination(holds, best, expected, results))
    }

    fn none(&self, assertions: &[Assertion], place: Place<'_>) -> Result<Finding, NoResult> {
        let results = self.results(assertions, place)?;
        let holds = !counting(&results).any(|it| it.holds);
        let score = 1.0 - best(&results);
        Ok(combination(
            holds,
            score,
            "no assertion holds".to_owned(),
            results,
        ))
    }
}

/// The result of an assertion about a turn that did not take place: it does not hold, also with
/// `not`, because nothing was checked.
fn missing_turn(assertion: &Assertion) -> AssertionResult {
    let place = assertion.scope().map(part_seen).unwrap_or_default();
    AssertionResult {
        kind: assertion.check.name().to_owned(),
        holds: false,
        is_left_out: false,
        is_undecided: false,
        score: 0.0,
        value: 0.0,
        weight: assertion.weight,
        metric: assertion.metric.clone(),
        expected: format!("{place} takes place"),
        found: Some("the conversation was shorter".to_owned()),
        assertions: Vec::new(),
    }
}

fn part_seen(scope: Scope) -> String {
    match scope {
        Scope::Turn(-1) => "last turn".to_owned(),
        Scope::Turn(number) if number < 0 => format!("turn {number} from the end"),
        Scope::Turn(number) => format!("turn {number}"),
        Scope::Part(Part::Answer) => "last answer".to_owned(),
        Scope::Part(Part::Answers) => "all answers".to_owned(),
        Scope::Part(Part::Transcript) => "transcript".to_owned(),
    }
}

fn combination(
    holds: bool,
    score: f64,
    expected: String,
    assertions: Vec<AssertionResult>,
) -> Finding {
    let held = assertions.iter().filter(|it| it.holds).count();
    let found = format!("{held} of {} hold", assertions.len());
    Finding {
        score: Some(score),
        assertions,
        ..Finding::new(holds, expected, Some(found))
    }
}

/// The results that count.
fn counting(results: &[AssertionResult]) -> impl Iterator<Item = &AssertionResult> {
    results.iter().filter(|it| it.weight > 0.0)
}

/// The highest score of those that count.
fn best(results: &[AssertionResult]) -> f64 {
    counting(results).map(|it| it.score).fold(0.0, f64::max)
}

/// The mean of the scores by weight. Weights are scaled by the largest one, so that no sum
/// overflows.
fn weighted(results: &[AssertionResult]) -> f64 {
    let largest = results.iter().map(|it| it.weight).fold(0.0, f64::max);
    if largest <= 0.0 {
        return 0.0;
    }
    let share = |it: &AssertionResult| it.weight / largest;
    let total: f64 = results.iter().map(share).sum();
    let sum: f64 = results.iter().map(|it| share(it) * it.score).sum();
    (sum / total).clamp(0.0, 1.0)
}

fn reaches(results: &[AssertionResult], threshold: Option<f64>) -> bool {
    match threshold {
        Some(threshold) => weighted(results) + EPSILON >= threshold,
        None => counting(results).all(|it| it.holds),
    }
}

/// A value in a result.
fn shown(value: &Value) -> String {
    clipped(&value.to_string())
}

fn quoted(text: &str) -> String {
    shown(&Value::from(clipped(text)))
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod external_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
