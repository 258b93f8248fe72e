//! Operation patterns: `VERBS KIND/NAME [key=value ...]`, matched against entries of an audit log.
//!
//! ```text
//! pattern = verbs " " target *( " " key "=" value )
//! verbs   = "*" / verb *( "|" verb )
//! target  = "*" / kind "/" name            ; "*" in a name is any run of characters
//! ```
//!
//! The key `workspace` refers to the entry's own workspace; every other key is a request parameter,
//! compared as a string. A key that the entry lacks never matches. Attempts count regardless of
//! their outcome.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::glob;
use crate::rules::evidence::observation::audit::AuditEntry;

/// The operations on a resource. The list is closed: an unknown verb would make a rule that never
/// matches.
pub const VERBS: [&str; 9] = [
    "get",
    "list",
    "create",
    "update",
    "delete",
    "send",
    "approve",
    "authenticate",
    "run",
];

/// The key for the entry's own workspace.
const WORKSPACE: &str = "workspace";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// `None` matches any verb.
    verbs: Option<Vec<String>>,
    /// Kind and name; `None` matches any resource.
    target: Option<(String, String)>,
    /// Keys and globs.
    conditions: Vec<(String, String)>,
}

/// Why a text is not a valid pattern, with the expected syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an operation pattern: {0}; write `VERBS KIND/NAME [key=value ...]`")]
pub struct PatternFault(String);

impl Pattern {
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        let verb = match &self.verbs {
            None => true,
            Some(verbs) => verbs.contains(&entry.verb),
        };
        let target = match &self.target {
            None => true,
            Some((kind, name)) => *kind == entry.kind && glob::matches(name, &entry.name),
        };
        verb && target && self.conditions.iter().all(|one| holds(one, entry))
    }
}

fn holds((key, glob): &(String, String), entry: &AuditEntry) -> bool {
    if key == WORKSPACE {
        return entry
            .workspace
            .as_deref()
            .is_some_and(|workspace| glob::matches(glob, workspace));
    }
    entry
        .parameters
        .get(key)
        .is_some_and(|value| glob::matches(glob, &as_text(value)))
}

/// A parameter as patterns compare it: strings without quotes, everything else as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl FromStr for Pattern {
    type Err = PatternFault;

    fn from_str(text: &str) -> Result<Self, PatternFault> {
        let fault = |words: String| Err(PatternFault(words));
        let mut words = text.split_whitespace();
        let (Some(verbs), Some(target)) = (words.next(), words.next()) else {
            return fault("it has fewer than two words".to_owned());
        };
        let verbs = match verbs {
            "*" => None,
            some => Some(some.split('|').map(str::to_owned).collect::<Vec<_>>()),
        };
        if let Some(unknown) = verbs
            .iter()
            .flatten()
            .find(|verb| !VERBS.contains(&verb.as_str()))
        {
            return fault(format!(
                "`{unknown}` is not a verb, the verbs are {}",
                VERBS.join(", ")
            ));
        }
        let target = match target {
            "*" => None,
            some => match some.split_once('/') {
                Some((kind, name))
                    if !kind.is_empty() && !kind.contains('*') && !name.is_empty() =>
                {
                    Some((kind.to_owned(), name.to_owned()))
                }
                _ => return fault(format!("`{some}` is neither `KIND/NAME` nor `*`")),
            },
        };
        let mut conditions: Vec<(String, String)> = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    conditions.push((key.to_owned(), value.to_owned()));
                }
                _ => return fault(format!("`{word}` is not `key=value`")),
            }
        }
        Ok(Self {
            text: text.trim().to_owned(),
            verbs,
            target,
            conditions,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::evidence::OmittedMembers;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    fn entry() -> AuditEntry {
        AuditEntry {
            at: jiff::Timestamp::UNIX_EPOCH,
            verb: "update".to_owned(),
            kind: "record".to_owned(),
            name: "TCK-1".to_owned(),
            workspace: Some("support".to_owned()),
            user: "agent".to_owned(),
            parameters: json!({"rows": 500_000, "done": true, "for": "record/A=1", "note": "", "list": [1, "b"]})
                .as_object()
                .unwrap()
                .clone(),
            outcome: None,
            omitted: OmittedMembers::default(),
        }
    }

    #[rstest]
    #[case("update record/TCK-1", true)]
    #[case("get|update record/*", true)]
    #[case("get|list record/*", false)]
    #[case("* *", true)]
    #[case("* * workspace=support", true)]
    #[case("* * workspace=Support", false)]
    #[case("* * workspace=sup*", true)]
    #[case("update job/*", false)]
    #[case("update Record/*", false)]
    #[case("update record/TCK", false)]
    #[case("update record/* rows=500000", true)]
    #[case("update record/* rows=5", false)]
    #[case("update record/* done=true", true)]
    #[case("update record/* done=True", false)]
    #[case("update record/* for=record/A=1", true)]
    #[case("update record/* note=*", true)]
    #[case("update record/* note=", true)]
    #[case("update record/* tag=*", false)]
    #[case("update record/* rows=500000 done=false", false)]
    #[case("update record/* list=[1,\"b\"]", true)]
    fn patterns_match_verb_resource_and_parameters(#[case] pattern: &str, #[case] expected: bool) {
        let pattern: Pattern = pattern.parse().unwrap();
        assert_eq!(pattern.matches(&entry()), expected, "{pattern}");
    }

    #[test]
    fn a_workspace_that_is_missing_never_matches() {
        let without = AuditEntry {
            workspace: None,
            ..entry()
        };
        assert!(
            !"* * workspace=*"
                .parse::<Pattern>()
                .unwrap()
                .matches(&without)
        );
        assert!("* *".parse::<Pattern>().unwrap().matches(&without));
    }

    #[rstest]
    #[case("", "fewer than two")]
    #[case("delete", "fewer than two")]
    #[case("restart record/A", "`restart` is not a verb")]
    #[case("delete|drop record/A", "`drop` is not a verb")]
    #[case("delete| record/A", "`` is not a verb")]
    #[case("delete record", "neither")]
    #[case("delete /A", "neither")]
    #[case("delete record/", "neither")]
    #[case("delete */A", "neither")]
    #[case("delete record/A now", "`now` is not")]
    #[case("delete record/A =x", "`=x` is not")]
    fn invalid_patterns_are_rejected_with_a_reason(#[case] text: &str, #[case] words: &str) {
        let fault = text.parse::<Pattern>().unwrap_err().to_string();
        assert!(fault.contains(words), "{fault}");
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_patterns_does_not_panic(text in "[a-z*/|= ]{0,24}|\\PC{0,24}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                pattern.matches(&entry());
                prop_assert_eq!(pattern.to_string().parse::<Pattern>().unwrap(), pattern);
            }
        }

        #[test]
        fn the_pattern_of_an_entry_matches_it(name in "[A-Z]{1,4}-[0-9]{1,3}", workspace in "[a-z]{1,8}") {
            let text = format!("update record/{name} workspace={workspace}");
            let found = AuditEntry { name, workspace: Some(workspace), ..entry() };
            prop_assert!(text.parse::<Pattern>().unwrap().matches(&found));
        }
    }
}
