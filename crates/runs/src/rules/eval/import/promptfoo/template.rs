//! The part of promptfoo's templates that needs no code: variables, their members, and filters that
//! only change a text.

use serde_json::{Map, Value};

use touchstone_kit::json::canonical_text;

/// Maximum size in bytes of a text after substitution: variables can refer to each other.
const MAX_OCTETS: usize = 4 << 20;

/// Why a template cannot be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfilled {
    /// It has statements, or expressions other than variables and simple filters.
    Code,
    /// It names a variable that the test does not set.
    UnknownVariable,
    /// The text would be too long.
    TooLong,
}

impl Unfilled {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Code => "a template with more than variables and simple filters",
            Self::UnknownVariable => "a template with a variable that the test does not set",
            Self::TooLong => "a template that becomes longer than 4 MiB",
        }
    }
}

/// Whether a text has markers of templates.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Whether any string in a value satisfies `is`.
pub fn any_string(value: &Value, is: fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, is)),
        Value::Object(members) => members.values().any(|member| any_string(member, is)),
        _ => false,
    }
}

/// Substitutes variables in all strings of a value.
///
/// # Errors
/// [`Unfilled`].
pub fn fill(value: &Value, vars: &Map<String, Value>) -> Result<Value, Unfilled> {
    match value {
        Value::String(text) => fill_text(text, vars).map(Value::String),
        Value::Array(items) => items
            .iter()
            .map(|item| fill(item, vars))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| Ok((name.clone(), fill(member, vars)?)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        plain => Ok(plain.clone()),
    }
}

/// Substitutes variables that refer to other variables.
///
/// # Errors
/// [`Unfilled`].
pub fn fill_variables(vars: Map<String, Value>) -> Result<Map<String, Value>, Unfilled> {
    let plain: Map<String, Value> = vars
        .iter()
        .filter(|(_, value)| !any_string(value, is_template))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    vars.into_iter()
        .map(|(name, value)| match plain.contains_key(&name) {
            true => Ok((name, value)),
            false => Ok((name, fill(&value, &plain)?)),
        })
        .collect()
}

fn fill_text(text: &str, vars: &Map<String, Value>) -> Result<String, Unfilled> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        if before.contains("{%") || before.contains("{#") {
            return Err(Unfilled::Code);
        }
        let (expression, after) = after.split_once("}}").ok_or(Unfilled::Code)?;
        filled.push_str(before);
        filled.push_str(&evaluate(expression, vars)?);
        if filled.len() > MAX_OCTETS {
            return Err(Unfilled::TooLong);
        }
        rest = after;
    }
    if rest.contains("{%") || rest.contains("{#") {
        return Err(Unfilled::Code);
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The text of `path | filter | …`.
fn evaluate(expression: &str, vars: &Map<String, Value>) -> Result<String, Unfilled> {
    let expression = expression.trim_matches('-').trim();
    let mut parts = expression.split('|').map(str::trim);
    let path = parts.next().unwrap_or_default();
    let value = look_up(path, vars)?;
    let mut text = match value {
        Value::String(text) => text.clone(),
        value => canonical_text(value),
    };
    for filter in parts {
        text = match filter {
            "upper" => text.to_uppercase(),
            "lower" => text.to_lowercase(),
            "trim" => text.trim().to_owned(),
            "capitalize" => capitalized(&text),
            "dump" | "tojson" => canonical_text(value),
            "safe" | "string" => text,
            _ => return Err(Unfilled::Code),
        };
    }
    Ok(text)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first
            .to_uppercase()
            .chain(chars.flat_map(char::to_lowercase))
            .collect(),
        None => String::new(),
    }
}

/// The value of a path such as `user.names[0]`.
fn look_up<'a>(path: &str, vars: &'a Map<String, Value>) -> Result<&'a Value, Unfilled> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut found: Option<&Value> = None;
    for (index, part) in path.split('.').enumerate() {
        let (name, positions) = match part.split_once('[') {
            Some((name, positions)) => (name, positions.strip_suffix(']').ok_or(Unfilled::Code)?),
            None => (part, ""),
        };
        if !is_name(name) {
            return Err(Unfilled::Code);
        }
        let members = match (index, found) {
            (0, _) => Some(vars),
            (_, Some(Value::Object(members))) => Some(members),
            _ => None,
        };
        let mut value = members
            .and_then(|members| members.get(name))
            .ok_or(Unfilled::UnknownVariable)?;
        for position in positions.split("][").filter(|it| !it.is_empty()) {
            let position: usize = position.trim().parse().map_err(|_| Unfilled::Code)?;
            value = value.get(position).ok_or(Unfilled::UnknownVariable)?;
        }
        found = Some(value);
    }
    found.ok_or(Unfilled::Code)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("plain", Ok("plain"))]
    #[case("{{name}} and {{- name -}}", Ok("Ann and Ann"))]
    #[case("{{ user.tags[1] | upper }}", Ok("B"))]
    #[case("{{ user | dump }}", Ok(r#"{"tags":["a","b"]}"#))]
    #[case("{{ missing }}", Err(Unfilled::UnknownVariable))]
    #[case("{{ user.missing.deep }}", Err(Unfilled::UnknownVariable))]
    #[case("{% if name %}x{% endif %}", Err(Unfilled::Code))]
    #[case("{{ name + 1 }}", Err(Unfilled::Code))]
    #[case("{{ name", Err(Unfilled::Code))]
    #[case("{{ name | replace('a', 'b') }}", Err(Unfilled::Code))]
    fn templates_with_variables_and_simple_filters_are_filled(
        #[case] text: &str,
        #[case] expected: Result<&str, Unfilled>,
    ) {
        let vars = json!({"name": "Ann", "user": {"tags": ["a", "b"]}});
        let filled = fill_text(text, vars.as_object().unwrap());
        assert_eq!(filled, expected.map(str::to_owned));
    }

    #[test]
    fn a_value_with_template_markers_is_not_a_template() {
        let vars = json!({"name": "{{ other }} {% x %}"});
        let filled = fill_text("Dear {{name}}", vars.as_object().unwrap());
        assert_eq!(filled.unwrap(), "Dear {{ other }} {% x %}");
    }
}
