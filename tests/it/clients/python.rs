//! The Python package in clients/python: its own tests, its types, and the documented examples.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::python;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python")
}

/// Runs a module of Python in the folder of the package, and expects success.
fn run(interpreter: PathBuf, arguments: &[&str]) {
    let output = Command::new(interpreter)
        .arg("-B")
        .arg("-m")
        .args(arguments)
        .current_dir(package())
        .env("PYTHONPATH", package().join("src"))
        // The installed package names its plugin in the metadata instead.
        .env("PYTEST_PLUGINS", "touchstone.pytest_plugin")
        .env("TOUCHSTONE_BIN", env!("CARGO_BIN_EXE_touchstone"))
        .env_remove("TOUCHSTONE_SERVER")
        .env_remove("TOUCHSTONE_DATA")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_tests_of_the_package_pass() {
    let Some(python) = python("the Python package") else {
        return;
    };
    let temporary = format!(
        "--basetemp={}",
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("python-package")
            .display()
    );
    run(
        python,
        &["pytest", "-q", "-p", "no:cacheprovider", "-n4", &temporary],
    );
}

#[test]
fn the_package_and_its_tests_have_strict_types() {
    let Some(python) = python("the types of the Python package") else {
        return;
    };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy");
    run(python, &["mypy", "--cache-dir", cache.to_str().unwrap()]);
}

/// The package and the program must have one version: the package warns about others.
#[test]
fn the_package_has_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |name: &str| std::fs::read_to_string(package().join(name)).unwrap();
    let project = read("pyproject.toml");
    assert!(
        project.contains(&format!("\nversion = \"{version}\"\n")),
        "{project}"
    );
    assert_eq!(
        read("src/touchstone/_version.py"),
        format!("__version__ = \"{version}\"\n")
    );
}
