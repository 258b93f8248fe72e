//! Entry names: one spelling per file, safe on every file system.

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;

/// Checks a name and strips a leading `./`. A folder's name may end in `/`; the root's name is
/// empty.
pub(super) fn check(name: &[u8], folder: bool) -> Result<String, &'static str> {
    let text = std::str::from_utf8(name).map_err(|_| "an entry name is not UTF-8")?;
    if text.is_empty() {
        return Err("an entry has no name");
    }
    let mut rest = text.strip_prefix("./").unwrap_or(text);
    if folder {
        rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() || rest == "." {
            return Ok(String::new());
        }
    }
    segments(rest)?;
    Ok(rest.to_owned())
}

/// The rules for a relative path, shared with references.
pub(in crate::rules) fn segments(path: &str) -> Result<(), &'static str> {
    if path.contains('\\') {
        return Err("a path has a backslash");
    }
    if path.chars().any(char::is_control) {
        return Err("a path has a control character");
    }
    if path.as_bytes().get(1) == Some(&b':') && path.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        return Err("a path starts with a drive letter");
    }
    if path.starts_with('/') {
        return Err("a path is absolute");
    }
    for segment in path.split('/') {
        match segment {
            "" => return Err("a path has an empty segment"),
            "." | ".." => return Err("a path has a `.` or `..` segment"),
            _ if segment.ends_with(['.', ' ']) => {
                return Err("a path segment ends in a dot or a space");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Maps names to a form in which names that some file system treats as the same file are equal.
pub(super) fn fold(name: &str) -> String {
    name.chars().nfd().default_case_fold().nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Prompts/Agent.md", "prompts/agent.md")]
    #[case("e\u{301}", "\u{e9}")]
    #[case("STRASSE", "stra\u{df}e")]
    #[case("\u{212b}", "\u{e5}")]
    fn names_that_collide_on_a_file_system_fold_together(#[case] one: &str, #[case] other: &str) {
        assert_eq!(fold(one), fold(other));
    }

    #[rstest]
    #[case("docs/notes..v2.md", true)]
    #[case("./a/b", true)]
    #[case("..a/b..c", true)]
    #[case(".hidden", true)]
    #[case("././a", false)]
    #[case("a/../b", false)]
    #[case("a/./b", false)]
    #[case("a//b", false)]
    #[case("a/", false)]
    #[case("/a", false)]
    #[case("C:a", false)]
    #[case("a\\b", false)]
    #[case("a\nb", false)]
    #[case("a\u{85}b", false)]
    #[case("a.", false)]
    #[case("a /b", false)]
    #[case("", false)]
    fn entry_names_must_stay_inside_the_archive(#[case] name: &str, #[case] sound: bool) {
        assert_eq!(check(name.as_bytes(), false).is_ok(), sound);
    }
}
