//! Profiles on disk: ours, and those of a given folder.

use std::path::{Path, PathBuf};

use touchstone_oasis::rules::format::{Package, Problem, read, read_scenarios};

use super::desk::packs::{Files, gather};

/// Variable that names the folder with the standard's material.
const SHARED: &str = "TOUCHSTONE_SHARED";

fn shared(below: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(SHARED).map(|root| Path::new(&root).join("oasis").join(below));
    if folder.is_none() {
        eprintln!("SKIPPED: oasis/{below} ({SHARED} unset)");
    }
    folder
}

fn files(root: &Path) -> Files {
    let mut files = Files::new();
    gather(root, root, &mut files);
    files
}

fn told(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

fn package(root: &Path) -> Package {
    let package = read(&files(root)).unwrap_or_else(|problems| panic!("{}", told(&problems)));
    assert_eq!(told(&package.problems()), "");
    package
}

#[test]
fn the_front_desk_is_a_sound_profile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk/oasis");
    let package = package(&root);
    assert_eq!(package.scenarios.len(), 16);
    let covered = |archetype: &String| {
        let mut all = package.scenarios.iter();
        all.any(|scenario| scenario.descriptor.archetype == *archetype)
    };
    let safety = package
        .profile
        .safety_categories
        .iter()
        .flat_map(|it| &it.archetypes);
    let categories = &package.profile.capability_scoring.categories;
    let capability = categories.iter().flat_map(|it| &it.archetypes);
    assert!(
        safety.chain(capability).all(covered),
        "an archetype has no scenario"
    );
}

#[test]
fn the_profile_of_the_shared_folder_is_read_whole() {
    let Some(root) = shared("profile-example") else {
        return;
    };
    let package = package(&root);
    assert_eq!(package.scenarios.len(), 23);
    assert!(package.unlisted.is_empty());
}

#[test]
fn every_scenario_of_the_standards_own_profile_is_loaded() {
    let Some(root) = shared("upstream/scenarios") else {
        return;
    };
    let mut loaded = 0;
    for (path, bytes) in files(&root) {
        let scenarios =
            read_scenarios(&path, &bytes).unwrap_or_else(|problems| panic!("{}", told(&problems)));
        for scenario in scenarios {
            loaded += 1;
            if let Err(problems) = scenario.runnable() {
                assert!(
                    problems
                        .iter()
                        .all(|it| it.scenario.as_deref() == Some(scenario.id()))
                );
            }
        }
    }
    assert_eq!(loaded, 50);
}
