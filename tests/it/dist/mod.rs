//! What `dist/build` makes is installed in an empty place, and does its work there.
//!
//! The program of these tests is packaged without symbols and without compression,
//! which saves a minute; `just dist` builds what users get.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{not_run, python};

mod debian;
mod image;
mod provenance;
mod recipes;
mod root;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The longest time from the installation of a package to the first scorecard, without downloads.
const FIRST_SCORECARD_SECONDS: f64 = 10.0;
/// The packages that compile TypeScript.
const NODE_MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";

/// The program without symbols, in a folder for everything that is built, once for all tests of
/// this process. A static value is never dropped, so the folder is one that the next run replaces.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
    let _absent = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("touchstone");
    succeed(
        Command::new("strip")
            .arg("-o")
            .arg(&program)
            .arg(env!("CARGO_BIN_EXE_touchstone")),
    );
    program
});

static BUILT: LazyLock<PathBuf> = LazyLock::new(|| built(anywhere(), "anywhere"));
/// What can be built on Debian and its derivatives.
static ON_DEBIAN: LazyLock<PathBuf> = LazyLock::new(|| built("deb,image", "on-debian"));

/// What can be built on any Linux.
fn anywhere() -> &'static str {
    match std::env::var_os(NODE_MODULES) {
        Some(_) => "archive,sbom,wheel,npm,homebrew,chart",
        None => "archive,sbom,wheel,homebrew,chart",
    }
}

fn built(only: &str, name: &str) -> PathBuf {
    let out = PROGRAM.with_file_name(name);
    succeed(build(only, &out).env_remove("TOUCHSTONE_RELEASE_KEY"));
    out
}

fn build(only: &str, out: &Path) -> Command {
    let mut command = Command::new(Path::new(ROOT).join("dist/build"));
    command
        .args(["--fast", "--only", only, "--binary"])
        .arg(&*PROGRAM)
        .arg("--out")
        .arg(out);
    command
}

/// The path of a program, or `None` after printing that `what` is not run. CI must have all.
fn tool(what: &str, name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        missing(
            what,
            &format!("{name} is not installed (`./test` installs it)"),
        );
    }
    found
}

/// Prints that `what` is not run, which is an error in CI.
fn missing(what: &str, why: &str) {
    eprintln!("NOT RUN: {what}: {why}");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "CI must run {what}: {why}");
}

/// The seconds of processor time that a shell script takes, which must succeed. Unlike the time
/// that passes, it does not depend on other tests.
fn processor_seconds(what: &str, script: &str, command: &mut Command) -> f64 {
    let timed = format!("TIMEFORMAT='%R %U %S'; time {{ {script}\n}} >/dev/null");
    let done = command.args(["--norc", "-euc", &timed]).output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{script}: {errors}");
    let times: Vec<f64> = errors
        .lines()
        .next_back()
        .unwrap()
        .split(' ')
        .map(|number| number.parse().unwrap())
        .collect();
    let processor = times[1] + times[2];
    eprintln!(
        "{what}: {:.1} s, of which {processor:.1} s of processor time",
        times[0]
    );
    processor
}

/// The standard output of a command that must succeed.
fn succeed(command: &mut Command) -> String {
    let done = command
        .output()
        .unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?}: {}\n{errors}",
        done.status
    );
    String::from_utf8(done.stdout).unwrap()
}

/// The artefact whose name has this start and end.
fn artefact(start: &str, end: &str) -> PathBuf {
    artefact_in(&BUILT, start, end)
}

fn artefact_in(folder: &Path, start: &str, end: &str) -> PathBuf {
    let mut all = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    all.find(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    })
    .unwrap_or_else(|| panic!("no {start}…{end} in {}", folder.display()))
}

