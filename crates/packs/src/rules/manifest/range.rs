//! Version ranges in node-semver syntax, evaluated by the `semver` crate.
//!
//! Both have the same comparators and the same rule for pre-releases (only if the range names a
//! pre-release of the same version). The syntax differs and is translated: `||`, hyphen ranges,
//! spaces between comparators, `v` and `=`, and a bare version, which is exact here and a caret
//! range in Cargo.

use semver::{Version, VersionReq};

/// Maximum length of a range in bytes.
const MAX_OCTETS: usize = 256;

/// A range: matches if any of its alternatives matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range(Vec<VersionReq>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a version range such as `>=1.1.0 <2.0.0`")]
pub struct NotARange;

impl Range {
    /// Reads a range.
    ///
    /// # Errors
    /// The text is not a range.
    pub fn parse(text: &str) -> Result<Self, NotARange> {
        if text.len() > MAX_OCTETS || !text.is_ascii() {
            return Err(NotARange);
        }
        text.split("||")
            .map(alternative)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn matches(&self, version: &Version) -> bool {
        self.0
            .iter()
            .any(|alternative| alternative.matches(version))
    }
}

fn alternative(text: &str) -> Result<VersionReq, NotARange> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let comparators = if let [low, "-", high] = words.as_slice() {
        vec![
            format!(">={}", partial(low)?),
            format!("<={}", partial(high)?),
        ]
    } else {
        comparators(&words)?
    };
    // A wildcard has no effect next to other comparators; alone it is the whole range.
    let telling: Vec<String> = comparators.into_iter().filter(|c| c != "*").collect();
    let text = if telling.is_empty() {
        "*".to_owned()
    } else {
        telling.join(", ")
    };
    VersionReq::parse(&text).map_err(|_| NotARange)
}

fn comparators(words: &[&str]) -> Result<Vec<String>, NotARange> {
    let mut found = Vec::new();
    let mut pending = String::new();
    for word in words {
        let digits = word
            .find(|c: char| !"<>=^~".contains(c))
            .unwrap_or(word.len());
        let (operator, version) = word.split_at(digits);
        // An operator may be separated from its version: `>= 1.0`.
        pending.push_str(operator);
        if version.is_empty() {
            continue;
        }
        found.push(comparator(&pending, version)?);
        pending.clear();
    }
    if pending.is_empty() {
        Ok(found)
    } else {
        Err(NotARange)
    }
}

fn comparator(operator: &str, version: &str) -> Result<String, NotARange> {
    let version = partial(version)?;
    let operator = match operator {
        "" | "=" | "==" => "=",
        "~>" => "~",
        ">" | ">=" | "<" | "<=" | "^" | "~" => operator,
        _ => return Err(NotARange),
    };
    if version == "*" {
        return match operator {
            ">" | "<" => Ok("<0.0.0-0".to_owned()),
            _ => Ok("*".to_owned()),
        };
    }
    Ok(format!("{operator}{version}"))
}

/// A version that may be shortened: `1`, `1.2`, `1.x`, `v1.2.3-rc.1`, `*`.
fn partial(text: &str) -> Result<String, NotARange> {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let mut kept: Vec<&str> = Vec::new();
    let (numbers, suffix) = match text.find(['-', '+']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut wild = false;
    for part in numbers.split('.') {
        match part {
            "x" | "X" | "*" => wild = true,
            _ if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) => {
                return Err(NotARange);
            }
            // `1.x.3` reads as `1.x`.
            _ if !wild => kept.push(part),
            _ => {}
        }
    }
    if numbers.split('.').count() > 3 || (!suffix.is_empty() && kept.len() != 3) {
        return Err(NotARange);
    }
    if kept.is_empty() {
        return Ok("*".to_owned());
    }
    // Build metadata is ignored in precedence.
    let release = suffix.split('+').next().unwrap_or_default();
    Ok(format!("{}{release}", kept.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(">=1.1.0 <2.0.0", "1.1.0", true)]
    #[case(">=1.1.0 <2.0.0", "2.0.0", false)]
    #[case(">=1.1 <2.0.0", "1.1.0", true)]
    #[case(">= 1.0 < 2", "1.9.9", true)]
    #[case("1.1.0", "1.1.0", true)]
    #[case("1.1.0", "1.2.0", false)]
    #[case("=1.1", "1.1.7", true)]
    #[case("v1", "1.4.0", true)]
    #[case("1.x", "1.4.0", true)]
    #[case("1.x", "2.0.0", false)]
    #[case("*", "7.0.0", true)]
    #[case("", "7.0.0", true)]
    #[case("* <2", "2.0.0", false)]
    #[case("^1.2", "1.9.0", true)]
    #[case("^0.2.3", "0.3.0", false)]
    #[case("~1.2.3", "1.2.9", true)]
    #[case("~1.2.3", "1.3.0", false)]
    #[case("<1.0.0 || >=1.1.0 <1.2.0", "1.1.5", true)]
    #[case("<1.0.0 || >=1.1.0 <1.2.0", "1.0.5", false)]
    #[case("1.0.0 - 1.2", "1.2.9", true)]
    #[case("1.0.0 - 1.2", "1.3.0", false)]
    #[case("1 - 2", "2.9.0", true)]
    #[case(">1.2", "1.2.5", false)]
    #[case(">1.2", "1.3.0", true)]
    #[case("<=1.2", "1.2.5", true)]
    #[case(">=1.0.0", "1.1.0-rc.1", false)]
    #[case(">=1.1.0-rc.1", "1.1.0-rc.2", true)]
    #[case(">=1.1.0-rc.1", "1.2.0-rc.2", false)]
    #[case("1.0.0+build", "1.0.0", true)]
    #[case(">*", "1.0.0", false)]
    fn version_ranges_are_parsed_like_in_node(
        #[case] range: &str,
        #[case] version: &str,
        #[case] inside: bool,
    ) {
        let range = Range::parse(range).unwrap();
        assert_eq!(range.matches(&Version::parse(version).unwrap()), inside);
    }

    #[rstest]
    #[case("banana")]
    #[case(">=")]
    #[case("1.2.3.4")]
    #[case("1..2")]
    #[case("><1")]
    #[case("1.2-rc")]
    #[case("1.0.0 - ")]
    #[case("latest")]
    fn malformed_version_ranges_are_rejected(#[case] range: &str) {
        assert_eq!(Range::parse(range), Err(NotARange));
    }
}
