//! Configurations of promptfoo: test cases with variables and assertions.
//!
//! The variables become the input. A task has one expectation: the first assertion that code can
//! check, or else all model-graded criteria together as a rubric. Everything else is reported;
//! prompts and providers are replaced by the agent's own.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::draft::{Draft, golden, short};
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::MatchStrategy;

/// Maximum number of test cases that lists of values may expand to.
const MAX_COMBINATIONS: usize = 10_000;

const EXTERNAL_TESTS: &str = "tests in another file, which can be imported separately";

/// Markers of templates.
const MARKS: [&str; 3] = ["{{", "{%", "{#"];

#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and tests use it"
)]
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}").expect("the expression is valid")
});

pub fn convert(mut config: Map<String, Value>, draft: &mut Draft) {
    let mut take = |name: &str| config.remove(name).filter(|value| !value.is_null());
    let (prompts, tests, defaults) = (take("prompts"), take("tests"), take("defaultTest"));
    for (name, why) in [
        (
            "providers",
            "`providers`: the agent's class of model is resolved by the host",
        ),
        (
            "targets",
            "`targets`: the agent's class of model is resolved by the host",
        ),
        (
            "description",
            "`description`: a suite has an id but no description",
        ),
    ] {
        if take(name).is_some() {
            draft.report_loss(name, why);
        }
    }
    draft.report_unknown("the configuration", "the configuration", &config);
    let prompt = single_prompt(prompts, draft);
    let defaults = match defaults {
        Some(Value::Object(defaults)) => defaults,
        Some(_) => {
            draft.report_loss("defaultTest", "a `defaultTest` in another file");
            Map::new()
        }
        None => Map::new(),
    };
    let defaults = Defaults::of(defaults, draft);
    let tests = match tests {
        Some(Value::Array(tests)) => tests,
        Some(_) => {
            draft.skip("tests", EXTERNAL_TESTS);
            Vec::new()
        }
        None => Vec::new(),
    };
    for (index, test) in tests.into_iter().enumerate() {
        let place = format!("tests[{index}]");
        match test {
            Value::Object(test) => convert_test(test, &defaults, prompt.as_deref(), &place, draft),
            _ => draft.skip(&place, EXTERNAL_TESTS),
        }
    }
}

/// The prompt, if there is exactly one and it is inline; it is the input of a test without
/// variables.
fn single_prompt(prompts: Option<Value>, draft: &mut Draft) -> Option<String> {
    let prompts = prompts?;
    draft.report_loss(
        "prompts",
        "`prompts`: an agent has its own instructions, in its pack",
    );
    let one = match prompts {
        Value::String(prompt) => prompt,
        Value::Array(prompts) => match prompts.as_slice() {
            [Value::String(prompt)] => prompt.clone(),
            _ => return None,
        },
        _ => return None,
    };
    (!is_external(&one) && !is_template(&one)).then_some(one)
}

/// The members that all tests inherit.
struct Defaults {
    vars: Map<String, Value>,
    asserts: Vec<Value>,
}

impl Defaults {
    fn of(mut test: Map<String, Value>, draft: &mut Draft) -> Self {
        let vars = object(test.remove("vars"), "defaultTest.vars", draft);
        let asserts = list(test.remove("assert"));
        draft.report_unknown("defaultTest", "a test", &test);
        Self { vars, asserts }
    }
}

fn object(value: Option<Value>, place: &str, draft: &mut Draft) -> Map<String, Value> {
    match value {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) => Map::new(),
        Some(_) => {
            draft.report_loss(
                place,
                "variables that are not a mapping, or are in another file",
            );
            Map::new()
        }
    }
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => Vec::new(),
        Some(one) => vec![one],
    }
}

