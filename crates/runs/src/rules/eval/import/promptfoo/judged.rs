//! Model-graded assertions other than criteria: factuality, relevance and retrieval.

use serde_json::{Map, Value, json};

use super::checks::share;

/// The variable that holds the context of the retrieval measures.
const CONTEXT: &str = "context";

/// The assertion of the scoring document; `None` for a type that no model grades.
///
/// # Errors
/// Why it cannot be imported, as the end of a sentence.
pub fn assertion(
    kind: &str,
    value: Option<&Value>,
    threshold: Option<f64>,
    vars: &Map<String, Value>,
) -> Result<Option<Value>, String> {
    // In promptfoo, such a score counts as it is, and passes at the threshold.
    let measure = |name: &str| {
        let min = share(threshold, 0.0)?;
        Ok::<_, String>(json!({"type": name, "min": min, "graded": true}))
    };
    let mut assertion = match kind {
        "factuality" | "model-graded-factuality" => {
            let references = texts(value)?.into_iter();
            let references = references.map(|it| json!({"type": "factuality", "reference": it}));
            let mut references: Vec<Value> = references.collect();
            return Ok(match references.len() {
                1 => references.pop(),
                _ => Some(json!({"type": "all", "assertions": references})),
            });
        }
        "answer-relevance" => return measure(kind).map(Some),
        "context-faithfulness" => measure("faithfulness")?,
        "context-relevance" => measure(kind)?,
        "context-recall" => {
            let mut assertion = measure(kind)?;
            let mut references = texts(value)?;
            if references.len() > 1 {
                return Err(" has several reference answers".to_owned());
            }
            if let (Some(members), Some(reference)) = (assertion.as_object_mut(), references.pop())
            {
                members.insert("reference".to_owned(), json!(reference));
            }
            assertion
        }
        _ => return Ok(None),
    };
    if let Some(members) = assertion.as_object_mut() {
        members.insert(CONTEXT.to_owned(), context(vars)?);
    }
    Ok(Some(assertion))
}

fn context(vars: &Map<String, Value>) -> Result<Value, String> {
    match vars.get(CONTEXT) {
        Some(Value::String(text)) => Ok(json!(text)),
        Some(Value::Array(parts)) if parts.iter().all(Value::is_string) => Ok(json!(parts)),
        Some(_) => Err(" has a `context` that is not a text or a list of texts".to_owned()),
        None => Err(" needs a variable `context`, which the test does not have".to_owned()),
    }
}

/// The value as one text or several.
///
/// # Errors
/// It is absent, empty or something else.
pub fn texts(value: Option<&Value>) -> Result<Vec<String>, String> {
    let texts = match value {
        None => return Err(" without a value".to_owned()),
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    };
    let texts: Option<Vec<String>> = texts
        .into_iter()
        .map(|text| match text {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) if !texts.is_empty() => Ok(texts),
        _ => Err(" has a criterion that is empty or not a string".to_owned()),
    }
}
