//! Searches of the list of runs by words.

use touchstone_kit::error::Problem;

/// Maximum number of words.
pub const MAX_WORDS: usize = 4;
/// Maximum length of a word, in characters.
pub const MAX_WORD_CHARS: usize = 64;
/// The start of a run id; further characters follow.
const RUN: &str = "run_";

/// The words of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Each is a part of a name, in lower case.
    pub words: Vec<String>,
    /// The start of a run id, if a word looks like one.
    pub id_prefix: Option<String>,
}

impl Search {
    /// # Errors
    /// `validation_error` for too many or too long words, and for several run ids.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let all: Vec<&str> = text.split_whitespace().collect();
        if all.len() > MAX_WORDS {
            return Err(invalid(format!(
                "`q` must have at most {MAX_WORDS} words, got {}",
                all.len()
            )));
        }
        let mut search = Self::default();
        for word in all {
            if word.chars().count() > MAX_WORD_CHARS || word.contains('\0') {
                return Err(invalid(format!(
                    "each word of `q` must have at most {MAX_WORD_CHARS} characters"
                )));
            }
            match looks_like_id(word) {
                true if search.id_prefix.is_some() => {
                    return Err(invalid("`q` must have at most one run id".to_owned()));
                }
                true => search.id_prefix = Some(word.to_owned()),
                false => search.words.push(folded(word)),
            }
        }
        Ok(search)
    }
}

fn invalid(message: String) -> Problem {
    Problem::validation("q", message)
}

fn looks_like_id(word: &str) -> bool {
    let rest = word.strip_prefix(RUN).unwrap_or_default();
    !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A name as searches compare it.
pub fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// The pattern of names that contain a word; `\` quotes the characters that patterns give a
/// meaning.
pub fn pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for character in word.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", &[], None)]
    #[case("  Refund\tGPT ", &["refund", "gpt"], None)]
    #[case("run_01ab nightly", &["nightly"], Some("run_01ab"))]
    // Names that only start like an id.
    #[case("run_ run_tests", &["run_", "run_tests"], None)]
    #[case("ÄPFEL", &["äpfel"], None)]
    fn words_are_folded_and_ids_are_told_apart(
        #[case] text: &str,
        #[case] words: &[&str],
        #[case] id_prefix: Option<&str>,
    ) {
        let found = Search::parse(text).unwrap();
        assert_eq!(found.words, words);
        assert_eq!(found.id_prefix.as_deref(), id_prefix);
    }

    #[test]
    fn limits_are_refused_and_named() {
        let long = "x".repeat(MAX_WORD_CHARS);
        assert!(Search::parse(&long).is_ok());
        for text in ["a b c d e", &format!("{long}x"), "run_1 run_2", "a\0"] {
            let problem = Search::parse(text).unwrap_err();
            assert!(problem.message.contains("`q`"), "{problem:?}");
        }
    }

    #[test]
    fn patterns_have_no_other_meaning() {
        assert_eq!(pattern(r"50%_a\b"), r"%50\%\_a\\b%");
    }
}
