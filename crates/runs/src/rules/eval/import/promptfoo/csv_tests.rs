//! Test cases as rows of a table: variables, and assertions in columns that start with `__`.

use serde_json::{Map, Value, json};

/// The test of a row.
pub fn test(row: Map<String, Value>) -> Map<String, Value> {
    let (mut vars, mut asserts) = (Map::new(), Vec::new());
    let mut test = Map::new();
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut metric = None;
    for (name, cell) in row {
        let text = cell.as_str().unwrap_or_default().to_owned();
        let expected = name.strip_prefix("__expected");
        if expected.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            asserts.push(assertion(&text));
            continue;
        }
        match name.as_str() {
            "__description" => {
                test.insert("description".to_owned(), cell);
            }
            "__threshold" => {
                let number = text.parse::<f64>().map_or(cell, Value::from);
                test.insert("threshold".to_owned(), number);
            }
            "__metric" => metric = Some(cell),
            "__prefix" | "__suffix" => settings.push((name, text)),
            // Other columns of promptfoo, which are reported.
            _ if name.starts_with("__") => {
                test.insert(name, cell);
            }
            _ => {
                vars.insert(name, cell);
            }
        }
    }
    if let Some(metric) = metric {
        for assert in asserts.iter_mut().filter_map(Value::as_object_mut) {
            assert.insert("metric".to_owned(), metric.clone());
        }
    }
    if !settings.is_empty() {
        let options: Map<String, Value> = settings
            .into_iter()
            .map(|(name, text)| (name.trim_start_matches('_').to_owned(), json!(text)))
            .collect();
        test.insert("options".to_owned(), Value::Object(options));
    }
    test.insert("vars".to_owned(), Value::Object(vars));
    test.insert("assert".to_owned(), Value::Array(asserts));
    test
}

/// Assertion types that a cell can name.
const TYPES: [&str; 44] = [
    "answer-relevance",
    "bleu",
    "contains",
    "contains-all",
    "contains-any",
    "contains-html",
    "contains-json",
    "contains-sql",
    "contains-xml",
    "context-faithfulness",
    "context-recall",
    "context-relevance",
    "cost",
    "equals",
    "factuality",
    "finish-reason",
    "g-eval",
    "gleu",
    "guardrails",
    "icontains",
    "icontains-all",
    "icontains-any",
    "is-html",
    "is-json",
    "is-refusal",
    "is-sql",
    "is-valid-openai-function-call",
    "is-valid-openai-tools-call",
    "is-xml",
    "javascript",
    "latency",
    "levenshtein",
    "llm-rubric",
    "meteor",
    "model-graded-closedqa",
    "model-graded-factuality",
    "moderation",
    "perplexity",
    "pi",
    "python",
    "regex",
    "rouge-n",
    "similar",
    "starts-with",
];
/// Types whose cell is a list separated by commas.
const LISTS: [&str; 4] = [
    "contains-any",
    "contains-all",
    "icontains-any",
    "icontains-all",
];

/// The assertion of a cell: `type: value`, `type(threshold): value`, or an answer to equal.
pub fn assertion(cell: &str) -> Value {
    let cell = cell.trim();
    let (head, value) = match cell.split_once(':') {
        Some((head, value)) => (head.trim(), Some(value.trim())),
        None => (cell, None),
    };
    match head {
        "fn" | "eval" => return json!({"type": "javascript", "value": value}),
        "grade" => return json!({"type": "llm-rubric", "value": value}),
        "file" => return json!({"type": "javascript", "value": cell}),
        _ => {}
    }
    let (name, threshold) = match head.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')').map(str::parse::<f64>) {
            Some(Ok(threshold)) => (name, Some(threshold)),
            _ => return json!({"type": "equals", "value": cell}),
        },
        None => (head, None),
    };
    let plain = name.strip_prefix("not-").unwrap_or(name);
    if !TYPES.contains(&plain) {
        return json!({"type": "equals", "value": cell});
    }
    let mut assert = json!({"type": name});
    if let Some(members) = assert.as_object_mut() {
        match value.filter(|value| !value.is_empty()) {
            Some(list) if LISTS.contains(&plain) => {
                let values: Vec<&str> = list.split(',').map(str::trim).collect();
                members.insert("value".to_owned(), json!(values));
            }
            Some(value) => {
                members.insert("value".to_owned(), json!(value));
            }
            None => {}
        }
        if let Some(threshold) = threshold {
            members.insert("threshold".to_owned(), json!(threshold));
        }
    }
    assert
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Paris", json!({"type": "equals", "value": "Paris"}))]
    #[case("note: this", json!({"type": "equals", "value": "note: this"}))]
    #[case("contains: a:b", json!({"type": "contains", "value": "a:b"}))]
    #[case("not-icontains-any: a, b", json!({"type": "not-icontains-any", "value": ["a", "b"]}))]
    #[case("similar(0.8): near", json!({"type": "similar", "value": "near", "threshold": 0.8}))]
    #[case("is-json", json!({"type": "is-json"}))]
    #[case("grade: polite", json!({"type": "llm-rubric", "value": "polite"}))]
    #[case("fn: output > 1", json!({"type": "javascript", "value": "output > 1"}))]
    #[case("file://check.js", json!({"type": "javascript", "value": "file://check.js"}))]
    #[case("contains(x): y", json!({"type": "equals", "value": "contains(x): y"}))]
    fn a_cell_names_an_assertion_or_is_the_answer(#[case] cell: &str, #[case] expected: Value) {
        assert_eq!(assertion(cell), expected);
    }
}