#[test]
fn the_archive_holds_a_program_that_evaluates_and_its_manual_pages() {
    let place = TempDir::new().unwrap();
    succeed(
        Command::new("tar")
            .arg("-xf")
            .arg(artefact("touchstone-0", ".tar"))
            .arg("-C")
            .arg(place.path()),
    );
    let top = fs::read_dir(place.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // Without a home folder, configuration or PATH.
    let demo = Command::new(top.join("bin/touchstone"))
        .args(["demo", "--json"])
        .env_clear()
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(
        demo.status.success(),
        "{}",
        String::from_utf8_lossy(&demo.stderr)
    );
    for file in [
        "LICENSE",
        "bin/touchstone-ci",
        "share/man/man1/touchstone.1",
        "share/man/man1/touchstone-run-show.1",
        "share/bash-completion/completions/touchstone",
        "share/zsh/site-functions/_touchstone",
        "share/fish/vendor_completions.d/touchstone.fish",
    ] {
        assert!(top.join(file).is_file(), "{file}");
    }
}

#[test]
fn checksums_hold_and_the_same_program_gives_the_same_bytes() {
    succeed(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&*BUILT),
    );
    let again = TempDir::new().unwrap();
    succeed(&mut build(anywhere(), again.path()));
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(again.path()), sums(&BUILT));
}

#[test]
fn completions_offer_the_commands() {
    let place = TempDir::new().unwrap();
    let script = place.path().join("completions");
    let program = env!("CARGO_BIN_EXE_touchstone");
    fs::write(
        &script,
        succeed(Command::new(program).args(["completions", "bash"])),
    )
    .unwrap();
    let ask = "source \"$0\"; COMP_WORDS=(touchstone ev); COMP_CWORD=1; _touchstone touchstone ev touchstone; echo \"${COMPREPLY[@]}\"";
    let offered = succeed(
        Command::new("bash")
            .args(["--norc", "-c", ask])
            .arg(&script),
    );
    assert_eq!(offered.trim(), "eval");
}

#[test]
fn the_bill_of_materials_lists_what_is_compiled_in_and_no_crate_of_the_tests() {
    let document = fs::read(artefact("touchstone-", ".cdx.json")).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let parts = document["components"].as_array().unwrap();
    let has = |name: &str| parts.iter().any(|part| part["name"] == name);
    for name in [
        "serde",
        "tokio",
        "sqlx",
        "touchstone-runs",
        "tikv-jemallocator",
    ] {
        assert!(has(name), "{name}");
    }
    for name in ["wiremock", "insta", "fantoccini", "rstest"] {
        assert!(!has(name), "{name}");
    }
    // C code, which no crate names.
    for name in ["sqlite", "jemalloc"] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert!(part["version"].is_string(), "{part}");
    }
    for part in parts {
        let licence = part["licenses"][0]["expression"]
            .as_str()
            .unwrap_or_default();
        assert!(!licence.contains('/'), "{part}");
    }
    let mut references: Vec<&str> = parts
        .iter()
        .map(|part| part["bom-ref"].as_str().unwrap())
        .collect();
    let all = references.len();
    references.sort_unstable();
    references.dedup();
    assert_eq!(references.len(), all);
}

#[test]
fn the_wheel_installs_into_an_empty_environment() {
    let Some(python) = python("the wheel") else {
        return;
    };
    let place = TempDir::new().unwrap();
    let environment = place.path().join("environment");
    succeed(Command::new(python).args(["-m", "venv"]).arg(&environment));
    let bin = environment.join("bin");
    let pip = |arguments: &[&str], file: Option<&Path>| {
        let mut command = Command::new(bin.join("pip"));
        command
            .args(arguments)
            .arg("--disable-pip-version-check")
            .args(file);
        succeed(&mut command)
    };
    let script = format!(
        "{0}/pip install --quiet --no-index --disable-pip-version-check {1}\n{0}/touchstone demo",
        bin.display(),
        artefact("touchstone_evals", ".whl").display()
    );
    let mut command = Command::new("bash");
    command.env_clear().current_dir(place.path());
    let seconds = processor_seconds("pip install to scorecard", &script, &mut command);
    assert!(seconds < FIRST_SCORECARD_SECONDS, "{seconds}");
    pip(&["check"], None);
    // The package finds the program that was installed with it.
    let cases = r#"[{"input": "1", "expected": "1"}, {"input": "2", "expected": "3"}]"#;
    let script = format!(
        "import json, touchstone\nresult = touchstone.evaluate(json.loads('{cases}'), agent=lambda text: text)\nprint(len(result.failures))"
    );
    let failures = succeed(
        Command::new(bin.join("python"))
            .args(["-c", &script])
            .env_remove("TOUCHSTONE_BIN")
            .env("PATH", "/usr/bin:/bin")
            .current_dir(place.path()),
    );
    assert_eq!(failures.trim(), "1");
    pip(&["uninstall", "--quiet", "--yes", "touchstone-evals"], None);
    assert!(!bin.join("touchstone").exists());
    assert!(!environment.join("share/man/man1/touchstone.1").exists());
}

