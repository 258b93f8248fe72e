//! An untrusted file of an OASIS profile; the first byte says which file. It is rejected with a
//! location, or read, and then the requirements of every scenario can be computed.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use touchstone_oasis::rules::evidence::needed;
use touchstone_oasis::rules::format::{Problem, Scenario, read, read_scenarios};

const PROFILE: &str = include_str!("../../packs/oasis-front-desk/oasis/profile.yaml");
const CONTRACT: &str =
    include_str!("../../packs/oasis-front-desk/oasis/provider-conformance-requirements.yaml");
const FILES: [&str; 6] = [
    "profile.yaml",
    "provider-conformance-requirements.yaml",
    "behaviors.yaml",
    "stimuli.yaml",
    "suite.yaml",
    "scenarios/any.yaml",
];

fn are_told(problems: &[Problem]) {
    assert!(!problems.is_empty(), "refused without a reason");
    for problem in problems {
        assert!(
            problem.line > 0 && problem.column > 0 && !problem.message.is_empty(),
            "{problem:?}"
        );
    }
}

fn can_be_asked(scenario: &Scenario) {
    assert!(needed(scenario).len() >= 2);
    assert!(scenario.runnable().is_err() || !scenario.prompt().is_empty());
}

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    let mut files = BTreeMap::from([
        (FILES[0].to_owned(), PROFILE.as_bytes()),
        (FILES[1].to_owned(), CONTRACT.as_bytes()),
    ]);
    files.insert(FILES[usize::from(*which) % FILES.len()].to_owned(), bytes);
    match read(&files) {
        Err(problems) => are_told(&problems),
        Ok(package) => package.scenarios.iter().for_each(can_be_asked),
    }
    match read_scenarios("any.yaml", bytes) {
        Err(problems) => are_told(&problems),
        Ok(scenarios) => scenarios.iter().for_each(can_be_asked),
    }
});
