//! Assertions: one that a suite can hold becomes the expectation of the task; all others become a
//! task's entry in the scoring document. Criteria for a model become a rubric of the suite where it
//! can hold them.

use serde_json::{Map, Value, json};

use super::checks::{Check, check};
use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::scoring::{self, Expectation, any_answer, golden};
use crate::rules::eval::import::source::Files;
use crate::rules::eval::scoring_document::limits;
use touchstone_openwop::suite::MatchStrategy;

/// Maximum depth of sets of assertions.
const MAX_DEPTH: usize = 4;

/// Maximum number of assertions of a test, not counting its rubric.
const MAX_ASSERTIONS: usize = limits::MAX_ASSERTIONS - 1;

/// The context of a test's assertions.
pub struct Context<'a> {
    pub vars: &'a Map<String, Value>,
    pub files: &'a dyn Files,
    pub place: &'a str,
    /// Whether the assertion is a member of a set.
    pub in_set: bool,
}

/// The parts of an expectation.
#[derive(Default)]
struct Parts {
    /// The first assertion that a suite can hold, without its weight and metric.
    golden: Option<Value>,
    /// All assertions that code can check.
    checks: Vec<Value>,
    criteria: Vec<(String, f64)>,
    /// The types of assertions that are code, with the assertions that a program decides instead.
    code: Vec<(String, Value)>,
    /// Whether a suite cannot hold the checks.
    needs_scoring: bool,
}

/// The expectation of a test. `None` if it has assertions and none of them can be imported.
pub fn expectation(
    asserts: &[Value],
    threshold: Option<f64>,
    context: &Context<'_>,
    draft: &mut Draft,
) -> Option<Expectation> {
    if asserts.is_empty() {
        draft.report_loss(
            context.place,
            "a test without assertions: as in promptfoo, every answer passes",
        );
        return Some(Expectation::plain(any_answer()));
    }
    let mut parts = Parts::default();
    for assert in asserts {
        add(assert, context, 0, &mut parts, draft);
    }
    let is_code = parts.checks.is_empty() && parts.criteria.is_empty();
    for (kind, assertion) in std::mem::take(&mut parts.code) {
        draft.report_loss(context.place, code_lost(&kind, is_code));
        if is_code {
            parts.add_check(assertion, false);
        }
    }
    let rubric = rubric(&parts.criteria);
    let weight: f64 = parts.criteria.iter().map(|(_, weight)| weight).sum();
    if parts.checks.is_empty() && threshold.is_none() {
        return rubric.map(Expectation::plain);
    }
    let (expected, mut assertions) = match (rubric, parts.golden) {
        (Some(rubric), _) => {
            let judged = match weight == 1.0 {
                true => json!({"type": "expected"}),
                false => json!({"type": "expected", "weight": weight}),
            };
            (rubric, vec![judged])
        }
        (None, Some(golden)) => (golden, Vec::new()),
        (None, None) if parts.checks.is_empty() => return None,
        (None, None) => (any_answer(), Vec::new()),
    };
    let is_rubric = !assertions.is_empty();
    let single = parts.checks.len() == 1 && !is_rubric;
    if single && !parts.needs_scoring {
        return Some(Expectation::plain(expected));
    }
    assertions.extend(parts.checks);
    let mut scored = json!({"assertions": assertions});
    if let (Some(threshold), Some(members)) = (threshold, scored.as_object_mut()) {
        members.insert("threshold".to_owned(), json!(threshold));
    }
    Some(Expectation {
        expected,
        scoring: Some(scored),
    })
}

/// Says what became of an assertion that is code. `is_replaced` if the test has no other assertion.
fn code_lost(kind: &str, is_replaced: bool) -> String {
    let kind = short(kind);
    let code = format!("an assertion of type {kind:?} is code, which is not executed");
    match is_replaced {
        true => format!(
            "{code}: the task has the assertion `command` named {kind:?} instead, which your own \
             program decides (--assert-command, docs/assert-commands.md)"
        ),
        false => format!(
            "{code}; the assertion `command` lets your own program decide \
             (docs/assert-commands.md)"
        ),
    }
}

fn rubric(criteria: &[(String, f64)]) -> Option<Value> {
    let sum: f64 = criteria.iter().map(|(_, weight)| weight).sum();
    (sum > 0.0 && sum.is_finite()).then(|| {
        let shares: Vec<Value> = criteria
            .iter()
            .map(|(criterion, weight)| json!({"criterion": criterion, "weight": weight / sum}))
            .collect();
        json!({"kind": "rubric", "rubric": shares})
    })
}

