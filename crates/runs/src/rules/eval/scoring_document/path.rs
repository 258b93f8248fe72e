//! JSON Paths (RFC 9535) whose evaluation takes time linear in the answer.
//!
//! The standard allows paths whose results multiply: each `..` can repeat every descendant, and
//! `[*,*][*,*]` doubles the results per segment. A path has at most one `..`, no lists of
//! selectors, and no `$` inside of filters.

use serde_json_path::JsonPath;

const MAX_PATH: usize = 512;
/// Brackets and parentheses; the parser recurses.
const MAX_DEPTH: usize = 16;

/// # Errors
/// The fault of the path.
pub fn parse(path: &str) -> Result<JsonPath, String> {
    check(path)?;
    JsonPath::parse(path).map_err(|error| {
        let at = error.position() + 1;
        let reason = error.message();
        format!(
            "is not a JSON Path (RFC 9535): {reason} (character {at}); the functions `match` and \
             `search` are not supported"
        )
    })
}

fn check(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH {
        return Err(format!("is longer than {MAX_PATH} bytes"));
    }
    let (mut open, mut quote, mut escaped) = (Vec::new(), None, false);
    let (mut descents, mut roots, mut after_dot) = (0, 0, false);
    for c in path.chars() {
        if let Some(end) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == end => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '[' | '(' => open.push(c),
            ']' | ')' => {
                open.pop();
            }
            ',' if open.last() != Some(&'(') => {
                return Err(
                    "selects with a list (`[a,b]`), which is not supported; use one \
                            assertion per selector"
                        .to_owned(),
                );
            }
            '$' => roots += 1,
            '.' if after_dot => descents += 1,
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            return Err(format!("has more than {MAX_DEPTH} nested brackets"));
        }
        after_dot = c == '.' && !after_dot;
    }
    if descents > 1 {
        return Err("has `..` more than once; name the members on the way instead".to_owned());
    }
    if roots > 1 {
        return Err("refers to `$` in a filter; only `@` is supported there".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("$", true)]
    #[case("$.a[0]['b,c']", true)]
    #[case("$..book[?@.price < 10 && @.isbn].title", true)]
    #[case("$[?count(@.*) > 1]", true)]
    #[case("$.a[1:3]", true)]
    #[case::twice("$..a..b", false)]
    #[case::list("$['a','b']", false)]
    #[case::list_in_a_call("$[?count(@[*,*]) > 1]", false)]
    #[case::root("$[?@.a == $.b]", false)]
    #[case::no_path("a.b", false)]
    #[case::empty("", false)]
    #[case::unsupported("$[?search(@.a, 'x')]", false)]
    fn only_paths_of_linear_time_are_accepted(#[case] path: &str, #[case] accepted: bool) {
        assert_eq!(parse(path).is_ok(), accepted, "{:?}", parse(path));
    }

    #[test]
    fn too_long_and_too_deep_paths_are_refused() {
        assert!(parse(&format!("$.{}", "a".repeat(600))).is_err());
        assert!(parse(&format!("$[?{}@.a{}]", "(".repeat(50), ")".repeat(50))).is_err());
    }

    #[test]
    fn a_filter_selects_the_documented_nodes() {
        let store = json!({"book": [{"price": 8, "title": "A"}, {"price": 12, "title": "B"}]});
        let path = parse("$..book[?@.price < 10].title").unwrap();
        assert_eq!(path.query(&store).all(), [&json!("A")]);
    }
}
