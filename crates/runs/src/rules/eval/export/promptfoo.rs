//! A configuration of promptfoo: inputs become variables, expectations become assertions.

use serde_json::{Map, Value, json};

use super::Losses;
use crate::rules::eval::scoring_document::checks::MIN_SIMILAR;
use crate::rules::eval::scoring_document::judged::MIN;
use crate::rules::eval::scoring_document::{Assertion, Check, ScoringDocument};
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::{AgentEvalSuite, MatchStrategy, Task};

pub fn text(
    suite: &AgentEvalSuite,
    scoring: Option<&ScoringDocument>,
    losses: &mut Losses,
) -> Result<String, String> {
    let is_object = suite.tasks.iter().all(|task| task.input.is_object());
    let mut names: Vec<String> = vec!["input".to_owned()];
    if is_object {
        let members = suite.tasks.iter().filter_map(|task| task.input.as_object());
        names = members.flat_map(Map::keys).cloned().collect();
        names.sort();
        names.dedup();
    }
    let prompt = match names.as_slice() {
        [one] => format!("{{{{{one}}}}}"),
        many => {
            let lines = many.iter().map(|name| format!("{name}: {{{{{name}}}}}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    losses.add(
        "prompts",
        "the agent: the prompt only shows the variables, and `providers` are yours to add"
            .to_owned(),
    );
    let tests: Vec<Value> = suite
        .tasks
        .iter()
        .map(|task| test(task, is_object, scoring, losses))
        .collect();
    let mut config = json!({
        "description": suite.reference(),
        "prompts": [prompt],
        "tests": tests,
    });
    let has_list = |task: &Task| match &task.input {
        Value::Object(members) => members.values().any(Value::is_array),
        other => other.is_array(),
    };
    // Lists of texts would give one test per text.
    if suite.tasks.iter().any(has_list)
        && let Some(members) = config.as_object_mut()
    {
        members.insert(
            "defaultTest".to_owned(),
            json!({"options": {"disableVarExpansion": true}}),
        );
    }
    serde_saphyr::to_string(&config).map_err(|fault| fault.to_string())
}

fn test(
    task: &Task,
    is_object: bool,
    scoring: Option<&ScoringDocument>,
    losses: &mut Losses,
) -> Value {
    let id = task.task_id.as_str();
    let vars = match (&task.input, is_object) {
        (Value::Object(_), true) => task.input.clone(),
        (input, _) => json!({"input": input}),
    };
    if canonical_text(&vars).contains("{{") || canonical_text(&vars).contains("{%") {
        losses.add(
            id,
            "braces in an input: promptfoo reads them as a template".to_owned(),
        );
    }
    if task.fixtures.is_some() {
        losses.add(id, "the fixtures of a task".to_owned());
    }
    if scoring.is_some_and(|it| it.conversation(&task.task_id).is_some()) {
        losses.add(
            id,
            "the conversation of a task: only its input is exported".to_owned(),
        );
    }
    if scoring.is_some_and(|it| !it.attachments(&task.task_id).is_empty()) {
        losses.add(id, "the files that are sent with an input".to_owned());
    }
    let own = expected(task);
    let mut test = Map::new();
    test.insert("description".to_owned(), json!(id));
    test.insert("vars".to_owned(), vars);
    let tags = scoring.map(|it| it.tags(&task.task_id));
    if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
        test.insert("metadata".to_owned(), json!({"tags": tags}));
    }
    let asserts = match scoring.and_then(|it| it.of_task(&task.task_id)) {
        Some(effective) => {
            if let Some(threshold) = effective.threshold {
                test.insert("threshold".to_owned(), json!(threshold));
            }
            let all = effective.assertions.into_iter();
            all.flat_map(|assertion| converted(assertion, &own, id, losses))
                .collect()
        }
        None => own,
    };
    if !asserts.is_empty() {
        test.insert("assert".to_owned(), Value::Array(asserts));
    }
    Value::Object(test)
}

/// The suite's own expectation of a task.
fn expected(task: &Task) -> Vec<Value> {
    let matching = task.expected.matching.iter().filter_map(|matching| {
        let kind = match matching.strategy {
            // Every answer contains the empty string.
            MatchStrategy::Contains if matching.value.as_str() == Some("") => return None,
            MatchStrategy::Contains => "contains",
            MatchStrategy::Exact | MatchStrategy::JsonMatch => "equals",
        };
        Some(json!({"type": kind, "value": matching.value}))
    });
    let criteria = task.expected.rubric.iter().flatten();
    let rubric = criteria.map(|criterion| {
        json!({"type": "llm-rubric", "value": criterion.criterion, "weight": criterion.weight})
    });
    matching.chain(rubric).collect()
}

/// The assertions of promptfoo for one of a scoring document; empty without a counterpart.
fn converted(assertion: &Assertion, own: &[Value], id: &str, losses: &mut Losses) -> Vec<Value> {
    let mut found = match (&assertion.check, assertion.not) {
        (Check::Expected, false) => match own {
            [one] => vec![one.clone()],
            several => return several.to_vec(),
        },
        (check, _) => match counterpart(check, own, id, losses) {
            Some(found) => vec![found],
            None => {
                let name = check.name();
                losses.add(
                    id,
                    format!("an assertion of type `{name}`, which has no counterpart"),
                );
                return Vec::new();
            }
        },
    };
    for members in found.iter_mut().filter_map(Value::as_object_mut) {
        if assertion.not {
            let kind = members
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if kind == "assert-set" {
                losses.add(id, "a negated combination of assertions".to_owned());
                return Vec::new();
            }
            let negated = json!(format!("not-{kind}"));
            members.insert("type".to_owned(), negated);
        }
        if assertion.weight != 1.0 {
            members.insert("weight".to_owned(), json!(assertion.weight));
        }
        if let Some(metric) = &assertion.metric {
            members.insert("metric".to_owned(), json!(metric));
        }
    }
    found
}

fn counterpart(check: &Check, own: &[Value], id: &str, losses: &mut Losses) -> Option<Value> {
    let case = |ignore: bool, name: &str| match ignore {
        true => format!("i{name}"),
        false => name.to_owned(),
    };
    Some(match check {
        Check::Equals(it) if !it.ignore_case => {
            let values: Vec<&Value> = it.accepted().collect();
            let each = |value: &&Value| json!({"type": "equals", "value": value});
            match values.as_slice() {
                [one] => each(one),
                several => any_of(several.iter().map(each).collect()),
            }
        }
        Check::Contains(it) => {
            json!({"type": case(it.ignore_case, "contains"), "value": it.value})
        }
        Check::Icontains(it) => json!({"type": "icontains", "value": it.value}),
        Check::ContainsAny(it) => {
            json!({"type": case(it.ignore_case, "contains-any"), "value": it.values})
        }
        Check::ContainsAll(it) => {
            json!({"type": case(it.ignore_case, "contains-all"), "value": it.values})
        }
        Check::StartsWith(it) if !it.ignore_case => {
            json!({"type": "starts-with", "value": it.value})
        }
        Check::EndsWith(it) if !it.ignore_case => {
            json!({"type": "regex", "value": format!("{}$", regex::escape(&it.value))})
        }
        Check::Regex(it) if !it.ignore_case => json!({"type": "regex", "value": it.pattern}),
        Check::IsJson(it) => match &it.schema {
            Some(schema) => json!({"type": "is-json", "value": schema}),
            None => json!({"type": "is-json"}),
        },
        Check::Levenshtein(it) => {
            let (value, distance) = (it.value.as_ref()?, it.max_distance?);
            json!({"type": "levenshtein", "value": value, "threshold": distance})
        }
        Check::RougeN(it) => {
            json!({"type": "rouge-n", "value": it.value.as_ref()?, "threshold": it.min})
        }
        Check::Bleu(it) => {
            json!({"type": "bleu", "value": it.value.as_ref()?, "threshold": it.min})
        }
        Check::Similar(it) => {
            let texts: Vec<&str> = it.references().collect();
            let value = match texts.as_slice() {
                [text] => json!(text),
                texts => json!(texts),
            };
            json!({"type": "similar", "value": value, "threshold": it.min.unwrap_or(MIN_SIMILAR)})
        }
        Check::Latency(it) => json!({"type": "latency", "threshold": it.max_ms}),
        Check::Cost(it) => json!({"type": "cost", "threshold": it.max_usd}),
        Check::Refusal => json!({"type": "is-refusal"}),
        Check::ClosedQuestion(it) => {
            json!({"type": "model-graded-closedqa", "value": it.question})
        }
        Check::Rubric(it) => match it.criteria.as_slice() {
            [one] => json!({"type": "llm-rubric", "value": one.criterion}),
            _ => return None,
        },
        Check::Factuality(it) if it.accept.is_none() => {
            json!({"type": "factuality", "value": it.reference})
        }
        Check::AnswerRelevance(it) => {
            json!({"type": "answer-relevance", "threshold": it.min.unwrap_or(MIN)})
        }
        Check::All(it) => {
            let members = nested(&it.assertions, own, id, losses);
            let mut set = json!({"type": "assert-set", "assert": members});
            if let (Some(threshold), Some(set)) = (it.threshold, set.as_object_mut()) {
                set.insert("threshold".to_owned(), json!(threshold));
            }
            set
        }
        Check::Any(it) if it.threshold.is_none() => any_of(nested(&it.assertions, own, id, losses)),
        _ => return None,
    })
}

fn nested(assertions: &[Assertion], own: &[Value], id: &str, losses: &mut Losses) -> Vec<Value> {
    assertions
        .iter()
        .flat_map(|assertion| converted(assertion, own, id, losses))
        .collect()
}

/// A set that passes if one of its members does.
fn any_of(members: Vec<Value>) -> Value {
    // A little less than the share of one member, because promptfoo adds shares as doubles.
    let threshold =
        u32::try_from(members.len()).map_or(0.0, |count| 0.999 / f64::from(count.max(1)));
    json!({"type": "assert-set", "threshold": threshold, "assert": members})
}
