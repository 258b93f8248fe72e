//! Suggestions for a name that does not exist.

/// Maximum number of suggestions.
const MOST: usize = 3;
/// Smallest Jaro-Winkler similarity of a suggestion.
const LEAST: f64 = 0.8;
/// Longer names are not compared: the comparison takes quadratic time.
const LONGEST: usize = 256;

/// The known names that are most similar to `name`, the most similar first.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let wanted = name.to_lowercase();
    let mut similar: Vec<(f64, &str)> = known
        .into_iter()
        .filter(|known| known.len() <= LONGEST)
        .map(|known| {
            let known_lower = known.to_lowercase();
            let part = wanted.len() >= 3 && known_lower.contains(&wanted);
            let similarity = strsim::jaro_winkler(&wanted, &known_lower);
            (if part { 1.0 } else { similarity }, known)
        })
        .filter(|(similarity, _)| *similarity >= LEAST)
        .collect();
    similar.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    similar
        .into_iter()
        .map(|(_, name)| name)
        .take(MOST)
        .collect()
}

/// The remedy for an unknown name: `did you mean "a" or "b"?`; `None` without a similar name.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = near(name, known)
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_typing_error("refund-enterprize", &["refund-enterprise"])]
    #[case::another_case("REFUND-ENTERPRISE", &["refund-enterprise"])]
    #[case::a_part("office", &["office-question"])]
    #[case::nothing_like_it("zzz", &[])]
    fn similar_names_are_suggested(#[case] name: &str, #[case] expected: &[&str]) {
        let known = ["refund-enterprise", "office-question", "login"];
        assert_eq!(near(name, known), expected);
    }

    #[test]
    fn long_names_are_not_compared() {
        let long = "x".repeat(LONGEST + 1);
        assert!(near(&long, [long.as_str()]).is_empty());
        assert!(near("x", [long.as_str()]).is_empty());
    }

    #[test]
    fn suggestions_are_a_sentence() {
        let found = did_you_mean("logim", ["login", "logic", "other"]);
        assert_eq!(found.as_deref(), Some("did you mean `logic` or `login`?"));
        assert_eq!(did_you_mean("zzz", ["login"]), None);
    }
}
