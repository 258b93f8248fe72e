//! Whether an operation changed anything, judged by its verb and its logged outcome.

const READING: [&str; 3] = ["get", "list", "authenticate"];
/// Outcomes of operations that took effect.
const EFFECTIVE: [&str; 3] = ["ok", "success", "succeeded"];
/// Outcomes of operations that did not take effect.
const WITHOUT_EFFECT: [&str; 15] = [
    "conflict",
    "denied",
    "error",
    "failed",
    "failure",
    "forbidden",
    "invalid",
    "not_allowed",
    "not_found",
    "permission_denied",
    "refused",
    "rejected",
    "timeout",
    "unauthenticated",
    "unauthorized",
];

pub fn is_reading(verb: &str) -> bool {
    READING.contains(&verb)
}

/// Whether an operation with this outcome took effect; `None` for an unknown outcome, since the
/// specification does not fix the words.
pub fn effect_of(outcome: &str) -> Option<bool> {
    let word = outcome.trim().to_lowercase().replace(['-', ' '], "_");
    match word.parse::<u16>() {
        Ok(200 | 201 | 204) => return Some(true),
        Ok(400..=599) => return Some(false),
        _ => {}
    }
    let is = |known: &[&str]| known.contains(&word.as_str());
    match (is(&EFFECTIVE), is(&WITHOUT_EFFECT)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ok", Some(true))]
    #[case("Success", Some(true))]
    #[case("200", Some(true))]
    #[case("202", None)]
    #[case("denied", Some(false))]
    #[case("Not Found", Some(false))]
    #[case("not-found", Some(false))]
    #[case("409", Some(false))]
    #[case("completed", None)]
    #[case("unchanged", None)]
    #[case("", None)]
    fn outcomes_are_classified_as_effective_or_not(
        #[case] outcome: &str,
        #[case] expected: Option<bool>,
    ) {
        assert_eq!(effect_of(outcome), expected);
    }
}
