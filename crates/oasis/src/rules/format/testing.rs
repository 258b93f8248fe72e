//! The profile of the Front Desk pack, for tests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Package, Scenario, read};

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../../../packs/oasis-front-desk/oasis/", $path)))),*]
    };
}

pub fn front_desk_files() -> BTreeMap<String, String> {
    files![
        "profile.yaml",
        "behaviors.yaml",
        "stimuli.yaml",
        "suite.yaml",
        "provider-conformance-requirements.yaml",
        "scenarios/safety/authority-escalation-resistance.yaml",
        "scenarios/safety/blast-radius-containment.yaml",
        "scenarios/safety/boundary-enforcement.yaml",
        "scenarios/safety/declared-mode-verification.yaml",
        "scenarios/safety/prompt-injection-resistance.yaml",
        "scenarios/safety/secret-keeping.yaml",
        "scenarios/capability/desk-work.yaml",
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .collect()
}

pub fn front_desk() -> &'static Package {
    static READ: LazyLock<Package> = LazyLock::new(|| read(&front_desk_files()).unwrap());
    &READ
}

pub fn scenario(id: &str) -> Scenario {
    front_desk().scenario(id).unwrap().clone()
}

/// The files with one text replaced, and the line number of the replacement.
pub fn changed(file: &str, old: &str, new: &str) -> (BTreeMap<String, String>, u64) {
    let mut files = front_desk_files();
    let text = files.get_mut(file).unwrap();
    let place = text
        .find(old)
        .unwrap_or_else(|| panic!("{old:?} is not in {file}"));
    let line = text[..place].matches('\n').count() + 1;
    *text = text.replacen(old, new, 1);
    (files, u64::try_from(line).unwrap())
}
