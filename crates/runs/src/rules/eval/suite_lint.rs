//! Advice about valid suites: likely mistakes that make a suite measure something else, or less,
//! than its author intends.
//!
//! [`suite_rules`](super::suite_rules) defines validity; everything here is advice.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::safety::probe::descriptions;
use super::scoring::{DEFAULT_PASS_SCORE, tasks};
use super::scoring_document::ScoringDocument;
use super::statistics::perfect_run_shows;
use super::statistics::unshown::NEVER_SHOWN;
use touchstone_kit::json::canonical_text;
use touchstone_kit::statistics::minimum_detectable_effect;
use touchstone_openwop::suite::{AgentEvalSuite, Criterion, EvalMode, ExpectedKind, Task};

/// Shorter answers occur in a text by chance.
const MIN_ANSWER_CHARS: usize = 3;
/// Tolerance of a sum of weights around 1.
const ROUNDING: f64 = 1e-6;
/// A change of the score that authors usually want to detect.
const NOTICEABLE: f64 = 0.1;
/// The largest standard deviation of scores from 0 to 1 between tasks.
const WIDEST_DEVIATION: f64 = 0.5;
const ALPHA: f64 = 0.05;
const POWER: f64 = 0.8;
/// Larger numbers of tasks are not suggested.
const MOST_TASKS: usize = 1_000_000;

/// The rule behind an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two tasks have the same input.
    DuplicateInput,
    /// The input contains the answer.
    LeakedAnswer,
    /// Weights do not add up to 1.
    RubricWeights,
    /// Too few tasks for the threshold.
    Underpowered,
    /// A mode without tasks, or tasks without a mode that scores them.
    ModeWithoutTasks,
}

impl Rule {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateInput => "duplicate-input",
            Self::LeakedAnswer => "leaked-answer",
            Self::RubricWeights => "rubric-weights",
            Self::Underpowered => "underpowered",
            Self::ModeWithoutTasks => "mode-without-tasks",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub rule: Rule,
    /// JSON Pointer to the place.
    pub pointer: String,
    /// The problem and the remedy. Names tasks, but does not quote their content.
    pub reason: String,
}

/// All advice, in the order of the rules.
pub fn lint(suite: &AgentEvalSuite, scoring: Option<&ScoringDocument>) -> Vec<Advice> {
    let mut found = Vec::new();
    let mut advise = |rule, pointer: String, reason: String| {
        found.push(Advice {
            rule,
            pointer,
            reason,
        });
    };
    duplicate_inputs(suite, scoring, &mut advise);
    leaked_answers(suite, &mut advise);
    rubric_weights(suite, &mut advise);
    underpowered(suite, &mut advise);
    modes_without_tasks(suite, &mut advise);
    found
}

fn duplicate_inputs(
    suite: &AgentEvalSuite,
    scoring: Option<&ScoringDocument>,
    advise: &mut impl FnMut(Rule, String, String),
) {
    let mut seen: HashMap<String, &Task> = HashMap::new();
    for (index, task) in suite.tasks.iter().enumerate() {
        // The same input with other memory, tools, messages or files is a different question.
        let conversation = scoring.and_then(|it| it.conversation(&task.task_id));
        let files = scoring.map(|it| it.attachments(&task.task_id));
        let files = files.unwrap_or_default();
        let question = serde_json::json!([task.input, task.fixtures, conversation, files]);
        match seen.get(&canonical_text(&question)) {
            Some(first) => {
                let consequence = match first.expected == task.expected {
                    true => "it counts twice and adds no information",
                    false => "they expect different answers to the same question",
                };
                advise(
                    Rule::DuplicateInput,
                    format!("/tasks/{index}/input"),
                    format!(
                        "{} has the same input as {}: {consequence}",
                        task.task_id, first.task_id
                    ),
                );
            }
            None => {
                seen.insert(canonical_text(&question), task);
            }
        }
    }
}