#[test]
fn the_npm_package_starts_the_program_of_its_platform_or_says_what_is_missing() {
    let Some(modules) = std::env::var_os(NODE_MODULES).map(PathBuf::from) else {
        not_run("the npm package", NODE_MODULES);
        return;
    };
    let place = TempDir::new().unwrap();
    let script = format!(
        "npm install --offline --no-audit --no-fund {} {}\nnpx --no touchstone -- demo",
        artefact("touchstone-evals-linux-x64", ".tgz").display(),
        artefact("touchstone-evals-0", ".tgz").display(),
    );
    let mut command = Command::new("bash");
    command
        .current_dir(place.path())
        .env("npm_config_cache", place.path().join("cache"));
    let seconds = processor_seconds("npm install to scorecard", &script, &mut command);
    let shared = place.path().join("node_modules/touchstone-evals");
    for file in [
        "man/touchstone.1",
        "share/bash-completion/completions/touchstone",
        "share/zsh/site-functions/_touchstone",
    ] {
        assert!(shared.join(file).is_file(), "{file}");
    }
    assert!(seconds < FIRST_SCORECARD_SECONDS, "{seconds}");
    let start = |arguments: &[&str]| {
        let mut command = Command::new("npx");
        command
            .args(["--no", "touchstone", "--"])
            .args(arguments)
            .env_remove("TOUCHSTONE_BIN")
            .current_dir(place.path());
        command.output().unwrap()
    };
    let demo = start(&["demo", "--json"]);
    assert!(
        demo.status.success(),
        "{}",
        String::from_utf8_lossy(&demo.stderr)
    );
    // The module finds the program that was installed with it, and has types.
    let script = r#"
        import { evaluate, type Result } from "touchstone-evals";
        const cases = [{ input: "1", expected: "1" }, { input: "2", expected: "3" }];
        const result: Result = await evaluate({ cases, agent: (input) => input.trim() });
        console.log(result.failures.length);
    "#;
    fs::write(place.path().join("script.mts"), script).unwrap();
    succeed(
        Command::new(modules.join(".bin/tsc"))
            .args(["--strict", "--module", "nodenext", "--target", "es2022"])
            .args(["--types", "node", "--typeRoots"])
            .arg(modules.join("@types"))
            .arg("script.mts")
            .current_dir(place.path()),
    );
    let failures = succeed(
        Command::new("node")
            .arg("script.mjs")
            .env_remove("TOUCHSTONE_BIN")
            .current_dir(place.path()),
    );
    assert_eq!(failures.trim(), "1");
    let started = start(&["--version"]);
    assert!(
        started.status.success(),
        "{}",
        String::from_utf8_lossy(&started.stderr)
    );
    assert!(String::from_utf8_lossy(&started.stdout).starts_with("touchstone "));
    fs::remove_dir_all(place.path().join("node_modules/@touchstone-evals")).unwrap();
    let refused = start(&["--version"]);
    assert_eq!(refused.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        errors.contains("npm install --include=optional @touchstone-evals/linux-x64"),
        "{errors}"
    );
}
