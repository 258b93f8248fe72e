//! `run diff` and related commands: inspecting recorded runs without a server.

use reqwest::Method;
use serde_json::json;

use crate::cli::home::{Home, but, right_answers, right_but_late};
use crate::process::Site;

#[test]
fn a_diff_exits_0_for_the_same_run_and_1_for_another() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let before = home.run_of(&home.eval(&["--json"]).document());
    let mut rules = vec![but("thanks", json!({"output": {"queue": "spam"}}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home.eval(&["--json", "--baseline", &before]).document();
    let after = home.run_of(&report);
    let reference = format!("/v1/runs/{after}:diff?against={before}");
    assert_eq!(report["summary"]["regression"]["diffRef"], json!(reference));

    let same = home.run(&["run", "diff", &before, &before]);
    assert_eq!(
        (same.code, same.stdout.lines().last()),
        (0, Some("no difference"))
    );
    let other = home.run(&["run", "diff", &before, &after]);
    assert_eq!(other.code, 1, "{}", other.stderr);
    assert!(
        other.stdout.contains("diverged at event"),
        "{}",
        other.stdout
    );
    let document = home
        .run(&["--json", "run", "diff", &before, &after])
        .document();
    assert!(document["divergedAtSeq"].is_u64(), "{document}");
    let missing = home.run(&["run", "diff", &before, "run_absent"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
}

#[test]
fn a_replay_needs_no_model_and_a_branch_judges_again() {
    let home = Home::with_pack();
    let script = json!(right_but_late("thanks", 8_000));
    home.model(&script);
    let run = home.run_of(&home.eval(&["--json"]).document());
    // The model's current answers do not matter.
    home.model(&json!([]));
    let replay = home.run(&["--json", "run", "fork", &run]);
    assert_eq!(replay.code, 0, "{}{}", replay.stdout, replay.stderr);
    let report = replay.document();
    assert_eq!(
        report["fork"],
        json!({"sourceRunId": run, "fromSeq": 0, "mode": "replay"})
    );
    let same = home.run(&["run", "diff", &run, &home.run_of(&report)]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let shown = home.run(&["run", "show", &home.run_of(&report)]);
    let line = format!("fork    replay of {run} from event 0");
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    let branch = [
        "--json",
        "run",
        "fork",
        run.as_str(),
        "--mode",
        "branch",
        "--from-seq",
        "0",
    ];
    let changed = home.run(&branch);
    assert_eq!(changed.code, 2, "{}{}", changed.stdout, changed.stderr);
    home.model(&script);
    home.timeout(1.0);
    let branch = home.run(&branch);
    assert_eq!(branch.code, 4, "{}{}", branch.stdout, branch.stderr);
    let usage = home.run(&["run", "fork", &run, "--mode", "branch"]);
    assert_eq!(usage.code, 2, "{}", usage.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forked_workflow_is_followed_until_it_ends_or_waits() {
    let site = Site::embedded();
    site.write("touchstone.toml", "[conformance]\nenabled = true\n");
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    for (workflow, arguments, code, status) in [
        ("conformance-noop", &[][..], 0, "completed"),
        ("conformance-failure", &[], 1, "failed"),
        (
            "conformance-approval",
            &["--mode", "branch", "--from-seq", "0"],
            0,
            "waiting-approval",
        ),
    ] {
        let body = json!({"workflowId": workflow});
        let created = api.send(Method::POST, "/v1/runs", Some(&body)).await;
        let created: serde_json::Value = created.unwrap().json().await.unwrap();
        let run = created["runId"].as_str().unwrap();
        if arguments.is_empty() {
            api.log(run).await;
        }
        let fork = [&["run", "fork", run], arguments].concat();
        let output = site.touchstone_at(&api, &fork).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(said.trim().ends_with(status), "{said}");
        assert!(!said.contains(run), "the fork is another run: {said}");
        let with_file = [&fork[..], &["--junit", "eval.xml"]].concat();
        let refused = site.touchstone_at(&api, &with_file).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}

#[test]
fn a_bundle_is_printed_or_written_and_holds_no_answer() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let printed = home.run(&["run", "bundle", &run]).document();
    assert_eq!(printed["run"]["runId"], json!(run));
    let decided = |event: &&serde_json::Value| event["type"] == "agent.decided";
    let events = printed["events"].as_array().unwrap();
    let answers: Vec<_> = events.iter().filter(decided).collect();
    assert!(!answers.is_empty());
    for answer in answers {
        assert!(answer.to_string().contains("[REDACTED]"), "{answer}");
    }
    let written = home.run(&[
        "run",
        "bundle",
        &run,
        "--max-events",
        "2",
        "--out",
        "b.json",
    ]);
    assert_eq!((written.code, written.stdout.as_str()), (0, ""));
    assert!(
        written.stderr.contains("truncatedReason"),
        "{}",
        written.stderr
    );
    let text = std::fs::read_to_string(home.path("b.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["metrics"]["eventCount"], 2);
    for (arguments, code) in [
        (&["run_absent"][..], 2),
        (&[&run, "--out", "no/such/b.json"], 3),
        (&[&run, "--max-events", "-1"], 2),
    ] {
        let done = home.run(&[&["run", "bundle"], arguments].concat());
        assert_eq!(done.code, code, "{arguments:?}: {}", done.stderr);
    }
}

#[test]
fn a_correction_is_shown_beside_the_score_everywhere() {
    let home = Home::with_pack();
    let mut rules = vec![but("thanks", json!({"output": {"queue": "spam"}}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home.eval(&["--json"]).document();
    let run = home.run_of(&report);
    let said = home.run(&[
        "run",
        "annotate",
        &run,
        "--task",
        "thanks",
        "--correct",
        "spam is right",
        "--note",
        "ask Ann",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let line = "corrected to \"spam is right\" by local: ask Ann";
    assert!(said.stdout.contains(line), "{}", said.stdout);
    let shown = home.run(&["run", "show", &run, "--markdown", "eval.md"]);
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    assert!(
        shown.stdout.contains("scores and verdict are unchanged"),
        "{}",
        shown.stdout
    );
    let markdown = std::fs::read_to_string(home.path("eval.md")).unwrap();
    assert!(markdown.contains("spam is right"), "{markdown}");
    let after = home.run(&["--json", "run", "show", &run]).document();
    assert_eq!(after["summary"], report["summary"]);
    let rated = home
        .run(&["--json", "run", "annotate", &run, "--rating", "4"])
        .document();
    assert_eq!(rated["signal"], json!({"kind": "rating", "rating": 4}));
    for (arguments, code) in [
        (&["--task", "no-such-task", "--flag"][..], 2),
        (&["--rating", "6"], 2),
        (&["--note", "nothing said"], 0),
        (&[], 2),
        (&["--flag", "--label", "x"], 2),
    ] {
        let done = home.run(&[&["run", "annotate", &run], arguments].concat());
        assert_eq!(done.code, code, "{arguments:?}: {}", done.stderr);
    }
}

/// File names in an archive are chosen by its author: with U+202E, a name that ends in `dm.exe` is
/// displayed as `exe.md`.
#[test]
fn names_in_an_archive_do_not_act_on_the_terminal() {
    let site = Site::embedded();
    let manifest = json!({
        "name": "private.touchstone.turned", "version": "1.0.0", "license": "Apache-2.0",
        "engines": {"openwop": ">=1.0.0 <2.0.0"}, "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": "private.touchstone.turned.default", "persona": "Turned", "modelClass": "general",
            "systemPromptRef": "prompts/probe.md"}]
    });
    site.write("turned/pack.json", &manifest.to_string());
    site.write("turned/prompts/probe.md", "Be brief.");
    site.write("turned/prompts/\u{202e}dm.exe", "x");
    site.run_on_files(&["pack", "build", "turned", "--out", "turned.tgz"]);
    let shown = site.run_on_files(&["pack", "inspect", "turned.tgz"]);
    assert!(shown.contains("prompts/ dm.exe"), "{shown:?}");
    assert!(!shown.contains('\u{202e}'), "{shown:?}");
    let shown = site.run_on_files(&["--json", "pack", "inspect", "turned.tgz"]);
    assert!(shown.contains("prompts/\\u202edm.exe") && !shown.contains('\u{202e}'));
    let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert!(read.to_string().contains("prompts/\u{202e}dm.exe"));
}
