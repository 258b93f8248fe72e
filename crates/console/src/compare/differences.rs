//! The settings in which two runs differ, in words.

use touchstone_host::render::words::plain;
use touchstone_runs::render::comparison::{setting, setting_value};

pub struct Difference {
    pub what: String,
    pub baseline: String,
    pub candidate: String,
}

impl Difference {
    pub fn of(found: &touchstone_runs::rules::eval::comparison::Difference) -> Self {
        Self {
            what: capitalized(setting(&found.what)),
            baseline: plain(&setting_value(&found.baseline)),
            candidate: plain(&setting_value(&found.candidate)),
        }
    }
}

fn capitalized(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use touchstone_runs::rules::eval::comparison::Difference as Found;

    #[test]
    fn differences_have_names_and_values_for_people() {
        let found = Difference::of(&Found {
            what: "packIntegrity".to_owned(),
            baseline: json!(format!("sha256-{}", "a".repeat(44))),
            candidate: json!(null),
        });
        assert_eq!(found.what, "Pack's digest");
        assert!(found.baseline.starts_with("sha256-aaa") && found.baseline.ends_with('…'));
        assert_eq!(found.candidate, "none");
    }
}
