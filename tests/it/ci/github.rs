//! The script as a step of a GitHub Action. `gh` is replaced with a program that answers from files.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Keys, Pipeline, kept_baseline, wrong_answers};
use crate::cli::home::right_but_late;

/// Answers `gh api PATH` from the folder FAKE_GH, and keeps what is posted there.
const GH: &str = r#"#!/usr/bin/env python3
import json, os, sys, zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

folder, path = Path(os.environ["FAKE_GH"]), sys.argv[2]


def page(entries):
    """The entries of the page that the path names."""
    query = parse_qs(urlsplit(path).query)
    size, number = int(query["per_page"][0]), int(query["page"][0])
    assert size <= 100, "GitHub gives at most 100"
    return entries[size * (number - 1) : size * number]


assert os.environ["GH_TOKEN"] == "token of the job"
if "/actions/artifacts?" in path:
    print(json.dumps({"artifacts": page(json.loads((folder / "artifacts.json").read_text())["artifacts"])}))
elif path.endswith("/zip"):
    with zipfile.ZipFile(sys.stdout.buffer, "w") as archive:
        archive.writestr("baseline.intoto.jsonl", (folder / "baseline.intoto.jsonl").read_bytes())
elif "--method" in sys.argv:
    (folder / "posted").write_text(f"{sys.argv[sys.argv.index('--method') + 1]} {path}\n{sys.stdin.read()}")
elif "/comments" in path:
    print(json.dumps(page(json.loads((folder / "comments.json").read_text()))))
else:
    sys.exit(f"unexpected: {sys.argv}")
"#;

/// A job of a branch.
fn job(what: &str) -> Option<Pipeline> {
    let mut pipeline = Pipeline::new(what)?;
    let gh = pipeline.home.path("bin/gh");
    std::fs::create_dir_all(pipeline.home.path("bin")).unwrap();
    std::fs::create_dir_all(pipeline.home.path("gh")).unwrap();
    std::fs::write(&gh, GH).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&gh, mode).unwrap();
    for (name, file) in [
        ("GITHUB_OUTPUT", "output.txt"),
        ("GITHUB_STEP_SUMMARY", "summary.md"),
        ("GITHUB_EVENT_PATH", "event.json"),
        ("FAKE_GH", "gh"),
    ] {
        let path = pipeline.home.path(file).display().to_string();
        pipeline.set(name, &path);
    }
    for (name, value) in [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "acme/triage"),
        ("GITHUB_REF_NAME", "main"),
        ("GH_TOKEN", "token of the job"),
    ] {
        pipeline.set(name, value);
    }
    artifacts(&pipeline, &json!([]));
    std::fs::write(pipeline.home.path("gh/comments.json"), "[]").unwrap();
    std::fs::write(pipeline.home.path("event.json"), "{}").unwrap();
    Some(pipeline)
}

/// A job of a pull request against `main`, whose last good run left this baseline.
fn pull_request(what: &str, keys: &Keys, baseline: &[u8]) -> Option<Pipeline> {
    let mut pipeline = job(what)?;
    pipeline.set("GITHUB_BASE_REF", "main");
    pipeline.set("GITHUB_REF_NAME", "7/merge");
    pipeline.set("TOUCHSTONE_CI_BASELINE_KEY", &keys.public());
    std::fs::write(
        pipeline.home.path("event.json"),
        json!({"pull_request": {"number": 7}}).to_string(),
    )
    .unwrap();
    artifacts(&pipeline, &json!([artifact("main", 1)]));
    std::fs::write(pipeline.home.path("gh/baseline.intoto.jsonl"), baseline).unwrap();
    Some(pipeline)
}

fn artifact(branch: &str, repository: u64) -> Value {
    json!({"id": 5, "expired": false, "workflow_run":
        {"head_branch": branch, "repository_id": 1, "head_repository_id": repository}})
}

fn artifacts(pipeline: &Pipeline, all: &Value) {
    let listed = json!({"artifacts": all}).to_string();
    std::fs::write(pipeline.home.path("gh/artifacts.json"), listed).unwrap();
}