fn add(assert: &Value, context: &Context<'_>, depth: usize, parts: &mut Parts, draft: &mut Draft) {
    let place = context.place;
    let Some(assert) = assert.as_object() else {
        draft.report_loss(place, "an assertion in another file");
        return;
    };
    let mut assert = assert.clone();
    let Some(Value::String(kind)) = assert.remove("type") else {
        draft.report_loss(place, "an assertion without a type");
        return;
    };
    let Some(common) = Common::take(&mut assert, &kind, place, draft) else {
        return;
    };
    if kind == "assert-set" {
        set(assert, common, context, depth, parts, draft);
        return;
    }
    let has_metric = common.metric.is_some();
    match check(&kind, &mut assert, has_metric, context) {
        Ok(Check::Criteria(texts)) => {
            let weight = common.weight.unwrap_or(1.0);
            let weighted = texts.into_iter().map(|text| (text, weight));
            parts.criteria.extend(weighted);
        }
        Ok(Check::Code(_)) if depth > 0 => {
            draft.report_loss(place, code_lost(&kind, false));
            return;
        }
        Ok(Check::Code(assertion)) => {
            let assertion = common.applied_to(assertion);
            match scoring::check(&assertion) {
                Ok(()) if parts.code.len() < MAX_ASSERTIONS => parts.code.push((kind, assertion)),
                _ => draft.report_loss(place, code_lost(&kind, false)),
            }
        }
        Ok(Check::Assertion(assertion)) => {
            let assertion = common.applied_to(assertion);
            if let Err(reason) = scoring::check(&assertion) {
                let kind = short(&kind);
                draft.report_loss(place, format!("an assertion of type {kind:?}: {reason}"));
                return;
            }
            if parts.checks.len() == MAX_ASSERTIONS {
                draft.report_loss(place, "an assertion after the first 199 of a test");
                return;
            }
            parts.add_check(assertion, depth > 0);
        }
        Err(reason) => {
            let kind = short(&kind);
            draft.report_loss(place, format!("an assertion of type {kind:?}{reason}"));
            return;
        }
    }
    draft.report_unknown(place, "an assertion", &assert);
}

impl Parts {
    /// Adds an assertion. In a set, it is not the expectation of the task.
    fn add_check(&mut self, assertion: Value, in_set: bool) {
        let plain = held_by_a_suite(&assertion);
        self.needs_scoring |= in_set
            || plain.is_none()
            || assertion.get("metric").is_some()
            || !self.checks.is_empty();
        if !in_set && self.golden.is_none() {
            self.golden = plain;
        }
        self.checks.push(assertion);
    }
}

/// Whether reports can show the name of a metric.
fn is_metric(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " _-./:".contains(c);
    (1..=64).contains(&name.chars().count()) && name.trim() == name && name.chars().all(allowed)
}

struct Common {
    weight: Option<f64>,
    metric: Option<String>,
}

impl Common {
    /// Takes the members that every assertion can have. `None` if the assertion does not count.
    fn take(
        assert: &mut Map<String, Value>,
        kind: &str,
        place: &str,
        draft: &mut Draft,
    ) -> Option<Self> {
        for code in ["transform", "contextTransform"] {
            if assert.remove(code).is_some() {
                draft.report_loss(
                    place,
                    format!(
                        "`{code}` of an assertion of type {:?}, which changes the answer with \
                         code: the whole answer is checked",
                        short(kind)
                    ),
                );
            }
        }
        let weight = match assert.remove("weight").filter(|weight| !weight.is_null()) {
            None => None,
            Some(weight) => match weight.as_f64().filter(|it| it.is_finite() && *it >= 0.0) {
                Some(0.0) => {
                    draft.report_loss(place, "an assertion of weight 0, which cannot fail a test");
                    return None;
                }
                Some(weight) => Some(weight),
                None => {
                    draft.report_loss(place, "a weight that is not a positive number; 1 is used");
                    None
                }
            },
        };
        let metric = match assert.remove("metric") {
            Some(Value::String(metric)) => Some(metric),
            _ => None,
        };
        let metric = metric.filter(|metric| {
            let usable = is_metric(metric) && draft.use_metric(metric);
            if !usable {
                draft.report_loss(
                    place,
                    "the name of a metric: a suite can have 100, of 1 to 64 letters, digits, \
                     spaces or any of `_-./:`",
                );
            }
            usable
        });
        Some(Self { weight, metric })
    }

    fn applied_to(self, mut assertion: Value) -> Value {
        if let Some(members) = assertion.as_object_mut() {
            if let Some(weight) = self.weight.filter(|weight| *weight != 1.0) {
                members.insert("weight".to_owned(), json!(weight));
            }
            if let Some(metric) = self.metric {
                members.insert("metric".to_owned(), json!(metric));
            }
        }
        assertion
    }
}

/// The expectation of a suite that says the same.
fn held_by_a_suite(assertion: &Value) -> Option<Value> {
    if assertion.get("not").is_some() {
        return None;
    }
    let value = assertion.get("value")?;
    match assertion.get("type")?.as_str()? {
        "equals" if value.is_object() || value.is_array() => {
            Some(golden(MatchStrategy::JsonMatch, value.clone()))
        }
        "equals" => Some(golden(MatchStrategy::Exact, value.clone())),
        "contains" => Some(golden(MatchStrategy::Contains, value.clone())),
        _ => None,
    }
}

fn set(
    mut assert: Map<String, Value>,
    common: Common,
    context: &Context<'_>,
    depth: usize,
    parts: &mut Parts,
    draft: &mut Draft,
) {
    if depth == MAX_DEPTH {
        draft.report_loss(context.place, "assertion sets that are nested too deeply");
        return;
    }
    let threshold = assert.remove("threshold").and_then(|it| it.as_f64());
    let members = match assert.remove("assert") {
        Some(Value::Array(members)) => members,
        _ => Vec::new(),
    };
    draft.report_unknown(context.place, "an assertion set", &assert);
    let mut inside = Parts::default();
    let context = &Context {
        in_set: true,
        ..*context
    };
    for member in &members {
        add(member, context, depth + 1, &mut inside, draft);
    }
    if inside.checks.is_empty() {
        return;
    }
    parts.needs_scoring = true;
    let mut all = json!({"type": "all", "assertions": inside.checks});
    if let (Some(threshold), Some(members)) = (threshold, all.as_object_mut()) {
        members.insert("threshold".to_owned(), json!(threshold));
    }
    parts.checks.push(common.applied_to(all));
}
