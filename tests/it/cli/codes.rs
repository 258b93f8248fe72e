//! The error codes of commands and their table in `docs/errors/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::architecture::{crates, production, sources};

/// The functions that create an error of a command from a code, with the number of arguments before
/// the code.
const CONSTRUCTORS: [(&str, usize); 5] = [
    ("Failure::new(", 1),
    ("Failure::bad_input(", 0),
    ("Failure::not_done(", 0),
    ("Failure::inconclusive(", 0),
    // Of the demo.
    ("failed(", 0),
];
/// Codes that these functions get by a constant, or that a constructor adds by itself.
const OTHERS: [&str; 2] = ["no_such_task", "usage"];

/// The codes that commands emit as literals.
fn emitted() -> BTreeSet<String> {
    let mut codes: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    for path in crates().iter().flat_map(|folder| sources(folder)) {
        let text = production(&path);
        for (constructor, before) in CONSTRUCTORS {
            let calls = text.split(constructor).skip(1);
            let codes_of_calls = calls.filter_map(|arguments| {
                let code = arguments.split(',').nth(before)?.trim();
                code.strip_prefix('"')?.strip_suffix('"')
            });
            codes.extend(codes_of_calls.map(str::to_owned));
        }
    }
    codes
}

#[test]
fn every_error_code_of_commands_is_documented() {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors/README.md");
    let index = fs::read_to_string(index).unwrap();
    let (of_apis, table) = index.split_once("\n## Commands\n").unwrap();
    let listed: BTreeSet<String> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(code, _)| code.to_owned())
        .collect();
    let has_page: BTreeSet<String> = of_apis
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split_once('`'))
        .map(|(code, _)| code.to_owned())
        .collect();
    let emitted = emitted();
    assert!(emitted.len() > 60, "{emitted:?}");
    let own: BTreeSet<String> = emitted.difference(&has_page).cloned().collect();
    assert_eq!(listed, own);
}
