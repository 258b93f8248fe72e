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

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the artefacts, built once for all tests of this process. A static value is never
/// dropped, so the folder is one that the next run replaces.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
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
    build(
        &program,
        "archive,sbom,wheel,npm",
        &folder.join("artefacts"),
    );
    folder
});

fn build(program: &Path, only: &str, out: &Path) {
    succeed(
        Command::new(Path::new(ROOT).join("dist/build"))
            .args(["--fast", "--only", only, "--binary"])
            .arg(program)
            .arg("--out")
            .arg(out),
    );
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
    let folder = BUILT.join("artefacts");
    let mut all = fs::read_dir(&folder)
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
    let first = BUILT.join("artefacts");
    succeed(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&first),
    );
    let again = TempDir::new().unwrap();
    build(
        &BUILT.join("touchstone"),
        "archive,sbom,wheel,npm",
        again.path(),
    );
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(again.path()), sums(&first));
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
    pip(
        &["install", "--quiet", "--no-index"],
        Some(&artefact("touchstone_evals", ".whl")),
    );
    pip(&["check"], None);
    succeed(
        Command::new(bin.join("touchstone"))
            .args(["demo", "--json"])
            .env_clear()
            .current_dir(place.path()),
    );
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
    if std::env::var_os("TOUCHSTONE_TEST_NODE_MODULES").is_none() {
        not_run("the npm package", "TOUCHSTONE_TEST_NODE_MODULES");
        return;
    }
    let place = TempDir::new().unwrap();
    let npm = |arguments: &[&str], files: &[PathBuf]| {
        let mut command = Command::new("npm");
        command
            .args(arguments)
            .args(files)
            .current_dir(place.path());
        succeed(command.env("npm_config_cache", place.path().join("cache")))
    };
    let main = artefact("touchstone-evals-0", ".tgz");
    let platform = artefact("touchstone-evals-linux-x64", ".tgz");
    npm(
        &["install", "--offline", "--no-audit", "--no-fund"],
        &[platform, main],
    );
    let start = || {
        let mut command = Command::new("npx");
        command
            .args(["--no", "touchstone", "--", "--version"])
            .current_dir(place.path());
        command.output().unwrap()
    };
    let started = start();
    assert!(
        started.status.success(),
        "{}",
        String::from_utf8_lossy(&started.stderr)
    );
    assert!(String::from_utf8_lossy(&started.stdout).starts_with("touchstone "));
    fs::remove_dir_all(place.path().join("node_modules/@touchstone-evals")).unwrap();
    let refused = start();
    assert_eq!(refused.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        errors.contains("npm install --include=optional @touchstone-evals/linux-x64"),
        "{errors}"
    );
}
