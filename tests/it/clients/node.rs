//! The package in clients/typescript: its own tests, its types, and the documented examples.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::client::not_run;

const MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";
const ENDPOINT: &str = "\"http://127.0.0.1:11434/v1\"";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the compiled package, its tests and its examples, or `None` after printing that
/// `what` is not run.
pub fn compiled(what: &str) -> Option<&'static Path> {
    if std::env::var_os(MODULES).is_none() {
        not_run(what, MODULES);
        return None;
    }
    static COMPILED: LazyLock<PathBuf> = LazyLock::new(compile);
    Some(&COMPILED)
}

/// Compiles a copy, so that nothing is written into the sources. The compiler and Node.js find the
/// package by its own name, as they do where it is installed.
fn compile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript");
    let _absent = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("docs")).unwrap();
    let package = root().join("clients/typescript");
    for (from, to) in [
        (package.join("package.json"), "package.json"),
        (package.join("tsconfig.json"), "tsconfig.json"),
        (package.join("src"), "src"),
        (package.join("test"), "test"),
        (root().join("examples/typescript"), "examples"),
    ] {
        let mut copy = Command::new("cp");
        succeed(copy.arg("-r").arg(from).arg(folder.join(to)));
    }
    symlink(
        std::env::var_os(MODULES).unwrap(),
        folder.join("node_modules"),
    )
    .unwrap();
    let page = fs::read_to_string(root().join("docs/typescript.md")).unwrap();
    let examples = blocks(&page, "ts");
    assert!(examples.len() >= 8, "{}", examples.len());
    let examples = examples.concat();
    assert!(examples.contains(ENDPOINT));
    let examples = examples.replace(ENDPOINT, "String(process.env[\"MODEL_URL\"])");
    fs::write(folder.join("docs/page.ts"), examples).unwrap();
    fs::write(
        folder.join("docs/host.ts"),
        blocks(&page, "ts host").concat(),
    )
    .unwrap();
    fs::create_dir_all(folder.join("out/docs")).unwrap();
    fs::write(folder.join("out/docs/page.md"), page).unwrap();
    for project in [".", "test"] {
        let mut compiler = Command::new(folder.join("node_modules/.bin/tsc"));
        succeed(compiler.args(["--project", project]).current_dir(&folder));
    }
    folder
}

/// The fenced blocks of a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("\n```{language}\n");
    let all = page.split(&fence).skip(1);
    all.map(|block| &block[..=block.find("\n```").unwrap()])
        .collect()
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_tests_of_the_package_pass() {
    let Some(folder) = compiled("the npm package") else {
        return;
    };
    let mut tests: Vec<PathBuf> = fs::read_dir(folder.join("out/test"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.to_string_lossy().ends_with(".test.js"))
        .collect();
    tests.sort();
    assert!(tests.len() >= 5, "{tests:?}");
    succeed(
        Command::new("node")
            .arg("--test")
            .args(tests)
            .current_dir(folder)
            .env("TOUCHSTONE_BIN", env!("CARGO_BIN_EXE_touchstone"))
            .env_remove("TOUCHSTONE_SERVER")
            .env_remove("TOUCHSTONE_DATA"),
    );
}

/// The package must have the version of the program, and compile with what its tests compile with.
#[test]
fn versions_agree() {
    let read = |path: &str| -> Value {
        serde_json::from_slice(&fs::read(root().join(path)).unwrap()).unwrap()
    };
    let package = read("clients/typescript/package.json");
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        read("clients/typescript/package-lock.json")["version"],
        package["version"]
    );
    let tests = read("tests/node/package.json");
    for (name, version) in package["devDependencies"].as_object().unwrap() {
        assert_eq!(&tests["dependencies"][name], version, "{name}");
    }
}
