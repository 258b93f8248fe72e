//! `run list`, the names of runs, tags, and the hints of commands.

use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, SUITE};

use super::support::printed_command;
use crate::cli::home::{Done, Home, but, right_answers};

/// A home with a passed run and a failed one after it.
fn with_runs() -> (Home, [String; 2]) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let passed = home.eval(&["--json", "--tag", "nightly"]);
    assert_eq!(passed.code, 0, "{}", passed.stderr);
    let wrong: Vec<Value> = right_answers()
        .into_iter()
        .map(|mut rule| {
            rule["turns"] = json!([{"text": "no JSON"}]);
            rule
        })
        .collect();
    home.model(&json!(wrong));
    let failed = home.eval(&["--json"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let runs = [&passed, &failed].map(|done| home.run_of(&done.document()));
    home.model(&json!(right_answers()));
    (home, runs)
}

fn ids(done: &Done) -> Vec<String> {
    let document = done.document();
    let runs = document["runs"].as_array().unwrap().iter();
    runs.map(|run| run["runId"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn runs_are_listed_by_conditions_in_every_form() {
    let (home, [passed, failed]) = with_runs();
    assert_eq!(
        ids(&home.run(&["--json", "run", "list"])),
        [failed.clone(), passed.clone()]
    );
    let agent = format!("{AGENT}@");
    for (conditions, expected) in [
        // Both runs count for the verdict of the first one, as for its exit code.
        (vec!["--verdict", "pass"], vec![]),
        (
            vec!["--verdict", "fail", "--suite", SUITE],
            vec![&failed, &passed],
        ),
        (vec!["--agent", AGENT, "--limit", "1"], vec![&failed]),
        (vec!["--tag", "nightly"], vec![&passed]),
        (
            vec!["--since", "1h", "--status", "completed"],
            vec![&failed, &passed],
        ),
        (vec!["--until", "1h"], vec![]),
        (vec!["--model", "none"], vec![]),
    ] {
        let done = home.run(&[&["--json", "run", "list"][..], &conditions].concat());
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(ids(&done), expected, "{conditions:?}");
    }
    let piped = home.run(&["run", "list"]);
    let lines: Vec<&str> = piped.stdout.lines().collect();
    let [first, second] = lines.as_slice() else {
        panic!("{}", piped.stdout);
    };
    assert!(
        first.starts_with(&failed) && first.contains("fail"),
        "{first}"
    );
    assert!(
        second.starts_with(&passed) && second.contains(&agent),
        "{second}"
    );
    assert!(second.ends_with("nightly"), "{second}");

    let mut command = home.touchstone();
    command.env("CLICOLOR_FORCE", "1").env("COLUMNS", "100");
    let table = Done::of(command.args(["run", "list"])).stdout;
    assert!(
        table.contains("────") && table.contains(&SUITE.replace('@', " ")),
        "{table}"
    );

    let page = home.run(&["run", "list", "--limit", "1"]);
    let cursor = page.stderr.split("--cursor ").nth(1).unwrap();
    let cursor = cursor.split([',', '\n']).next().unwrap();
    let next = home.run(&["--json", "run", "list", "--cursor", cursor]);
    assert_eq!(ids(&next), [passed]);
}

#[test]
fn a_run_is_named_by_latest_by_latest_passed_or_by_a_unique_prefix() {
    let (home, [passed, failed]) = with_runs();
    let shown = |name: &str| home.run(&["--json", "run", "show", name]);
    assert_eq!(home.run_of(&shown("latest").document()), failed);
    assert_eq!(home.run_of(&shown("latest-passed").document()), passed);
    let common = passed
        .bytes()
        .zip(failed.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    assert_eq!(home.run_of(&shown(&passed[..=common]).document()), passed);
    let ambiguous = home.run(&["run", "show", &passed[..common]]);
    assert_eq!(ambiguous.code, 2);
    for id in [&passed, &failed] {
        assert!(ambiguous.stderr.contains(id), "{}", ambiguous.stderr);
    }
    let short = home.run(&["run", "show", "run_01"]);
    assert!(short.stderr.contains("too short"), "{}", short.stderr);

    let compared = home.run(&["--json", "compare", "latest-passed", "latest"]);
    assert_eq!(compared.code, 0, "{}", compared.stderr);
    assert_eq!(compared.document()["baseline"]["runIds"], json!([passed]));
    let again = home.eval(&["--json", "--baseline", "latest-passed"]);
    assert_eq!(
        again.document()["summary"]["regression"]["baselineRunId"],
        json!(passed)
    );
}

#[test]
fn an_optional_baseline_may_lack_only_the_latest_run() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let refused = home.eval(&["--json", "--baseline", "latest"]);
    assert_eq!(refused.code, 2);
    assert_eq!(refused.document()["error"]["code"], "not_found");
    let optional = ["--json", "--baseline-optional", "--baseline"];
    let unknown = home.eval(&[&optional[..], &["run_0199c0de"]].concat());
    assert_eq!(unknown.code, 2, "{}", unknown.stdout);
    let first = home.eval(&[&optional[..], &["latest-passed"]].concat());
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    assert!(
        first
            .stderr
            .contains("no comparison: there is no passed eval run"),
        "{}",
        first.stderr
    );
    assert!(first.document()["summary"].get("regression").is_none());
    let second = home.eval(&[&optional[..], &["latest-passed"]].concat());
    assert!(second.document()["summary"]["regression"]["baselineRunId"].is_string());
}

#[test]
fn an_unknown_run_task_agent_or_suite_comes_with_similar_names() {
    let (home, [passed, _]) = with_runs();
    let mut misspelled = passed.clone();
    misspelled.replace_range(10..12, "zz");
    for (command, suggestion) in [
        (vec!["run", "show", &misspelled], passed.as_str()),
        (
            vec!["run", "show", &passed, "--task", "charged-twise"],
            "charged-twice",
        ),
        (
            vec!["eval", SUITE, "--agent", &AGENT[..AGENT.len() - 1]],
            AGENT,
        ),
        (
            vec![
                "eval",
                &SUITE.replace("support", "suport"),
                "--agent",
                AGENT,
            ],
            SUITE,
        ),
    ] {
        let done = home.run(&command);
        assert_eq!(done.code, 2, "{command:?} {}", done.stderr);
        let asked = format!("did you mean {suggestion}");
        assert!(done.stderr.contains(&asked), "{command:?} {}", done.stderr);
    }
}

#[test]
fn nothing_is_created_by_reading() {
    let home = Home::empty();
    let listed = home.run(&["run", "list"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""));
    assert!(listed.stderr.contains("no runs yet"), "{}", listed.stderr);
    assert_eq!(
        home.run(&["--json", "run", "list"]).document(),
        json!({"runs": []})
    );
    for command in [
        vec!["run", "show", "latest"],
        vec!["run", "show", "run_0199c0de"],
        vec!["run", "events", "run_0199c0de0199c0de0199c0de0199c0de"],
        vec!["run", "tag", "latest", "nightly"],
        vec!["compare", "latest-passed", "latest"],
    ] {
        let done = home.run(&command);
        assert_eq!(done.code, 2, "{command:?} {}{}", done.stdout, done.stderr);
    }
    for command in [
        "suite list",
        "audit list",
        "run usage",
        "gate show",
        "gate check vendor.acme.triage.default@1.0.0 --channel stable",
        "pack list",
        "deploy list vendor.acme.triage.default",
        "webhook list",
        "judge list",
        "oasis profiles",
        "card watched",
        "rating report --format html",
    ] {
        let words: Vec<&str> = command.split_whitespace().collect();
        let done = home.run(&words);
        assert!(!home.data().exists(), "{command}");
        assert_ne!(done.code, 3, "{command} {}", done.stderr);
    }
    assert!(!home.data().exists());
}

#[test]
fn tags_and_notes_are_shown_with_the_run() {
    let (home, [_, failed]) = with_runs();
    let tagged = home.run(&["run", "tag", "latest", "slow", "prompt-2"]);
    assert_eq!(tagged.code, 0, "{}", tagged.stderr);
    assert_eq!(tagged.stdout, format!("{failed}  prompt-2, slow\n"));
    home.run(&["run", "tag", "latest", "slow", "--remove"]);
    let noted = home.run(&[
        "run",
        "annotate",
        "latest",
        "--note",
        "after the new prompt",
    ]);
    assert_eq!(noted.code, 0, "{}", noted.stderr);
    let shown = home.run(&["run", "show", "latest"]).stdout;
    assert!(shown.contains("tags    prompt-2\n"), "{shown}");
    assert!(shown.contains("after the new prompt"), "{shown}");
    assert_eq!(
        ids(&home.run(&["--json", "run", "list", "--tag", "prompt-2"])),
        [failed]
    );
}

#[test]
fn a_run_without_a_judged_task_has_no_score_and_its_hint_works() {
    let home = Home::with_pack();
    home.model(&json!([{"when": {}, "turns": [{"fail": "unauthorized"}]}]));
    let done = home.eval(&[]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("score –"), "{}", done.stdout);
    let listed = home.run(&["run", "list"]).stdout;
    assert!(listed.contains("inconclusive  –"), "{listed}");
    let row = &home.run(&["--json", "run", "list"]).document()["runs"][0];
    assert_eq!(row["result"].get("score"), None, "{row}");

    let hint = printed_command(&done.stderr, "touchstone run retry");
    let hint: Vec<&str> = hint.iter().map(String::as_str).collect();
    home.run(&hint);
    assert_eq!(ids(&home.run(&["--json", "run", "list"])).len(), 2);
}

/// The URL of a model endpoint that gives this status.
fn endpoint_with(status: &'static str) -> String {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 65_536]);
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{{}}",
            );
            let _ = stream.write_all(answer.as_bytes());
            // A connection that is closed with unread bytes is reset, and its answer may be lost.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    url
}

#[test]
fn an_endpoint_without_the_model_is_named() {
    let url = endpoint_with("404 Not Found");
    let home = Home::with_pack();
    let done = home.eval(&["--model-url", &url, "--model", "small-1"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let explained = format!("{url} answered 404 for model small-1: check the URL");
    assert!(done.stderr.contains(&explained), "{}", done.stderr);
}

#[test]
fn a_rejected_key_is_explained_with_url_model_and_variable() {
    let url = endpoint_with("401 Unauthorized");
    let home = Home::with_pack();
    let done = home.eval(&["--model-url", &url, "--model", "small-1"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let explained = format!(
        "{url} answered 401 for model small-1: set its API key in TOUCHSTONE_MODEL_API_KEY or \
         OPENAI_API_KEY"
    );
    assert!(done.stderr.contains(&explained), "{}", done.stderr);
}

#[test]
fn a_run_whose_command_was_killed_is_continued() {
    let home = Home::with_pack();
    let mut rules = vec![but("thanks", json!({"text": "late", "delayMs": 10_000}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let (mut child, _stderr, run) = home.start_eval();
    child.kill().unwrap();
    child.wait().unwrap();
    let failed = home.run(&["run", "show", "latest", "--failed"]);
    assert_eq!(failed.code, 4, "{}{}", failed.stdout, failed.stderr);
    assert!(!failed.stdout.contains("every"), "{}", failed.stdout);
    let shown = home.run(&["run", "show", &run]);
    for done in [&failed, &shown] {
        let hint = printed_command(&done.stderr, "touchstone run continue");
        assert_eq!(hint, ["run", "continue", &run], "{}", done.stderr);
    }
    assert!(failed.stderr.contains("has not ended"), "{}", failed.stderr);
    let continued = home.run(&["--json", "run", "continue", "latest"]);
    assert_eq!(
        continued.document()["runId"],
        json!(run),
        "{}",
        continued.stderr
    );
    assert_eq!(continued.document()["status"], "completed");
    let ended = home.run(&["run", "continue", &run]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let hint = printed_command(&ended.stderr, "touchstone run show");
    let hint: Vec<&str> = hint.iter().map(String::as_str).take(3).collect();
    assert_eq!(hint, ["run", "show", &run]);
    // Every task is judged.
    assert!(!ended.stderr.contains("run retry"), "{}", ended.stderr);
}

#[test]
fn messages_of_the_terminal_name_options_and_not_members_of_the_api() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let done = home.eval(&["--mode", "regression"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--baseline"), "{}", done.stderr);
    assert!(!done.stderr.contains("configurable"), "{}", done.stderr);
}
