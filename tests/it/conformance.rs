//! The tables of `docs/conformance.md`: every named test exists, rows are numbered, and the counts
//! match the rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rstest::rstest;

const PAGE: &str = "docs/conformance.md";
const STATES: [&str; 4] = ["works", "partly", "left", "different"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).unwrap()
}

/// The cells of a table row; `None` for any other line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// The names of the test functions of a source text.
fn tests_of(text: &str) -> Vec<&str> {
    let (mut found, mut marked) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        let function = line.strip_prefix("pub ").unwrap_or(line);
        let function = function.strip_prefix("async ").unwrap_or(function);
        if let Some(rest) = function.strip_prefix("fn ") {
            if marked {
                let end = rest.find(['(', '<']).unwrap_or(rest.len());
                found.push(&rest[..end]);
            }
            marked = false;
        } else {
            marked |= ["#[test]", "#[tokio::test", "#[rstest]"]
                .iter()
                .any(|mark| line.starts_with(mark));
        }
    }
    found
}

/// Why a reference such as `ratings/vectors.rs::scoring_rules[speed]` is broken; `None` if it names
/// a test.
fn fault_of(reference: &str) -> Option<String> {
    let (path, name) = reference.split_once("::")?;
    let (name, case) = match name.strip_suffix(']').and_then(|it| it.split_once('[')) {
        Some((name, case)) => (name, Some(case)),
        None => (name, None),
    };
    let file = match path.starts_with("src/") || path.starts_with("crates/") {
        true => root().join(path),
        false => root().join("tests/it").join(path),
    };
    let Ok(text) = fs::read_to_string(&file) else {
        return Some(format!("{reference}: no such file"));
    };
    if !tests_of(&text).contains(&name) {
        return Some(format!("{reference}: no such test"));
    }
    let vectors = root().join("tests/it/ratings/vectors");
    let is_there = |case: &str| {
        text.contains(&format!("#[case::{case}(")) || vectors.join(format!("{case}.json")).is_file()
    };
    if let Some(case) = case
        && !is_there(case)
    {
        return Some(format!("{reference}: no such case"));
    }
    None
}

/// Lists the errors in the rows of a section, and counts their states.
fn check_rows(title: &str, text: &str, counts: &mut BTreeMap<String, [usize; 5]>) -> Vec<String> {
    let (mut faults, mut number) = (Vec::new(), 0);
    let counted = counts.entry(title.to_owned()).or_default();
    for line in text.lines().filter(|line| line.starts_with('|')).skip(2) {
        number += 1;
        let row = cells(line).unwrap_or_default();
        let [found, _, requirement, state, shown] = row.as_slice() else {
            faults.push(format!("{title}: not five cells: {line}"));
            continue;
        };
        let row = format!("{title} {number}");
        if *found != number.to_string() {
            faults.push(format!("{row}: numbered {found}"));
        }
        counted[0] += 1;
        match STATES.iter().position(|known| known == state) {
            Some(place) => counted[place + 1] += 1,
            None => faults.push(format!("{row}: unknown state {state}")),
        }
        let spans = shown.split('`').skip(1).step_by(2);
        let references: Vec<&str> = spans.filter(|span| span.contains(".rs::")).collect();
        faults.extend(references.iter().filter_map(|it| fault_of(it)));
        if *state == "works" && references.is_empty() {
            faults.push(format!("{row}: works, but names no test"));
        }
        let bare = |text: String, reference: &&str| text.replace(reference, "");
        let why = references.iter().fold((*shown).to_owned(), bare);
        if *state != "works" && !why.contains(char::is_alphabetic) {
            faults.push(format!("{row}: {state}, but does not say why"));
        }
        if requirement.is_empty() {
            faults.push(format!("{row}: names no requirement"));
        }
    }
    faults
}

/// All errors of a page.
fn faults_of(page: &str) -> Vec<String> {
    let mut sections = page.split("\n## ");
    let top = sections.next().unwrap_or_default();
    let (mut faults, mut counts) = (Vec::new(), BTreeMap::new());
    for section in sections {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        faults.extend(check_rows(title, text, &mut counts));
    }
    let printed: BTreeMap<String, Vec<String>> = top
        .lines()
        .filter_map(cells)
        .skip(2)
        .filter_map(|row| {
            let (title, numbers) = row.split_first()?;
            let numbers = numbers.iter().map(|it| (*it).to_owned()).collect();
            Some(((*title).to_owned(), numbers))
        })
        .collect();
    let counted: BTreeMap<String, Vec<String>> = counts
        .into_iter()
        .map(|(title, numbers)| (title, numbers.map(|it| it.to_string()).to_vec()))
        .collect();
    if printed != counted {
        faults.push(format!("counts: {printed:?} instead of {counted:?}"));
    }
    faults
}

#[test]
fn every_row_names_a_test_that_exists_and_the_counts_are_right() {
    let page = page();
    let faults = faults_of(&page);
    assert!(faults.is_empty(), "{PAGE}:\n{}", faults.join("\n"));
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let rows = |section: &str| section.lines().filter(|it| it.starts_with('|')).count() - 2;
    let ratings = sections.iter().find(|it| it.starts_with("AAAF\n"));
    assert_eq!(rows(ratings.unwrap()), 204);
}

#[rstest]
#[case::number("| 2 | 1 |", "| 3 | 1 |", "AAAF 2: numbered 3")]
#[case::state("| works | `", "| done | `", "unknown state done")]
#[case::file("`ratings/vectors.rs::", "`ratings/vector_files.rs::", "no such file")]
#[case::test(
    "::scoring_rules_match_the_reference_vectors",
    "::scoring_rules",
    "no such test"
)]
#[case::case("[speed]", "[haste]", "no such case")]
#[case::count("| AAAF | 204 |", "| AAAF | 203 |", "counts: ")]
#[case::row("| 8 | 2 |", "8 | 2 |", "numbered 9")]
fn errors_in_the_conformance_page_are_found(
    #[case] right: &str,
    #[case] wrong: &str,
    #[case] fault: &str,
) {
    let page = page();
    assert!(page.contains(right), "{right}");
    let faults = faults_of(&page.replacen(right, wrong, 1));
    assert!(faults.iter().any(|it| it.contains(fault)), "{faults:?}");
}
