//! Names that are similar to a misspelled one.

/// Maximum number of names that are suggested.
const MOST: usize = 3;
/// Shorter texts are parts of too many names.
const SHORTEST_PART: usize = 3;

/// The names that are most similar to `text`, best first: those with few typing errors, and those
/// that contain it.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let asked = text.to_lowercase();
    let tolerated = asked.chars().count() / 4 + 1;
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let known = name.to_lowercase();
            let errors = strsim::osa_distance(&asked, &known);
            let is_part = asked.len() >= SHORTEST_PART && known.contains(&asked);
            (errors <= tolerated || is_part).then_some((errors, name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(MOST).collect()
}

/// `; did you mean …?` if there are similar names.
pub fn did_you_mean<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(text, names).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
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
    fn similar_names_are_suggested(#[case] text: &str, #[case] near: &[&str]) {
        assert_eq!(nearest(text, NAMES), near);
    }

    #[test]
    fn a_suggestion_is_a_question() {
        assert_eq!(
            did_you_mean("vendor.other.agnt", NAMES),
            "; did you mean vendor.other.agent?"
        );
        assert_eq!(did_you_mean("x", NAMES), "");
    }
}