#[test]
fn a_branch_that_passes_opens_the_gate_and_keeps_a_signed_baseline() {
    let keys = Keys::new();
    let Some(mut main) = job("the GitHub Action on a branch") else {
        return;
    };
    main.set("TOUCHSTONE_CI_BASELINE_KEY", &keys.public());
    let done = main.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let signed = main.attest(&keys);
    assert_eq!(signed.code, 0, "{}{}", signed.stdout, signed.stderr);
    assert!(
        done.stderr
            .contains("branch main has no run that passed yet"),
        "{}",
        done.stderr
    );
    let outputs = main.read("output.txt");
    for line in [
        "verdict=pass",
        "regression=none",
        "gate=open",
        "score=1.0",
        "baseline=.touchstone-results/baseline.intoto.jsonl",
    ] {
        assert!(outputs.lines().any(|it| it == line), "{line}: {outputs}");
    }
    assert!(main.read("summary.md").contains("**Gate open**"));
    assert!(!done.stdout.contains("::error"), "{}", done.stdout);
    // Neither the results nor the log have the key.
    let key = keys.private();
    let secret = key.lines().nth(1).unwrap();
    for text in [
        &done.stdout,
        &done.stderr,
        &signed.stdout,
        &signed.stderr,
        &outputs,
    ] {
        assert!(!text.contains(secret));
    }
    std::fs::write(main.home.path("ci.pub"), keys.public()).unwrap();
    let file = ".touchstone-results/run.intoto.jsonl";
    let verified = main
        .home
        .run(&["attest", "verify", file, "--key", "ci.pub"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn a_pull_request_that_makes_the_agent_worse_is_stopped_with_reasons() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let mut change = pull_request("a pull request", &keys, &baseline).unwrap();
    change.set("TOUCHSTONE_CI_COMMENT", "true");
    change.home.model(&wrong_answers(14));
    let done = change.run();
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let result = change.result();
    assert_eq!(
        (
            &result["verdict"],
            &result["regression"],
            &result["baseline"]
        ),
        (&json!("fail"), &json!("regressed"), &json!(""))
    );
    assert!(
        done.stdout
            .contains("significantly worse than the baseline"),
        "{}",
        done.stdout
    );
    let errors = done.stdout.lines().filter(|it| it.starts_with("::error "));
    assert_eq!(errors.count(), 10, "{}", done.stdout);
    // A run of a change is signed, but is not the baseline.
    let signed = change.attest(&keys);
    assert_eq!(signed.code, 0, "{}{}", signed.stdout, signed.stderr);
    let result = change.result();
    assert_eq!(
        result["attestation"],
        ".touchstone-results/run.intoto.jsonl"
    );
    assert_eq!(
        (&result["gate"], &result["baseline"]),
        (&json!("closed"), &json!(""))
    );
    let summary = change.read("summary.md");
    assert!(summary.contains("**Gate closed: "), "{summary}");
    assert!(summary.contains("against"), "{summary}");
    let posted = change.read("gh/posted");
    assert!(
        posted.starts_with("POST repos/acme/triage/issues/7/comments\n"),
        "{posted}"
    );
    assert!(posted.contains("<!-- touchstone:touchstone-baseline -->"));

    // The next run replaces the comment.
    let known = json!([{"id": 3, "body": "Hi"}, {"id": 4, "body": "<!-- touchstone:touchstone-baseline -->\n"}]);
    std::fs::write(change.home.path("gh/comments.json"), known.to_string()).unwrap();
    let done = change.run();
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let posted = change.read("gh/posted");
    assert!(
        posted.starts_with("PATCH repos/acme/triage/issues/comments/4\n"),
        "{posted}"
    );
}

/// GitHub lists 100 artifacts or comments per page.
#[rstest]
#[case::last_of_a_full_page(99)]
#[case::first_of_the_next_page(100)]
#[case::third_page(250)]
fn the_baseline_and_the_comment_are_found_on_any_page(#[case] before: usize) {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let mut change = pull_request("pages of artifacts", &keys, &baseline).unwrap();
    change.set("TOUCHSTONE_CI_COMMENT", "true");
    let mut all = vec![artifact("feature", 1); before];
    all.push(artifact("main", 1));
    artifacts(&change, &json!(all));
    let mut known = vec![json!({"id": 3, "body": "Hi"}); before];
    known.push(json!({"id": 4, "body": "<!-- touchstone:touchstone-baseline -->\n"}));
    std::fs::write(
        change.home.path("gh/comments.json"),
        json!(known).to_string(),
    )
    .unwrap();
    let done = change.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_ne!(change.result()["regression"], "none");
    let posted = change.read("gh/posted");
    let replaced = "PATCH repos/acme/triage/issues/comments/4\n";
    assert!(posted.starts_with(replaced), "{posted}");
}

#[test]
fn a_list_that_is_too_long_stops_the_job_with_a_remedy() {
    let keys = Keys::new();
    let Some(change) = pull_request("too many artifacts", &keys, b"never read") else {
        return;
    };
    artifacts(&change, &json!(vec![artifact("feature", 1); 3000]));
    let done = change.run();
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    for part in ["has more than 3000 entries", "delete old ones"] {
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    assert_eq!(change.runs(), 0, "nothing is paid for");
}

#[test]
fn a_pull_request_without_a_change_passes() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let change = pull_request("a pull request", &keys, &baseline).unwrap();
    let done = change.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(change.result()["gate"], "open");
    assert_ne!(change.result()["regression"], "none");
}

/// One of 20 tasks is not significant, but a team may not want to lose any.
#[test]
fn a_task_that_broke_closes_the_gate_if_any_counts() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let mut change = pull_request("a pull request", &keys, &baseline).unwrap();
    change.set("TOUCHSTONE_CI_VERDICT", "off");
    change.home.model(&wrong_answers(1));
    let done = change.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    change.set("TOUCHSTONE_CI_REGRESSION", "any");
    let done = change.run();
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("1 task(s) broke since the baseline"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_baseline_that_was_altered_or_signed_by_another_key_is_refused_before_the_run() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let text = String::from_utf8(baseline.clone()).unwrap();
    let altered = text.replacen("\"payload\":\"ey", "\"payload\":\"eZ", 1);
    assert_ne!(altered, text);
    let stranger = Keys::new();
    for (keys, baseline) in [(&keys, altered.as_bytes()), (&stranger, &baseline[..])] {
        let change = pull_request("a pull request", keys, baseline).unwrap();
        let done = change.run();
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
        assert!(
            done.stdout.contains("::error title=Touchstone::baseline ")
                && done.stdout.contains("no signature by this key covers it"),
            "{}",
            done.stdout
        );
        assert!(change.read("output.txt").contains("verdict=error"));
        assert_eq!(change.runs(), 0, "nothing is paid for");
    }
}

#[test]
fn artifacts_of_forks_and_of_other_branches_are_not_the_baseline() {
    let keys = Keys::new();
    let Some(mut change) = pull_request("a pull request", &keys, b"never read") else {
        return;
    };
    artifacts(
        &change,
        &json!([artifact("main", 2), artifact("feature", 1), {"id": 6, "expired": true}]),
    );
    change.set("TOUCHSTONE_CI_REGRESSION", "any");
    let done = change.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(change.result()["regression"], "none");
}

#[test]
fn an_inconclusive_verdict_closes_the_gate_unless_it_may_pass() {
    let Some(mut job) = job("an inconclusive verdict") else {
        return;
    };
    job.home.model(&json!(right_but_late("thanks", 60_000)));
    job.home.timeout(0.5);
    let done = job.run();
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout
            .contains("::warning title=task-unjudged::Task thanks"),
        "{}",
        done.stdout
    );
    job.set("TOUCHSTONE_CI_INCONCLUSIVE", "pass");
    let done = job.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(job.result()["verdict"], "inconclusive");
}

/// The agent could read the key from the environment of the process that evaluates it.
#[test]
fn the_step_that_evaluates_must_not_have_the_signing_key() {
    let keys = Keys::new();
    let Some(mut job) = job("the signing key of a pipeline") else {
        return;
    };
    let early = job.attest(&keys);
    assert_eq!(early.code, 2, "{}{}", early.stdout, early.stderr);
    assert!(
        early.stderr.contains("run touchstone-ci before"),
        "{}",
        early.stderr
    );
    job.set("TOUCHSTONE_CI_SIGNING_KEY", &keys.private());
    let done = job.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("touchstone-ci --attest"),
        "{}",
        done.stderr
    );
    assert_eq!(job.runs(), 0);

    let root = std::path::Path::new(super::ROOT);
    let action = std::fs::read_to_string(root.join("action.yml")).unwrap();
    let steps: Vec<&str> = action.split("\n    - ").collect();
    let with_key: Vec<&&str> = steps
        .iter()
        .filter(|step| step.contains("TOUCHSTONE_CI_SIGNING_KEY"))
        .collect();
    assert_eq!(with_key.len(), 1, "{with_key:?}");
    assert!(with_key[0].contains("evaluate\" --attest"), "{with_key:?}");
}

