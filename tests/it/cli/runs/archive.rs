//! `touchstone run archive` and `touchstone archive`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::home::{Done, Home, right_answers};

/// A home with an archive, a run that has ended, and the host's public key in `host.pub`.
fn home() -> (Home, String) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let folder = home.path("archive");
    std::fs::create_dir(&folder).unwrap();
    let configuration = std::fs::read_to_string(home.config()).unwrap();
    let archive = format!("\n[archive]\nurl = \"file://{}\"\n", folder.display());
    std::fs::write(home.config(), configuration + &archive).unwrap();
    let done = home.eval(&["--json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let run = home.run_of(&done.document());
    let key = home.run(&["attest", "--public-key", "--out", "host.pub"]);
    assert_eq!(key.code, 0, "{}", key.stderr);
    (home, run)
}

fn archive(home: &Home, run: &str) -> PathBuf {
    let done = home.run(&["--json", "run", "archive", run]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let object = done.document()["archive"]["object"]
        .as_str()
        .unwrap()
        .to_owned();
    home.path("archive").join(object)
}

fn good(done: Done) -> Value {
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    done.document()
}

#[test]
fn an_archive_is_listed_verified_and_shown_without_a_host() {
    let (home, run) = home();
    let shown = good(home.run(&["--json", "run", "show", &run]));
    let scorecard = home.run(&["run", "show", &run]).stdout;
    let events = home.run(&["--json", "run", "events", &run]).stdout;
    let file = archive(&home, "latest");
    std::fs::remove_dir_all(home.data()).unwrap();

    let listed = good(home.run(&["--json", "archive", "list", "--tenant", "default"]));
    assert_eq!(listed["archives"][0]["runId"], run.as_str());
    let none = good(home.run(&["--json", "archive", "list", "--tenant", "other"]));
    assert_eq!(none["archives"], json!([]));
    for named in [run.as_str(), file.to_str().unwrap()] {
        let verified = good(home.run(&["--json", "archive", "verify", named, "--key", "host.pub"]));
        assert_eq!(verified["ok"], true);
        assert_eq!(verified["manifest"]["runId"], run.as_str());
        assert_eq!(good(home.run(&["--json", "archive", "show", named])), shown);
    }
    assert_eq!(home.run(&["archive", "show", &run]).stdout, scorecard);
    let replayed = home.run(&["archive", "show", &run, "--events"]).stdout;
    let parsed = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    assert_eq!(parsed(&replayed).len(), parsed(&events).len());
    assert!(!home.data().exists(), "the commands open no database");
}

#[test]
fn a_changed_archive_is_refused_with_a_remedy() {
    let (home, run) = home();
    let file = archive(&home, &run);
    let mut bytes = std::fs::read(&file).unwrap();
    let truncated = home.path("truncated.run.jsonl.gz");
    std::fs::write(&truncated, &bytes[..bytes.len() / 2]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    for file in [&file, &truncated] {
        let file = file.to_str().unwrap();
        let verified = home.run(&["--json", "archive", "verify", file, "--key", "host.pub"]);
        assert_eq!(verified.code, 1, "{}", verified.stderr);
        assert_eq!(verified.document()["ok"], false);
        let shown = home.run(&["archive", "show", file]);
        assert_eq!((shown.code, shown.stdout.as_str()), (2, ""));
        assert!(shown.stderr.contains("try:"), "{}", shown.stderr);
    }
}

#[test]
fn what_is_not_an_archive_is_bad_input() {
    let (home, _) = home();
    let config = home.config();
    let config = config.to_str().unwrap();
    for arguments in [
        &["archive", "verify", config, "--key", "host.pub"][..],
        &["archive", "show", config],
        &["archive", "show", "run_unknown"],
        &["archive", "show", "missing.run.jsonl.gz"],
        &["archive", "verify", "run_unknown", "--key", config],
        &["--server", "http://127.0.0.1:1", "archive", "list"],
    ] {
        let done = home.run(arguments);
        assert_eq!(
            done.code, 2,
            "{arguments:?}: {}{}",
            done.stdout, done.stderr
        );
        assert_eq!(done.stdout, "");
    }
    let elsewhere = Home::with_folder();
    let done = elsewhere.run(&["archive", "list"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("archive.url"), "{}", done.stderr);
}
