//! Names that are similar to a misspelled one.

/// Maximum number of names that are suggested.
const MOST: usize = 3;
/// Shorter texts are parts of too many names.
const SHORTEST_PART: usize = 3;
/// Characters. Longer names are not compared: the comparison takes quadratic time.
const LONGEST: usize = 256;

/// The names that are most similar to `text`, best first: those with few typing errors, and those
/// that contain it.
pub fn near<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let asked = text.to_lowercase();
    let length = asked.chars().count();
    if length > LONGEST {
        return Vec::new();
    }
    let tolerated = length / 4 + 1;
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .filter_map(|name| {
            let known = name.to_lowercase();
            let errors = strsim::osa_distance(&asked, &known);
            let is_part = length >= SHORTEST_PART && known.contains(&asked);
            (errors <= tolerated || is_part).then_some((errors, name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(MOST).collect()
}

/// `did you mean a or b?`; `None` without a similar name.
pub fn did_you_mean<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = near(text, names);
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NAMES: [&str; 4] = [
        "vendor.acme.triage.default",
        "vendor.acme.triage.fast",
        "vendor.acme.summary.default",
        "vendor.other.agent",
    ];

    #[rstest]
    #[case::typing_error("vendor.acme.traige.default", &["vendor.acme.triage.default", "vendor.acme.triage.fast", "vendor.acme.summary.default"])]
    #[case::part("triage", &["vendor.acme.triage.fast", "vendor.acme.triage.default"])]
    #[case::letter_case("VENDOR.OTHER.AGENT", &["vendor.other.agent"])]
    #[case::short("ag", &[])]
    #[case::different("classifier", &[])]
    fn similar_names_are_suggested(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(near(text, NAMES), expected);
    }

    #[test]
    fn long_names_are_not_compared() {
        let long = "x".repeat(LONGEST + 1);
        assert!(near(&long, [long.as_str()]).is_empty());
        assert!(near("xxx", [long.as_str()]).is_empty());
    }

    #[test]
    fn suggestions_are_a_question() {
        let found = did_you_mean("logim", ["login", "logic", "other"]);
        assert_eq!(found.as_deref(), Some("did you mean logic or login?"));
        assert_eq!(did_you_mean("zzz", ["login"]), None);
    }
}