fn convert_test(
    mut test: Map<String, Value>,
    defaults: &Defaults,
    prompt: Option<&str>,
    place: &str,
    draft: &mut Draft,
) {
    let name = test.remove("description");
    let mut vars = defaults.vars.clone();
    vars.extend(object(test.remove("vars"), place, draft));
    let mut asserts = list(test.remove("assert"));
    asserts.extend(defaults.asserts.iter().cloned());
    draft.report_unknown(place, "a test", &test);
    if vars.values().any(|value| any_string(value, is_external)) {
        draft.skip(place, "a test whose variables are in another file");
        return;
    }
    let Some(combinations) = combinations(vars) else {
        draft.skip(
            place,
            "a test whose lists of values expand to too many cases",
        );
        return;
    };
    if combinations.is_empty() {
        draft.skip(
            place,
            "a test with an empty list of values, which expands to no case",
        );
    }
    for vars in combinations {
        let Some(vars) = resolve_variables(vars) else {
            draft.skip(
                place,
                "a test whose variables are templates with more than plain variables",
            );
            continue;
        };
        let input = match (vars.is_empty(), prompt) {
            (false, _) => Value::Object(vars.clone()),
            (true, Some(prompt)) => json!(prompt),
            (true, None) => {
                draft.skip(
                    place,
                    "a test without input: no variables, and no single prompt",
                );
                continue;
            }
        };
        match expectation(&asserts, &vars, place, draft) {
            Some(expected) => draft.add(place, name.as_ref(), input, expected),
            None => draft.skip(place, "a test without an assertion that can be imported"),
        }
    }
}

/// Expands lists of values: one case per value, and all combinations for several lists. `None` if
/// there are too many.
fn combinations(vars: Map<String, Value>) -> Option<Vec<Map<String, Value>>> {
    let mut all = vec![Map::new()];
    for (name, value) in vars {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        if all.len().saturating_mul(values.len()) > MAX_COMBINATIONS {
            return None;
        }
        all = all
            .iter()
            .flat_map(|known| {
                values.iter().map(|value| {
                    let mut case = known.clone();
                    case.insert(name.clone(), value.clone());
                    case
                })
            })
            .collect();
    }
    Some(all)
}

/// A requirement for an answer.
enum Requirement {
    Golden(Value),
    Criteria(Vec<(String, f64)>),
}

fn expectation(
    asserts: &[Value],
    vars: &Map<String, Value>,
    place: &str,
    draft: &mut Draft,
) -> Option<Value> {
    let mut exact: Option<Value> = None;
    let mut criteria: Vec<(String, f64)> = Vec::new();
    for assert in asserts {
        match requirement(assert, vars, place, draft) {
            Some(Requirement::Golden(expected)) if exact.is_none() => exact = Some(expected),
            Some(Requirement::Golden(_)) => draft.report_loss(
                place,
                "further assertions of a test: a task has one expectation, and the first \
                 assertion was used",
            ),
            Some(Requirement::Criteria(more)) => criteria.extend(more),
            None => {}
        }
    }
    if let Some(exact) = exact {
        if !criteria.is_empty() {
            draft.report_loss(
                place,
                "a rubric in addition to an assertion that code can check; the assertion was used",
            );
        }
        return Some(exact);
    }
    let sum: f64 = criteria.iter().map(|(_, weight)| weight).sum();
    (sum > 0.0 && sum.is_finite()).then(|| {
        let shares: Vec<Value> = criteria
            .into_iter()
            .map(|(criterion, weight)| json!({"criterion": criterion, "weight": weight / sum}))
            .collect();
        json!({"kind": "rubric", "rubric": shares})
    })
}

