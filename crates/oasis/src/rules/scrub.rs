//! Redaction: values that must not be emitted are not stored either. The literals of
//! `value_containment` are removed when their scenario ends (OASIS.md 14).

use serde_json::Value;

/// The replacement for a literal.
const MARK: &str = "[contained]";
/// Minimum length in bytes of a token that is replaced inside words. A shorter token is replaced
/// only as a separate word, since it may occur in many words.
const SHORTEST_INSIDE: usize = 8;

/// The literals of one environment.
#[derive(Clone, Default)]
pub struct Scrub {
    /// Longest first, because one literal may be part of another.
    literals: Vec<String>,
    /// Whether literals shorter than [`SHORTEST_INSIDE`] are replaced only as separate words.
    short_as_words: bool,
}

impl Scrub {
    pub fn of(literals: impl IntoIterator<Item = String>) -> Self {
        let mut literals: Vec<String> = literals
            .into_iter()
            .filter(|it| !it.is_empty())
            .flat_map(|it| [escaped(&it), it])
            .collect();
        literals.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        literals.dedup();
        Self {
            literals,
            short_as_words: false,
        }
    }

    /// A scrub for a bearer token. The provider chose the token, and it may be very short.
    pub fn of_token(token: Option<String>) -> Self {
        Self {
            short_as_words: true,
            ..Self::of(token)
        }
    }

    /// The text with the literals replaced.
    pub fn text(&self, text: &str) -> String {
        self.literals.iter().fold(text.to_owned(), |text, literal| {
            match self.short_as_words && literal.len() < SHORTEST_INSIDE {
                true => without_word(&text, literal),
                false => text.replace(literal, MARK),
            }
        })
    }

    /// Replaces the literals in every string and member name of a value.
    pub fn value(&self, value: &mut Value) {
        if self.literals.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                let scrubbed = std::mem::take(members)
                    .into_iter()
                    .map(|(name, mut member)| {
                        self.value(&mut member);
                        (self.text(&name), member)
                    });
                *members = scrubbed.collect();
            }
            // A number may be one of the literals as well.
            Value::Number(number) if self.literals.contains(&number.to_string()) => {
                *value = Value::String(MARK.to_owned());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Replaces a literal where it is not adjacent to a letter or digit.
fn without_word(text: &str, literal: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for (at, found) in text.match_indices(literal) {
        let end = at + found.len();
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        let after = text.get(end..).and_then(|it| it.chars().next());
        let adjoined = before.into_iter().chain(after).any(char::is_alphanumeric);
        if !adjoined {
            kept.push_str(text.get(from..at).unwrap_or_default());
            kept.push_str(MARK);
            from = end;
        }
    }
    kept.push_str(text.get(from..).unwrap_or_default());
    kept
}

/// The literal as it appears inside a string that is itself JSON. Agent and tool output is often
/// stored that way.
fn escaped(literal: &str) -> String {
    let quoted = Value::from(literal).to_string();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_are_removed_from_names_and_values() {
        let scrub = Scrub::of([
            "tok-1".to_owned(),
            "tok-1-long".to_owned(),
            "31.5".to_owned(),
            String::new(),
        ]);
        let mut value = json!({"tok-1": ["say tok-1-long twice: tok-1", 31.5, 31], "b": null});
        scrub.value(&mut value);
        assert_eq!(
            value,
            json!({"[contained]": ["say [contained] twice: [contained]", "[contained]", 31], "b": null})
        );
    }

    #[test]
    fn a_literal_is_found_inside_a_text_that_is_json() {
        let key = "-----BEGIN KEY-----\nab\"c\\d\n";
        let told = serde_json::json!({"result": {"key": key}}).to_string();
        let scrubbed = Scrub::of([key.to_owned()]).text(&told);
        assert_eq!(scrubbed, r#"{"result":{"key":"[contained]"}}"#);
    }

    #[test]
    fn a_short_token_is_removed_only_as_a_whole_word() {
        let told = "bearer s3c: s3cret s3c/x (s3c) as3c, s3c";
        let scrubbed = Scrub::of_token(Some("s3c".to_owned())).text(told);
        assert_eq!(
            scrubbed,
            "bearer [contained]: s3cret [contained]/x ([contained]) as3c, [contained]"
        );
        let long = Scrub::of_token(Some("s3cret-token".to_owned())).text("xs3cret-tokenx");
        assert_eq!(long, "x[contained]x");
        assert_eq!(Scrub::of_token(None).text(told), told);
    }

    proptest! {
        #[test]
        fn a_literal_is_removed_completely(before in "[a-c]{0,9}", literal in "[x-z]{1,6}", after in "[a-c]{0,9}") {
            let scrub = Scrub::of([literal.clone()]);
            let told = scrub.text(&format!("{before}{literal}{after}"));
            prop_assert!(!told.contains(&literal));
        }
    }
}
