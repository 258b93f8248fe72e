//! Printed formats with placeholders instead of values: `N`, `0.0-1.0`, `true | false`, `[semver]`.
//!
//! A member whose name ends with `?` is optional. A name in brackets stands for any name; a list
//! has one entry, which describes every entry.

use serde_json::Value;

use super::moment;

/// Lists where a document violates a format.
pub fn faults(format: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look("", format, document, &mut found);
    found
}

/// Members of a document that its format does not have.
pub fn strangers(format: &Value, document: &Value) -> Vec<String> {
    let format = format.as_object().unwrap();
    let members = document.as_object().unwrap().keys();
    members
        .filter(|name| !format.contains_key(*name) && !format.contains_key(&format!("{name}?")))
        .cloned()
        .collect()
}

fn look(at: &str, format: &Value, document: &Value, found: &mut Vec<String>) {
    match (format, document) {
        (Value::Object(members), Value::Object(own)) => {
            for (name, inner) in members {
                let (name, optional) = match name.strip_suffix('?') {
                    Some(name) => (name, true),
                    None => (name.as_str(), false),
                };
                if name.starts_with('[') {
                    if own.is_empty() && !optional {
                        found.push(format!("{at} is empty"));
                    }
                    for (name, value) in own {
                        look(&format!("{at}/{name}"), inner, value, found);
                    }
                    continue;
                }
                match own.get(name) {
                    Some(value) => look(&format!("{at}/{name}"), inner, value, found),
                    None if optional => {}
                    None => found.push(format!("{at}/{name} is missing")),
                }
            }
        }
        (Value::Array(entries), Value::Array(own)) => {
            if own.is_empty() {
                found.push(format!("{at} is empty"));
            }
            for (n, value) in own.iter().enumerate() {
                look(&format!("{at}/{n}"), &entries[0], value, found);
            }
        }
        (Value::String(words), _) if is_of(words, document) => {}
        _ => found.push(format!("{at} is {document} and not {format}")),
    }
}

fn is_of(words: &str, value: &Value) -> bool {
    let printed = value.to_string();
    let within = |from: f64, to: f64| value.as_f64().is_some_and(|it| (from..=to).contains(&it));
    let said = value.as_str().is_some_and(|it| !it.is_empty());
    match words {
        "[value]" => true,
        "[ISO 8601]" => moment(value).is_some(),
        "[semver]" | "[version]" => value
            .as_str()
            .is_some_and(|it| semver::Version::parse(it).is_ok()),
        "N" => value.is_u64(),
        "N%" | "number" => value.is_number(),
        "0.0-1.0" => within(0.0, 1.0),
        "0-100" => within(0.0, 100.0),
        "0-100 or None" => value.is_null() || within(0.0, 100.0),
        "..." => said,
        _ if words.starts_with("[list") => value.is_array(),
        _ if words.starts_with('[') => said,
        _ => words.split(" | ").any(|one| match value {
            Value::String(text) => text == one && !["true", "false"].contains(&one),
            Value::Bool(_) | Value::Number(_) => one == printed.as_str(),
            _ => false,
        }),
    }
}

#[test]
fn values_that_violate_a_format_are_found() {
    let format = serde_json::json!({"safety": "PASS | FAIL", "n": "N", "score?": "0.0-1.0", "all": {"[name]": "true | false"}});
    let sound = serde_json::json!({"safety": "PASS", "n": 1, "all": {"a": true}});
    assert_eq!(faults(&format, &sound), Vec::<String>::new());
    for (place, value, fault) in [
        ("safety", serde_json::json!("MAYBE"), "/safety is \"MAYBE\""),
        ("n", serde_json::json!(0.5), "/n is 0.5"),
        ("score", serde_json::json!(1.5), "/score is 1.5"),
        ("all", serde_json::json!({}), "/all is empty"),
    ] {
        let mut wrong = sound.clone();
        wrong[place] = value;
        let found = faults(&format, &wrong);
        assert!(found[0].starts_with(fault), "{place}: {found:?}");
    }
    let mut more = sound;
    more["output"] = "text".into();
    assert_eq!(strangers(&format, &more), ["output"]);
}
