//! The script installs the program that it runs.

use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use touchstone_kit::hex::hex;

use super::{PROGRAM, Pipeline};

/// A job whose program is in an archive, and the checksum of the archive.
fn archived(what: &str) -> Option<(Pipeline, String)> {
    let mut pipeline = Pipeline::new(what)?;
    pipeline.set("TOUCHSTONE_CI_PROGRAM", "");
    let folder = pipeline.home.path("release/touchstone-0.1.0/bin");
    std::fs::create_dir_all(&folder).unwrap();
    // The program of the tests is too large to pack.
    let program = folder.join("touchstone");
    std::fs::write(&program, format!("#!/bin/sh\nexec {PROGRAM} \"$@\"\n")).unwrap();
    let packed = Command::new("tar")
        .args([
            "-czf",
            "touchstone.tar.gz",
            "-C",
            "release",
            "touchstone-0.1.0",
        ])
        .current_dir(pipeline.home.path(""))
        .status()
        .unwrap();
    assert!(packed.success());
    let bytes = std::fs::read(pipeline.home.path("touchstone.tar.gz")).unwrap();
    pipeline.set("TOUCHSTONE_CI_INSTALL", "touchstone.tar.gz");
    Some((pipeline, hex(&Sha256::digest(bytes))))
}

#[test]
fn the_program_of_an_archive_with_the_right_checksum_runs() {
    let Some((mut pipeline, checksum)) = archived("the installation in a pipeline") else {
        return;
    };
    pipeline.set("TOUCHSTONE_CI_INSTALL_SHA256", &checksum);
    let done = pipeline.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(pipeline.result()["verdict"], json!("pass"));
}

#[test]
fn an_archive_with_another_checksum_or_an_unchecked_download_is_refused() {
    let Some((mut pipeline, checksum)) = archived("the checksum of an installation") else {
        return;
    };
    pipeline.set("TOUCHSTONE_CI_INSTALL_SHA256", &"0".repeat(64));
    let done = pipeline.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains(&checksum), "{}", done.stderr);
    pipeline.set("TOUCHSTONE_CI_INSTALL_SHA256", "");
    pipeline.set(
        "TOUCHSTONE_CI_INSTALL",
        "http://example.com/touchstone.tar.gz",
    );
    let done = pipeline.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("must be an https URL"),
        "{}",
        done.stderr
    );
}