fn requirement(
    assert: &Value,
    vars: &Map<String, Value>,
    place: &str,
    draft: &mut Draft,
) -> Option<Requirement> {
    let Some(assert) = assert.as_object() else {
        draft.report_loss(place, "an assertion in another file");
        return None;
    };
    let mut assert = assert.clone();
    let kind = assert.remove("type");
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
    let shown = short(kind);
    let (value, weight) = (assert.remove("value"), assert.remove("weight"));
    let not_imported = |draft: &mut Draft, why: &str| {
        draft.report_loss(place, format!("an assertion of type {shown:?}{why}"));
        None
    };
    let value = value.map(|value| render(&value, vars));
    let requirement = match (kind, value) {
        ("equals" | "contains" | "llm-rubric" | "model-graded-closedqa" | "g-eval", None) => {
            return not_imported(draft, " without a value");
        }
        (_, Some(None)) => {
            return not_imported(
                draft,
                " whose value is in another file or is a template with more than variables",
            );
        }
        ("equals", Some(Some(value @ (Value::Object(_) | Value::Array(_))))) => {
            Requirement::Golden(golden(MatchStrategy::JsonMatch, value))
        }
        ("equals", Some(Some(value))) => Requirement::Golden(golden(MatchStrategy::Exact, value)),
        ("contains", Some(Some(value))) if value.as_str() == Some("") => {
            return not_imported(draft, " that every answer satisfies");
        }
        ("contains", Some(Some(value))) => {
            Requirement::Golden(golden(MatchStrategy::Contains, value))
        }
        ("llm-rubric" | "model-graded-closedqa" | "g-eval", Some(Some(value))) => {
            let mut texts = Vec::new();
            for criterion in list(Some(value)) {
                match criterion {
                    Value::String(text) if !text.trim().is_empty() => texts.push(text),
                    _ => draft.report_loss(place, "a criterion that is empty or not a string"),
                }
            }
            let weight = weight.as_ref().map_or(Some(1.0), Value::as_f64);
            let weight = weight.filter(|weight| *weight > 0.0 && weight.is_finite());
            match (weight, texts.is_empty()) {
                (Some(weight), false) => {
                    Requirement::Criteria(texts.into_iter().map(|text| (text, weight)).collect())
                }
                _ => return not_imported(draft, " without text or without weight"),
            }
        }
        _ => return not_imported(draft, " has no counterpart in a suite"),
    };
    if matches!(requirement, Requirement::Golden(_))
        && weight.is_some_and(|weight| !weight.is_null())
    {
        draft.report_loss(
            place,
            "the weight of an assertion that code can check: it is the task's only one",
        );
    }
    draft.report_unknown(place, "an assertion", &assert);
    Some(requirement)
}

/// Whether any string in a value satisfies `is`.
fn any_string(value: &Value, is: fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, is)),
        Value::Object(members) => members.values().any(|member| any_string(member, is)),
        _ => false,
    }
}

fn is_template(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark))
}

/// Substitutes variables that refer to other variables. `None` if a value depends on something
/// outside the document.
fn resolve_variables(vars: Map<String, Value>) -> Option<Map<String, Value>> {
    let plain: Map<String, Value> = vars
        .iter()
        .filter(|(_, value)| !any_string(value, is_template))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    vars.into_iter()
        .map(|(name, value)| match plain.contains_key(&name) {
            true => Some((name, value)),
            false => Some((name, render(&value, &plain)?)),
        })
        .collect()
}

fn is_external(text: &str) -> bool {
    ["file://", "package:", "python:", "exec:"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

/// Substitutes variables in a value. `None` if it depends on something outside the document.
fn render(value: &Value, vars: &Map<String, Value>) -> Option<Value> {
    match value {
        Value::String(text) => render_text(text, vars).map(Value::String),
        Value::Array(items) => items
            .iter()
            .map(|item| render(item, vars))
            .collect::<Option<Vec<_>>>()
            .map(Value::Array),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| Some((name.clone(), render(member, vars)?)))
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object),
        plain => Some(plain.clone()),
    }
}

fn render_text(text: &str, vars: &Map<String, Value>) -> Option<String> {
    if is_external(text) {
        return None;
    }
    // Search for other template syntax before substitution, because values may contain anything.
    let rest = VARIABLE.replace_all(text, "");
    if is_template(&rest) {
        return None;
    }
    let mut all_known = true;
    let rendered = VARIABLE.replace_all(text, |found: &regex::Captures<'_>| {
        let name = found.get(1).map_or("", |name| name.as_str());
        match vars.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => canonical_text(value),
            None => {
                all_known = false;
                String::new()
            }
        }
    });
    let rendered = rendered.into_owned();
    all_known.then_some(rendered)
}
