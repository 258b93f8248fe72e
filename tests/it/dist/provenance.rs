//! The provenance: signed with the key of a release, and verified by the program and by others.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ROOT, build, succeed, tool};
use crate::cli::home::{Done, touchstone};
use crate::client::python;

const PROVENANCE: &str = concat!("touchstone-", env!("CARGO_PKG_VERSION"), ".provenance.json");
const CHART: &str = concat!("touchstone-chart-", env!("CARGO_PKG_VERSION"), ".tgz");

/// The result of `attest provenance` for these files.
fn verify(folder: &Path, key: &str, files: &[&str]) -> Done {
    let mut command = touchstone();
    command
        .current_dir(folder)
        .args(["attest", "provenance", PROVENANCE, "--key", key, "--json"])
        .args(files);
    Done::of(&mut command)
}

fn keypair(folder: &Path, name: &str) {
    let (secret, public) = (
        folder.join(name).with_extension("pem"),
        folder.join(name).with_extension("pub"),
    );
    succeed(
        Command::new("openssl")
            .args(["genpkey", "-algorithm", "ed25519", "-out"])
            .arg(&secret),
    );
    succeed(
        Command::new("openssl")
            .args(["pkey", "-pubout", "-in"])
            .arg(&secret)
            .arg("-out")
            .arg(&public),
    );
}

#[test]
fn artefacts_verify_only_as_they_were_built_and_with_the_key_of_the_release() {
    if tool("the signature of the provenance", "openssl").is_none() {
        return;
    }
    let place = TempDir::new().unwrap();
    let folder = place.path();
    keypair(folder, "release");
    keypair(folder, "other");
    succeed(
        build("sbom,chart", folder)
            .arg("--key")
            .arg(folder.join("release.pem")),
    );
    let sbom = concat!("touchstone-", env!("CARGO_PKG_VERSION"), ".cdx.json");
    let good = verify(folder, "release.pub", &[sbom, CHART]);
    assert_eq!(good.code, 0, "{}{}", good.stdout, good.stderr);
    let document = good.document();
    let commit = succeed(
        Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(ROOT),
    );
    assert_eq!(document["sourceCommit"], commit.trim());
    let reservations = document["reservations"].as_array().unwrap();
    assert!(
        reservations.contains(&json!("the program was not compiled by this build")),
        "{document}"
    );
    let used = &document["provenance"]["buildDefinition"]["resolvedDependencies"];
    let lock = succeed(Command::new("sha256sum").arg(Path::new(ROOT).join("Cargo.lock")));
    let named = |name: &str| {
        used.as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == name)
            .unwrap()
    };
    assert_eq!(named("Cargo.lock")["digest"]["sha256"], lock[..64]);

    let other_key = verify(folder, "other.pub", &[sbom]);
    assert_eq!(other_key.code, 1, "{}", other_key.stdout);
    assert_eq!(
        other_key.document()["reason"],
        "no signature by this key covers it"
    );
    fs::write(folder.join(sbom), "{}").unwrap();
    let changed = verify(folder, "release.pub", &[sbom]);
    assert_eq!(changed.code, 1, "{}", changed.stdout);
    assert_eq!(changed.document()["artifacts"][0]["verified"], false);

    // The libraries of the specifications agree.
    if let Some(python) = python("the second opinion on the provenance") {
        let script = Path::new(ROOT).join("tests/python/verify_attestation.py");
        let statements = succeed(
            Command::new(python)
                .arg("-B")
                .arg(script)
                .args([PROVENANCE, "release.pub"])
                .current_dir(folder),
        );
        let statements: Value = serde_json::from_str(&statements).unwrap();
        assert_eq!(
            statements[0]["predicateType"],
            "https://slsa.dev/provenance/v1"
        );
        assert_eq!(statements[0]["subject"][0]["name"], "touchstone");
    }
}

#[test]
fn a_build_without_a_key_says_that_it_is_not_signed_and_does_not_verify() {
    let place = TempDir::new().unwrap();
    let mut unsigned = build("chart", place.path());
    let done = unsigned
        .env_remove("TOUCHSTONE_RELEASE_KEY")
        .output()
        .unwrap();
    assert!(done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("the provenance is not signed"), "{said}");
    // A key that signed nothing.
    fs::write(
        place.path().join("key"),
        "BxX/e6fdTBXivkA0s6V5zSoI7WMJqk2swTqtuSRdYQI=",
    )
    .unwrap();
    let refused = verify(place.path(), "key", &[CHART]);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    let document = refused.document();
    assert_eq!(document["reason"], "it is not signed");
    let remedy = document["remedy"].as_str().unwrap();
    assert!(remedy.contains("dist/build --key"), "{remedy}");
}

#[test]
fn a_key_of_another_kind_is_refused_before_anything_is_built() {
    if tool("the refusal of other keys", "openssl").is_none() {
        return;
    }
    let place = TempDir::new().unwrap();
    let key = succeed(Command::new("openssl").args(["genpkey", "-algorithm", "x25519"]));
    let done = build("chart", &place.path().join("out"))
        .env("TOUCHSTONE_RELEASE_KEY", key)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(3));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        said.contains("openssl genpkey -algorithm ed25519"),
        "{said}"
    );
    assert!(!place.path().join("out").exists());
}
