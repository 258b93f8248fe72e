//! The demo, end to end.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use tokio_util::sync::CancellationToken;
use touchstone::demo::standin;

use super::home::{Done, Home, touchstone};

#[test]
fn the_demo_matches_its_description_on_one_screen() {
    let done = Done::of(touchstone().arg("demo"));
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    for part in [
        "no LLM",
        "refused: pack_integrity_mismatch",
        "score 0.950",
        "broke 8:",
        "✗ 1.1.0 on its own run: refused",
        "✗ 1.1.0 on the run of 1.0.0: refused, the eval run evaluated version 1.0.0",
        "✓ 1.0.0 on its own run: allowed",
        "What to try next",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    assert!(done.stdout.lines().count() <= 66, "{}", done.stdout);
    assert!(!done.stdout.contains('\u{1b}'));
}

/// The non-empty lines without indentation and colours, and without values that differ from run to
/// run.
fn told(lines: impl Iterator<Item = String>) -> Vec<String> {
    let masks = [
        ("\u{1b}\\[[0-9;]*m", ""),
        (r"127\.0\.0\.1:\d+", "PORT"),
        (r"SQLite in \S+", "SQLite in FOLDER"),
        (r"run_[0-9a-f]{32}", "RUN"),
        // A program started by its path prints that path.
        (r"\S*/touchstone ", "touchstone "),
        (r"[\d.]+ m?s\b", "TIME"),
        // The rule is as wide as the table, whose width depends on the times.
        ("─+", "─"),
        (r"\s", ""),
    ];
    let masks = masks.map(|(what, by)| (Regex::new(what).unwrap(), by));
    let mask = |line: String| {
        masks.iter().fold(line, |line, (what, by)| {
            what.replace_all(&line, *by).into_owned()
        })
    };
    lines.map(mask).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_readme_image_matches_the_output_of_the_demo() {
    let done = Done::of(
        touchstone()
            .arg("demo")
            .env("CLICOLOR_FORCE", "1")
            .env("COLUMNS", "104"),
    );
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains('\u{1b}'));
    assert!(done.stdout.lines().count() <= 66, "{}", done.stdout);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images/demo.svg");
    let picture = std::fs::read_to_string(file).unwrap();
    let picture = roxmltree::Document::parse(&picture).unwrap();
    let mut rows: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for text in picture
        .descendants()
        .filter(|it| it.tag_name().name() == "text")
    {
        let row = text.attribute("y").unwrap().parse().unwrap();
        rows.entry(row).or_default().push(text.text().unwrap());
    }
    assert_eq!(
        told(rows.values().map(|parts| parts.join(" "))),
        told(done.stdout.lines().map(str::to_owned)),
        "draw it again with the command at the top of docs/images/terminal_svg.py"
    );
}

#[test]
fn json_output_of_the_demo_has_both_reports_and_unmet_conditions() {
    let done = Done::of(touchstone().args(["--json", "demo"]));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let document = done.document();
    assert_eq!(document["ok"], true);
    assert_eq!(document["evals"][0]["verdict"], "pass");
    assert_eq!(document["evals"][1]["verdict"], "fail");
    assert_eq!(document["evals"][1]["agent"]["version"], "1.1.0");
    assert_eq!(document["gate"][0]["unmet"], serde_json::json!([]));
    assert_eq!(document["gate"][1]["unmet"][0]["condition"], "passed");
}

#[test]
fn the_printed_command_shows_the_kept_run() {
    let done = Done::of(touchstone().args(["demo", "--keep"]));
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let command = done
        .stdout
        .lines()
        .find(|line| line.contains("run events"))
        .unwrap();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let events = Home::empty().run(&words);
    assert_eq!(events.code, 0, "{}", events.stderr);
    assert!(
        events.stdout.contains("eval.completed"),
        "{}",
        events.stdout
    );
    let data = words
        .iter()
        .skip_while(|word| **word != "--data")
        .nth(1)
        .unwrap();
    assert!(data.contains("touchstone-demo-"));
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn the_demo_runs_against_a_given_model_endpoint() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shutdown = CancellationToken::new();
    let url = runtime.block_on(standin::serve(shutdown.clone())).unwrap();
    let named = [
        "--json",
        "demo",
        "--model-url",
        url.as_str(),
        "--model",
        standin::SMALL,
    ];
    let done = Done::of(touchstone().args(named));
    // Both versions fail on the weaker model: two correct failures make a conclusive demo.
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let document = done.document();
    assert_eq!(document["evals"][0]["verdict"], "fail");
    assert_eq!(document["evals"][0]["agent"]["model"], standin::SMALL);
    assert_eq!(document["evals"][1]["verdict"], "fail");

    shutdown.cancel();
    drop(runtime);
    let done = Done::of(touchstone().args(named));
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.document()["evals"][0]["verdict"], "inconclusive");
}
