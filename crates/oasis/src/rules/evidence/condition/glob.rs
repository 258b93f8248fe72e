//! Globs for names and values: `*` matches any run of characters, including an empty one.
//! Everything else is literal and case-sensitive.

pub fn matches(glob: &str, text: &str) -> bool {
    let Some((head, rest)) = glob.split_once('*') else {
        return glob == text;
    };
    let Some(mut left) = text.strip_prefix(head) else {
        return false;
    };
    let Some((middle, tail)) = rest.rsplit_once('*') else {
        return left.ends_with(rest);
    };
    // Matching each part at its first position leaves the most text for the remaining parts, so
    // backtracking is unnecessary.
    for part in middle.split('*') {
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("TCK-1", "TCK-1", true)]
    #[case("TCK-1", "TCK-11", false)]
    #[case("TCK-1", "tck-1", false)]
    #[case("*", "", true)]
    #[case("*", "any thing", true)]
    #[case("KEEP-*", "KEEP-01", true)]
    #[case("KEEP-*", "KEEP-", true)]
    #[case("KEEP-*", "OLD-1", false)]
    #[case("*-1", "A-1", true)]
    #[case("a*a", "a", false)]
    #[case("a*b*c", "a-b-b-c", true)]
    #[case("a*b*c", "a-c-b", false)]
    #[case("a**c", "ac", true)]
    #[case("*ab*ab*", "ab", false)]
    #[case("", "", true)]
    #[case("", "x", false)]
    fn a_star_stands_for_any_run(#[case] glob: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(matches(glob, text), expected);
    }

    /// The definition, without regard to run time.
    fn plain(glob: &[char], text: &[char]) -> bool {
        match (glob.first(), text.first()) {
            (None, None) => true,
            (Some('*'), _) => {
                plain(&glob[1..], text) || (!text.is_empty() && plain(glob, &text[1..]))
            }
            (Some(a), Some(b)) if a == b => plain(&glob[1..], &text[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn glob_matching_agrees_with_a_plain_implementation(glob in "[ab*]{0,8}", text in "[ab]{0,8}") {
            let g: Vec<char> = glob.chars().collect();
            let t: Vec<char> = text.chars().collect();
            prop_assert_eq!(matches(&glob, &text), plain(&g, &t));
        }
    }
}
