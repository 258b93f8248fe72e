//! The demo, end to end.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Runs a printed command in a shell.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec {command}"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOUCHSTONE_") {
            shell.env_remove(name);
        }
    }
    shell
}

/// The status line of an answer.
fn status_of(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn the_printed_commands_open_the_console_with_the_kept_runs() {
    let folder = tempfile::Builder::new()
        .prefix("it's here ")
        .tempdir()
        .unwrap();
    let done = Done::of(
        touchstone()
            .args(["demo", "--keep"])
            .env("TMPDIR", folder.path()),
    );
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let printed = |part: &str| {
        let mut lines = done.stdout.lines().map(str::trim);
        let found = lines.find(|line| line.contains("--data ") && line.contains(part));
        found.unwrap_or_else(|| panic!("no {part}: {}", done.stdout))
    };
    let key = shell(printed(" key create ")).output().unwrap();
    assert!(key.status.success(), "{key:?}");
    let key = String::from_utf8(key.stdout).unwrap();
    let serve = printed(" serve");
    assert!(serve.ends_with(" serve"), "{serve}");
    // Another host of this machine may have the usual port.
    let mut host = shell(&format!("{serve} --listen 127.0.0.1:0"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = host.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap();
    let run = done.stdout.split("run events ").nth(1).unwrap();
    let run = run.lines().next().unwrap();
    let body = format!("key={}", key.trim());
    let signed_in = status_of(
        address,
        &format!(
            "POST /console/sign-in HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    let shown = status_of(
        address,
        &format!(
            "GET /v1/runs/{} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             authorization: Bearer {}\r\n\r\n",
            run.trim(),
            key.trim()
        ),
    );
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(signed_in.contains(" 303 "), "{signed_in}");
    assert!(shown.contains(" 200 "), "{shown}");
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