#[test]
fn without_a_key_nothing_is_signed() {
    let Some(job) = job("a pipeline without a key") else {
        return;
    };
    let done = job.script("evaluate", &["--attest"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("nothing is signed"), "{}", done.stderr);
}

#[test]
fn wrong_settings_are_named_before_anything_runs() {
    let Some(mut job) = job("wrong settings") else {
        return;
    };
    job.set("TOUCHSTONE_CI_REGRESSION", "often");
    let done = job.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    for part in ["TOUCHSTONE_CI_REGRESSION is 'often'", "shown, any, off"] {
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    job.set("TOUCHSTONE_CI_REGRESSION", "shown");
    job.set(
        "TOUCHSTONE_CI_ARGUMENTS",
        "--agent=$(touch owned); `touch owned`\n",
    );
    let done = job.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(!job.home.path("owned").exists());
    assert_eq!(job.runs(), 0);
}

#[test]
fn a_merge_queue_compares_with_its_target_branch_and_leaves_no_baseline() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let Some(mut queue) = pull_request("a merge queue", &keys, &baseline) else {
        return;
    };
    queue.set("GITHUB_BASE_REF", "");
    queue.set("GITHUB_REF_NAME", "gh-readonly-queue/main/pr-7-0a1b");
    let event = json!({"merge_group": {"base_ref": "refs/heads/main"}}).to_string();
    std::fs::write(queue.home.path("event.json"), event).unwrap();
    let done = queue.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_ne!(queue.result()["regression"], json!("none"));
    let signed = queue.attest(&keys);
    assert_eq!(signed.code, 0, "{}{}", signed.stdout, signed.stderr);
    assert_eq!(queue.result()["baseline"], json!(""));
}

#[test]
fn an_expired_baseline_is_named() {
    let keys = Keys::new();
    let Some(job) = pull_request("an expired baseline", &keys, b"") else {
        return;
    };
    let mut expired = artifact("main", 1);
    expired["expired"] = json!(true);
    artifacts(&job, &json!([expired]));
    let done = job.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("that of branch main has expired"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_fault_of_the_machine_is_no_failed_agent() {
    let keys = Keys::new();
    let Some(mut job) = pull_request("faults of the machine", &keys, b"") else {
        return;
    };
    std::fs::write(job.home.path("bin/gh"), "#!/bin/sh\necho not JSON\n").unwrap();
    let done = job.run();
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("did not answer with a list"),
        "{}",
        done.stderr
    );
    job.set("TOUCHSTONE_CI_OUT", "event.json");
    let done = job.run();
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("TOUCHSTONE_CI_OUT is event.json"),
        "{}",
        done.stderr
    );
}

#[test]
fn only_the_run_of_the_last_evaluation_is_signed_and_only_with_the_given_key() {
    let keys = Keys::new();
    let Some(mut job) = job("a reused folder") else {
        return;
    };
    assert_eq!(job.run().code, 0);
    job.set("TOUCHSTONE_SERVER", "http://127.0.0.1:9");
    let signed = job.attest(&keys);
    assert_eq!(signed.code, 2, "{}{}", signed.stdout, signed.stderr);
    assert!(
        signed.stderr.contains("the host signs the run"),
        "{}",
        signed.stderr
    );
    job.set("TOUCHSTONE_SERVER", "");
    job.set("TOUCHSTONE_CI_TARGET", "");
    job.set("TOUCHSTONE_CI_ARGUMENTS", "--cases=absent.csv\n");
    assert_eq!(job.run().code, 2);
    let signed = job.attest(&keys);
    assert_eq!(signed.code, 2, "{}{}", signed.stdout, signed.stderr);
    assert!(
        !job.home
            .path(".touchstone-results/run.intoto.jsonl")
            .exists()
    );
}