fn leaked_answers(suite: &AgentEvalSuite, advise: &mut impl FnMut(Rule, String, String)) {
    let answers: Vec<Option<Answer>> = suite.tasks.iter().map(Answer::of).collect();
    let distinct: HashSet<&Answer> = answers.iter().flatten().collect();
    for (index, (task, answer)) in suite.tasks.iter().zip(&answers).enumerate() {
        let Some(answer) = answer else {
            continue;
        };
        let input = Words::of(&task.input);
        if !answer.is_in(&input) {
            continue;
        }
        // An input that names several answers of the suite offers a choice; it does not reveal the
        // answer.
        let others = distinct.iter().filter(|other| **other != answer);
        if others.into_iter().any(|other| other.is_in(&input)) {
            continue;
        }
        advise(
            Rule::LeakedAnswer,
            format!("/tasks/{index}/input"),
            format!(
                "{} contains its own answer: copying the input is enough to pass",
                task.task_id
            ),
        );
    }
}

/// The strings of a golden answer, normalized for the search.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Answer(Vec<String>);

impl Answer {
    /// `None` without a string that could be revealed: numbers and flags occur in texts by
    /// chance.
    fn of(task: &Task) -> Option<Self> {
        let matching = task.expected.matching.as_ref()?;
        if task.expected.kind != ExpectedKind::Golden {
            return None;
        }
        let mut texts = Vec::new();
        each_text(&matching.value, &mut |text| {
            texts.push(normalized(text));
        });
        texts.retain(|text| !text.trim().is_empty());
        let distinctive = texts
            .iter()
            .any(|text| text.trim().chars().count() >= MIN_ANSWER_CHARS);
        distinctive.then_some(Self(texts))
    }

    /// Whether the input contains all strings of the answer, as whole words.
    fn is_in(&self, input: &Words) -> bool {
        self.0.iter().all(|text| input.0.contains(text.as_str()))
    }
}

/// The strings of an input, normalized.
struct Words(String);

impl Words {
    fn of(input: &Value) -> Self {
        let mut all = String::new();
        each_text(input, &mut |text| {
            all.push_str(&normalized(text));
        });
        Self(all)
    }
}

/// Lower case, with every run of other characters replaced by one space and one space at each end,
/// so that only whole words match.
fn normalized(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len() + 2);
    normalized.push(' ');
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            normalized.push(c);
        } else if !normalized.ends_with(' ') {
            normalized.push(' ');
        }
    }
    if !normalized.ends_with(' ') {
        normalized.push(' ');
    }
    normalized
}

fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => {
            for item in items {
                each_text(item, visit);
            }
        }
        Value::Object(members) => {
            for member in members.values() {
                each_text(member, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn rubric_weights(suite: &AgentEvalSuite, advise: &mut impl FnMut(Rule, String, String)) {
    for (index, task) in suite.tasks.iter().enumerate() {
        let Some(criteria) = &task.expected.rubric else {
            continue;
        };
        let rubric = format!("/tasks/{index}/expected/rubric");
        for (at, criterion) in criteria.iter().enumerate() {
            if criterion.weight == 0.0 {
                advise(
                    Rule::RubricWeights,
                    format!("{rubric}/{at}/weight"),
                    format!(
                        "{}: a criterion of weight 0 is judged and paid for, but does not count",
                        task.task_id
                    ),
                );
            }
        }
        let sum: f64 = criteria.iter().map(weight).sum();
        if (sum - 1.0).abs() > ROUNDING {
            advise(
                Rule::RubricWeights,
                rubric,
                format!(
                    "{}: its weights add up to {sum:.3}; each counts as its share of that sum, so \
                     use weights that add up to 1",
                    task.task_id
                ),
            );
        }
    }
}

fn weight(criterion: &Criterion) -> f64 {
    criterion.weight
}

fn underpowered(suite: &AgentEvalSuite, advise: &mut impl FnMut(Rule, String, String)) {
    let n = suite.tasks.len();
    let threshold = suite
        .thresholds
        .and_then(|thresholds| thresholds.pass_score)
        .unwrap_or(DEFAULT_PASS_SCORE);
    let shown = |n: usize| perfect_run_shows(n, threshold);
    if threshold >= 1.0 {
        advise(
            Rule::Underpowered,
            "/thresholds/passScore".to_owned(),
            format!("{NEVER_SHOWN}, so a strict gate is always inconclusive; require less than 1"),
        );
    } else if !shown(n) {
        let needed = match smallest_sufficient(shown) {
            Some(needed) => format!(
                "at least {}, all passed, are needed to show it",
                tasks(needed)
            ),
            None => "no practical number of tasks shows it".to_owned(),
        };
        advise(
            Rule::Underpowered,
            "/tasks".to_owned(),
            format!(
                "{} cannot show a score of {threshold}: even a perfect run is inconclusive; {needed}",
                tasks(n)
            ),
        );
    }
    let compares = suite.modes.contains(&EvalMode::Regression);
    let detectable = minimum_detectable_effect(n, WIDEST_DEVIATION, ALPHA, POWER);
    if let Some(effect) = detectable.filter(|effect| compares && *effect > NOTICEABLE) {
        advise(
            Rule::Underpowered,
            "/modes".to_owned(),
            format!(
                "a comparison over {} is likely to miss changes of the score below about {:.2}; \
                 more tasks, or several trials per task, detect smaller ones",
                tasks(n),
                effect.min(1.0)
            ),
        );
    }
}

/// The smallest number of tasks for which `shown` holds; `shown` must hold for all larger numbers
/// too.
fn smallest_sufficient(shown: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut too_few, mut most) = (0, 1);
    while !shown(most) {
        if most >= MOST_TASKS {
            return None;
        }
        (too_few, most) = (most, most * 2);
    }
    while most - too_few > 1 {
        let middle = too_few + (most - too_few) / 2;
        if shown(middle) {
            most = middle;
        } else {
            too_few = middle;
        }
    }
    Some(most)
}

fn modes_without_tasks(suite: &AgentEvalSuite, advise: &mut impl FnMut(Rule, String, String)) {
    let of = |kind: ExpectedKind| suite.tasks.iter().any(|task| task.expected.kind == kind);
    let place = |mode: EvalMode| {
        let at = suite.modes.iter().position(|it| *it == mode);
        at.map(|at| format!("/modes/{at}"))
    };
    for (mode, kind) in [
        (EvalMode::Golden, ExpectedKind::Golden),
        (EvalMode::Rubric, ExpectedKind::Rubric),
    ] {
        if let Some(at) = place(mode).filter(|_| !of(kind)) {
            advise(
                Rule::ModeWithoutTasks,
                at,
                format!("no task is {mode}; remove the mode"),
            );
        }
    }
    let probed = |task: &Task| descriptions(task.fixtures.as_ref()).next().is_some();
    if place(EvalMode::Adversarial).is_none()
        && let Some(task) = suite.tasks.iter().find(|task| probed(task))
    {
        advise(
            Rule::ModeWithoutTasks,
            "/modes".to_owned(),
            format!(
                "{} plants content, but no mode lets the findings affect the score; add \
                 `adversarial`",
                task.task_id
            ),
        );
    }
    if place(EvalMode::Rubric).is_none() && of(ExpectedKind::Rubric) {
        advise(
            Rule::ModeWithoutTasks,
            "/modes".to_owned(),
            "there are rubric tasks, but no mode scores them; add `rubric`".to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::eval::suite_rules::check_suite;
    use crate::rules::kind::Kinds;

    fn golden(id: &str, input: Value, value: Value) -> Value {
        json!({"taskId": id, "input": input,
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": value}}})
    }

    fn rubric(id: &str, weights: &[f64]) -> Value {
        let criteria: Vec<Value> = weights
            .iter()
            .map(|weight| json!({"criterion": "is polite", "weight": weight}))
            .collect();
        json!({"taskId": id, "input": id, "expected": {"kind": "rubric", "rubric": criteria}})
    }

    fn planting() -> Value {
        let mut task = golden("p", json!({"n": -1}), json!("billing"));
        task["fixtures"] = json!({"toolResponses": [{"tool": "touchstone:safety", "response": {"canaries": ["blue heron"]}}]});
        task
    }

    fn suite(modes: &Value, pass_score: f64, tasks: Value) -> AgentEvalSuite {
        let document = json!({
            "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": modes,
            "thresholds": {"passScore": pass_score}, "tasks": tasks,
        });
        check_suite(Kinds::NONE, &document).unwrap()
    }

    /// Enough distinct tasks for a low pass score.
    fn plain(n: usize) -> Vec<Value> {
        (0..n)
            .map(|n| golden(&format!("t{n}"), json!({"n": n}), json!("billing")))
            .collect()
    }

    fn rules(suite: &AgentEvalSuite) -> Vec<(Rule, String)> {
        let found = lint(suite, None);
        found.into_iter().map(|it| (it.rule, it.pointer)).collect()
    }

    fn golden_rules(pass_score: f64, more: Vec<Value>) -> Vec<(Rule, String)> {
        let tasks = [plain(10), more].concat();
        rules(&suite(&json!(["golden"]), pass_score, json!(tasks)))
    }

    #[test]
    fn a_good_suite_has_no_lint_findings() {
        assert_eq!(golden_rules(0.5, vec![]), []);
    }

    #[rstest]
    #[case::same(json!({"n": 1}), "billing", true)]
    #[case::same_and_at_odds(json!({"n": 1}), "refund", true)]
    #[case::number_written_differently(json!({"n": "1"}), "billing", false)]
    #[case::other(json!({"n": 100}), "billing", false)]
    fn duplicate_inputs_are_found(#[case] input: Value, #[case] answer: &str, #[case] found: bool) {
        let expected = found.then(|| (Rule::DuplicateInput, "/tasks/10/input".to_owned()));
        let got = golden_rules(0.5, vec![golden("again", input, json!(answer))]);
        assert_eq!(got, Vec::from_iter(expected));
    }

    #[test]
    fn the_same_input_with_another_conversation_is_not_a_duplicate() {
        let answer = json!({"kind": "golden", "match": {"strategy": "exact", "value": "y"}});
        let tasks: Vec<Value> = ["a", "b"]
            .iter()
            .map(|id| json!({"taskId": id, "input": "x", "expected": answer}))
            .collect();
        let suite: AgentEvalSuite = serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden"], "tasks": tasks,
        }))
        .unwrap();
        let scoring: ScoringDocument = serde_json::from_value(json!({
            "scoringVersion": 1, "suiteId": "vendor.acme.evals.x",
            "tasks": {"b": {"conversation": {"turns": ["And then?"]}}},
        }))
        .unwrap();
        let has = |scoring| {
            let found = lint(&suite, scoring);
            found.iter().any(|it| it.rule == Rule::DuplicateInput)
        };
        assert!(has(None));
        assert!(!has(Some(&scoring)));
    }

    #[test]
    fn the_same_input_with_other_fixtures_is_not_a_duplicate() {
        let mut task = golden("again", json!({"n": 1}), json!("billing"));
        task["fixtures"] = json!({"memorySeed": [{"plan": "pro"}]});
        assert_eq!(golden_rules(0.5, vec![task]), []);
    }

    #[rstest]
    #[case::word(json!("Is it a Refund?"), json!("refund"), true)]
    #[case::member(json!({"text": "x", "hint": {"label": "refund"}}), json!("refund"), true)]
    #[case::sentence(json!("They say: the sky, is blue."), json!("The sky is blue"), true)]
    #[case::part_of_a_word(json!("nonrefundable"), json!("refund"), false)]
    #[case::elsewhere(json!("Give it back"), json!("refund"), false)]
    #[case::all_members(json!("queue spam, priority low"), json!({"q": "spam", "p": "low"}), true)]
    #[case::one_member(json!("queue spam"), json!({"q": "spam", "p": "low"}), false)]
    #[case::too_short(json!("it is on or off"), json!("on"), false)]
    #[case::number(json!("add 42 and 0"), json!(42), false)]
    #[case::empty(json!("anything"), json!(""), false)]
    #[case::a_choice(json!("refund or billing?"), json!("refund"), false)]
    #[case::other_scripts(json!("答えは 青い です"), json!("青い"), false)]
    #[case::long_other_scripts(json!("ответ: синее небо"), json!("Синее небо"), true)]
    fn answers_leaked_in_the_input_are_found(
        #[case] input: Value,
        #[case] answer: Value,
        #[case] found: bool,
    ) {
        let expected = found.then(|| (Rule::LeakedAnswer, "/tasks/10/input".to_owned()));
        let got = golden_rules(0.5, vec![golden("leak", input, answer)]);
        assert_eq!(got, Vec::from_iter(expected));
    }

    #[test]
    fn lint_advice_never_quotes_task_content() {
        let tasks = json!([
            golden("a", json!("canary"), json!("canary")),
            golden("b", json!("canary"), json!("x"))
        ]);
        for advice in lint(&suite(&json!(["golden", "regression"]), 0.9, tasks), None) {
            assert!(!advice.reason.contains("canary"), "{advice:?}");
        }
    }

    #[rstest]
    #[case(&[0.5, 0.5], &[])]
    #[case(&[0.1, 0.2, 0.7], &[])]
    #[case(&[1.0], &[])]
    #[case(&[0.5, 0.4], &["/tasks/0/expected/rubric"])]
    #[case(&[1.0, 1.0], &["/tasks/0/expected/rubric"])]
    #[case(&[1.0, 0.0], &["/tasks/0/expected/rubric/1/weight"])]
    fn rubric_weights_must_be_positive_and_sum_to_one(
        #[case] weights: &[f64],
        #[case] places: &[&str],
    ) {
        let tasks = [vec![rubric("r", weights)], plain(10)].concat();
        let got = rules(&suite(&json!(["golden", "rubric"]), 0.5, json!(tasks)));
        let expected: Vec<_> = places
            .iter()
            .map(|place| (Rule::RubricWeights, (*place).to_owned()))
            .collect();
        assert_eq!(got, expected);
    }

    #[rstest]
    // A perfect run of n has the lower limit n/(n + 3.84), and for low thresholds the n-th root of
    // 0.03.
    #[case(5, 0.5, Some("6 tasks, all passed"))]
    #[case(6, 0.5, None)]
    #[case(15, 0.8, Some("16 tasks, all passed"))]
    #[case(16, 0.8, None)]
    #[case(34, 0.9, Some("35 tasks, all passed"))]
    #[case(35, 0.9, None)]
    #[case(1, 0.0, None)]
    #[case(100, 1.0, Some("less than 1"))]
    fn too_few_tasks_for_the_threshold_are_found(
        #[case] n: usize,
        #[case] pass_score: f64,
        #[case] words: Option<&str>,
    ) {
        let found = lint(
            &suite(&json!(["golden"]), pass_score, json!(plain(n))),
            None,
        );
        let of: Vec<&Advice> = found
            .iter()
            .filter(|it| it.rule == Rule::Underpowered)
            .collect();
        match words {
            Some(words) => {
                assert_eq!(of.len(), 1);
                assert!(of[0].reason.contains(words), "{of:?}");
            }
            None => assert!(of.is_empty(), "{of:?}"),
        }
    }

    #[rstest]
    #[case(50, true)]
    #[case(196, true)]
    #[case(197, false)]
    fn underpowered_regression_suites_are_found(#[case] n: usize, #[case] found: bool) {
        let expected = found.then(|| (Rule::Underpowered, "/modes".to_owned()));
        let got = rules(&suite(
            &json!(["golden", "regression"]),
            0.5,
            json!(plain(n)),
        ));
        assert_eq!(got, Vec::from_iter(expected));
    }

    #[rstest]
    #[case(json!(["golden", "rubric"]), plain(10), Some("/modes/1"))]
    #[case(json!(["rubric", "golden"]), (0..10).map(|n| rubric(&n.to_string(), &[1.0])).collect(), Some("/modes/1"))]
    #[case(json!(["golden"]), [plain(10), vec![rubric("r", &[1.0])]].concat(), Some("/modes"))]
    #[case(json!(["golden", "rubric"]), [plain(10), vec![rubric("r", &[1.0])]].concat(), None)]
    #[case(json!(["golden"]), [plain(10), vec![planting()]].concat(), Some("/modes"))]
    #[case(json!(["golden", "adversarial"]), [plain(10), vec![planting()]].concat(), None)]
    fn modes_without_tasks_and_tasks_without_modes_are_found(
        #[case] modes: Value,
        #[case] tasks: Vec<Value>,
        #[case] place: Option<&str>,
    ) {
        let expected = place.map(|place| (Rule::ModeWithoutTasks, place.to_owned()));
        assert_eq!(
            rules(&suite(&modes, 0.5, json!(tasks))),
            Vec::from_iter(expected)
        );
    }
}
