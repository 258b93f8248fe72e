//! Limits that keep every assertion fast, whatever an author writes and a model answers.

use std::sync::LazyLock;

use moka::sync::Cache;
use regex::{Regex, RegexBuilder};

use super::checks;

/// Assertions of one list.
pub const MAX_ASSERTIONS: usize = 200;
/// Levels of combinators.
pub const MAX_NESTING: usize = 8;
/// References of `similar`, and bytes of all of them: each one is a call's tokens.
pub const MAX_REFERENCES: usize = 32;
pub const MAX_REFERENCE_BYTES: usize = 64 * 1024;
/// Bytes of the name of a `command`.
pub const MAX_COMMAND_NAME: usize = 200;
/// Names of metrics of one document.
pub const MAX_METRICS: usize = 100;
/// Characters of a metric's name.
pub const MAX_METRIC_CHARS: usize = 64;
/// Tags of one task.
pub const MAX_TAGS: usize = 50;
pub const MAX_TAG_CHARS: usize = 64;
/// Bytes of one text that a judge is given by the document.
pub const MAX_JUDGED_TEXT: usize = 64 * 1024;
/// Criteria of one assertion.
pub const MAX_CRITERIA: usize = 50;
/// Parts of a context, and items that a judge decides about, of one assertion.
pub const MAX_PARTS: usize = 200;
/// Bytes of a regular expression, and of its compiled form. Matching takes at most the product of
/// the compiled form and the text.
const MAX_PATTERN: usize = 4 * 1024;
const MAX_COMPILED: usize = 512 * 1024;
/// Steps of one evaluation: about a second of work. Real answers need a tiny part of it.
pub const MAX_STEPS: u64 = 500_000_000;

/// Whether a name has only characters that reports and command lines can show.
pub fn is_label(name: &str, max_chars: usize) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " _-./:".contains(c);
    let length = name.chars().count();
    (1..=max_chars).contains(&length) && name.trim() == name && name.chars().all(allowed)
}

/// Compiles a regular expression that runs in linear time.
///
/// # Errors
/// Its fault, without quoting it.
pub fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err("is longer than 4096 bytes; split it into several assertions".to_owned());
    }
    let key = (pattern.to_owned(), ignore_case);
    if let Some(compiled) = COMPILED.get(&key) {
        return Ok(compiled);
    }
    let compiled = RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "is too large when compiled; use smaller \
                 repetitions, or [0-9A-Za-z_] instead of \\w"
                .to_owned(),
            _ => reason(&error),
        })?;
    COMPILED.insert(key, compiled.clone());
    Ok(compiled)
}

/// The patterns that were used last, by text and `ignoreCase`. Tasks often share their patterns,
/// and compiling one takes longer than the rest of an evaluation. With [`MAX_COMPILED`], they take
/// at most about 32 MiB.
static COMPILED: LazyLock<Cache<(String, bool), Regex>> = LazyLock::new(|| Cache::new(32));

/// The last line of a parser's message; the lines before draw the place.
fn reason(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    let reason = last.trim().trim_start_matches("error: ");
    // The parser says so itself if the pattern has look-around or back-references.
    format!("is not a regular expression in the supported syntax: {reason}")
}

impl checks::Regex {
    /// # Errors
    /// As [`compile`].
    pub fn compile(&self) -> Result<Regex, String> {
        compile(&self.pattern, self.ignore_case)
    }
}
